"""What trainers log to Trackio is read row for row: from SQLite, live with its log, and from Parquet."""

import json
import os
import shutil
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

import pytest
from read_formats import DATA, opened, reasons, records, run_at, values_of

from board import cli
from board.analysis.audit import audit_all
from board.formats.io import sqlite_files, trackio_files
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Follower
from board.query.trainer.metrics import read_trainer_metrics

LOGS = DATA / "trackio"
TRL = LOGS / "trl" / "huggingface.db"
OF_TRL = {"prompt": "prompt", "response": "completion", "advantage": "advantage", "task": "task"}


def plainly(path: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
        return database.execute(query).fetchall()


def rows_logged(path: Path, run: str) -> list[dict]:
    """The rows of the tables of a run, in their order."""
    query = f"SELECT metrics FROM metrics WHERE run_name = '{run}' ORDER BY id"
    logged = (json.loads(content) for (content,) in plainly(path, query))
    return [row for one in logged if "completions" in one for row in one["completions"]["_value"]]


def runs_at(path: Path) -> dict:
    return {info.family or info.name: Follower().run(info) for info in discover(path).runs}


def missing_of(run) -> list[str]:
    return [problem.reason for problem in audit_all(run, lambda done, total: None).problems]


@pytest.mark.parametrize("run", ["grpo-text", "grpo-chat"])
def test_every_row_of_a_table_is_a_rollout_at_the_step_of_its_trainer(run):
    rows = rows_logged(TRL, run)
    result = records(runs_at(TRL.parent)[run])
    assert len(result) == len(rows) == 24
    for record, row in zip(result, rows, strict=True):
        values = values_of(record)
        assert record.step == row["step"]
        expected = [row["accuracy_reward"], row["format_reward"]]
        parts = [values.get(f"rewards.{name}_reward") for name in ("accuracy", "format")]
        assert parts == [None if part == "NaN" else part for part in expected]
        for name, column in OF_TRL.items():
            said = row[column]
            if isinstance(said, list):
                assert all(message["content"] in values[name] for message in said)
            else:
                assert values[name] == said


def test_a_run_of_a_project_has_the_curves_of_its_own_trainer():
    for name, run in runs_at(TRL.parent).items():
        query = f"SELECT metrics FROM metrics WHERE run_name = '{name}' ORDER BY id"
        logged = [json.loads(content) for (content,) in plainly(TRL, query)]
        losses = [one["train/reward"] for one in logged if "train/reward" in one]
        metrics = read_trainer_metrics(run)
        assert metrics.curves["trainer/train/reward"].values.tolist() == losses
        assert metrics.problems == ()


@pytest.mark.parametrize(
    ("name", "split", "parts"),
    [("async_grpo", "train", {"rewards.weather_reward"}), ("verl", "eval", set())],
)
def test_every_trace_is_a_rollout_with_its_messages_and_its_metadata(name, split, parts):
    (path,) = (LOGS / name).glob("*.db")
    query = "SELECT id, step, messages, metadata FROM traces ORDER BY rowid"
    traces = [(*row[:2], *map(json.loads, row[2:])) for row in plainly(path, query)]
    run = run_at(LOGS / name)
    result = records(run)
    assert len(result) == len(traces)
    for record, (id_, step, messages, metadata) in zip(result, traces, strict=True):
        values = values_of(record)
        assert (record.step, values["rollout_id"], values["split"]) == (step, id_, split)
        assert values["reward"] == metadata.get("reward", metadata.get("score"))
        assert values.get("advantage") == metadata.get("advantage")
        group = metadata.get("group_id")
        assert values.get("group_id") == (None if group is None else str(group))
        text = values["prompt"] + values["response"]
        assert all(message["content"] in text for message in messages)
        assert {key for key in values if key.startswith("rewards.")} == parts
    assert missing_of(run) == reasons(run) == []


@pytest.mark.parametrize(
    ("exported", "database", "run"),
    [("exported_tables", TRL, "grpo-text"), ("exported_traces", LOGS / "async_grpo", "async_grpo")],
)
def test_what_trackio_exports_to_parquet_is_read_as_its_database(exported, database, run):
    folder = database.parent if database.is_file() else database
    # Each was logged by a process of its own; the reward is the trainer's, whose curves are not exported.
    differing = ("timestamp", "rollout_id", "reward")
    of_each = (
        [
            {key: value for key, value in values_of(record).items() if key not in differing}
            for record in records(one)
        ]
        for one in (run_at(LOGS / exported), runs_at(folder)[run])
    )
    first, second = of_each
    assert len(first) > 0
    assert first == second


# Databases that a test makes


def project(path: Path) -> sqlite3.Connection:
    """An empty one, with the tables of the real ones."""
    schema = plainly(TRL, "SELECT sql FROM sqlite_master WHERE name IN ('metrics', 'traces')")
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    for (statement,) in schema:
        database.execute(statement)
    return database


def log(database, step, content, run="run", key=None, log_id=None):
    """A call of log. content: what it logs, as JSON has it."""
    names = "(run_id, run_name, timestamp, step, metrics, log_id)"
    values = (key or run, run, f"2026-01-01T00:00:{step:02}", step, json.dumps(content), log_id)
    database.execute(f"INSERT INTO metrics {names} VALUES (?, ?, ?, ?, ?, ?)", values)
    database.commit()


def trace(database, id_, step, reply, run="run", log_id: str | None = "call", messages=None):
    said = [{"role": "user", "content": "What is it?"}, {"role": "assistant", "content": reply}]
    text = json.dumps(said) if messages is None else messages
    names = "(id, run_id, run_name, timestamp, step, key, messages, metadata, search_text, log_id)"
    values = (id_, run, run, f"2026-01-01T00:00:{step:02}", step, "rollouts", text)
    marks = ", ".join("?" * 10)
    rest = ('{"reward": 1}', "", log_id)
    database.execute(f"INSERT INTO traces {names} VALUES ({marks})", (*values, *rest))
    database.commit()


def table(*replies: str, step: int = 1) -> dict:
    rows = [{"step": step, "prompt": "p", "completion": r, "advantage": 0.5} for r in replies]
    return {"_type": "trackio.table", "_value": rows}


def responses(run) -> list[tuple[int, str]]:
    return [(one.record.step, one.record.texts["response"]) for one in opened(run)]


def test_a_buffer_that_is_logged_again_is_shown_once_and_equal_traces_are_rollouts_each(tmp_path):
    with closing(project(tmp_path / "p.db")) as database:
        for step in (1, 2):
            log(database, step, {"completions": table("a", "b", step=step)})
        for step in (3, 4):
            log(database, step, {}, log_id=f"call {step}")
            for number in range(2):
                trace(database, f"{step}-{number}", step, f"reply {number}", log_id=f"call {step}")
    run = run_at(tmp_path)
    same = ["reply 0", "reply 1"]
    assert responses(run) == [(1, "a"), (1, "b"), *((step, r) for step in (3, 4) for r in same)]
    assert run.repeated == 2


def test_traces_without_their_call_and_those_of_versions_without_a_table_are_shown(tmp_path):
    with closing(project(tmp_path / "p.db")) as database:
        message = {"role": "assistant", "content": "in the metrics"}
        inline = {"_type": "trackio.trace", "messages": [message], "metadata": {"reward": 0}}
        log(database, 1, {"rollouts": [inline]})
        trace(database, "t", 2, "by itself", log_id=None)
        log(database, 3, {"completions": table("in a table", step=3)})
    assert responses(run_at(tmp_path)) == [
        (1, "in the metrics"),
        (2, "by itself"),
        (3, "in a table"),
    ]


def test_rows_in_the_log_of_a_database_are_news_and_nothing_is_written_beside_it(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = pytest.importorskip("trackio.sqlite_storage")
    path = tmp_path / "p.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "TRACKIO_DIR", tmp_path)
        write = storage.SQLiteStorage.bulk_log
        write("p", "run", [{"completions": table("first")}], steps=[1])
        with closing(sqlite3.connect(path)) as reader:  # so that the log stays
            reader.execute("SELECT count(*) FROM metrics").fetchall()
            write("p", "run", [{"loss": 0.5}], steps=[1])
            (info,), follower = discover(tmp_path).runs, Follower()
            assert responses(follower.run(info)) == [(1, "first")]
            state, beside = path.stat(), sorted(tmp_path.iterdir())
            write("p", "run", [{"completions": table("second", step=2)}], steps=[2])
            write("p", "other", [{"completions": table("third", step=1)}], steps=[1])
            assert path.stat().st_mtime_ns == state.st_mtime_ns
            other, new = discover(tmp_path).runs
            assert responses(follower.run(new)) == [(1, "first"), (2, "second")]
            assert responses(Follower().run(other)) == [(1, "third")]
            assert sorted(tmp_path.iterdir()) == beside


@pytest.fixture
def read_again(monkeypatch):
    """Gives what reads a project once more, and says of which offsets it read the lines."""
    follower, offsets, fetch = Follower(), [], trackio_files.TrackioFiles.fetch_many

    def noted(self, path, places):
        offsets.extend(offset for offset, _ in places)
        return fetch(self, path, places)

    monkeypatch.setattr(trackio_files.TrackioFiles, "fetch_many", noted)

    def read(folder: Path):
        offsets.clear()
        (info,) = discover(folder).runs
        return follower.run(info), [*offsets]

    return read


def add(database, step):
    """A call with a table, one with traces, or a trace by itself, at a step."""
    match step % 3:
        case 0:
            log(database, step, {"completions": table(f"table {step}", step=step)})
        case 1:
            log(database, step, {}, log_id=f"call {step}")
            trace(database, f"t{step}", step, f"trace {step}", log_id=f"call {step}")
        case _:
            trace(database, f"t{step}", step, f"alone {step}", log_id=None)


@pytest.mark.parametrize("known", [3, 12])
def test_of_a_project_that_grows_the_new_lines_alone_are_read(tmp_path, read_again, known):
    with closing(project(tmp_path / "p.db")) as database:
        for step in range(known):
            add(database, step)
        assert len(read_again(tmp_path)[1]) == known
        for step in range(known, known + 4):
            add(database, step)
        run, offsets = read_again(tmp_path)
        log(database, known + 4, {"loss": 0.5})
        assert read_again(tmp_path)[1] == []
    assert len(offsets) == 4
    assert responses(run) == responses(run_at(tmp_path))
    assert [step for step, _ in responses(run)] == [*range(known + 4)]


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM metrics WHERE step = 0",
        "DELETE FROM traces WHERE step = 2",
        "UPDATE metrics SET id = id + 100 WHERE step = 3",
    ],
)
def test_a_project_whose_rows_are_others_is_read_from_its_beginning(tmp_path, read_again, change):
    with closing(project(tmp_path / "p.db")) as database:
        for step in range(6):
            add(database, step)
        read_again(tmp_path)
        database.execute(change)
        database.commit()
        for step in range(6, 12):
            add(database, step)
        run, offsets = read_again(tmp_path)
    assert len(offsets) == len(responses(run))
    assert responses(run) == responses(run_at(tmp_path))


def test_a_run_is_as_large_and_as_new_as_its_rollouts_and_is_not_read_again_for_others(tmp_path):
    with closing(project(tmp_path / "p.db")) as database:
        for run in ("first", "second"):
            log(database, 1, {"completions": table("a reply")}, run=run)
        log(database, 2, {"loss": 0.5}, run="first")
    before = {info.family: info.files for info in discover(tmp_path).runs}
    size = len(json.dumps({"completions": table("a reply")}))
    assert [files[0].size for files in before.values()] == [size, size]
    with closing(sqlite3.connect(tmp_path / "p.db")) as database:
        log(database, 3, {"loss": 0.25}, run="first")
        log(database, 3, {"completions": table("another reply", step=3)}, run="second")
    after = {info.family: info.files for info in discover(tmp_path).runs}
    assert after["first"] == before["first"]
    assert after["second"] != before["second"]


def test_runs_of_one_name_are_told_apart_and_one_without_rollouts_is_none(tmp_path):
    with closing(project(tmp_path / "p.db")) as database:
        for number, key in enumerate(("aaaaaaaaaa", "bbbbbbbbbb")):
            log(database, 1, {"completions": table(f"of {number}")}, key=key)
        log(database, 1, {"loss": 0.5}, run="numbers alone")
    runs = runs_at(tmp_path)
    assert {name: responses(run) for name, run in runs.items()} == {
        "run (aaaaaaaa)": [(1, "of 0")],
        "run (bbbbbbbb)": [(1, "of 1")],
    }


def test_a_project_of_numbers_alone_is_the_metrics_of_the_run_beside_it(tmp_path):
    (tmp_path / "log.jsonl").write_text(
        '{"step": 1, "prompt": "p", "response": "r", "reward": 1}\n'
    )
    with closing(project(tmp_path / "p.db")) as database:
        log(database, 1, {"loss": 0.5})
    run = run_at(tmp_path)
    assert read_trainer_metrics(run).curves["trainer/loss"].values.tolist() == [0.5]
    assert reasons(run) == []


def test_what_a_call_logs_beside_rollouts_is_named_and_its_numbers_are_the_trainers(tmp_path):
    with closing(project(tmp_path / "p.db")) as database:
        beside = {"note": "a text that is no rollout", "loss": 0.5}
        other = {"_type": "trackio.table", "_value": [{"city": "a town without an answer"}]}
        log(database, 1, {"completions": table("a reply"), "cities": other, **beside})
    run = run_at(tmp_path)
    assert responses(run) == [(1, "a reply")]
    assert ("the line belongs to no rollout and is not shown", 1) in reasons(run)
    named = {(one.field, one.reason) for one in audit_all(run, lambda done, total: None).problems}
    assert {field for field, _ in named} == {"others.note", "tables[].rows[].city"}


def test_rows_that_are_broken_or_too_long_are_named_and_the_others_are_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(trackio_files, "MAX_LINE_BYTES", 4000)
    with closing(project(tmp_path / "p.db")) as database:
        log(database, 1, {"completions": table("a reply")})
        trace(database, "broken", 2, "", log_id=None, messages='[{"role": "user", "conte')
        trace(database, "long", 3, "x" * 5000, log_id=None)
        trace(database, "good", 4, "another reply", log_id=None)
    run = run_at(tmp_path)
    assert responses(run) == [(1, "a reply"), (4, "another reply")]
    lost = [problem.reason for problem in run.problems if problem.severity == "lost"]
    assert [("messages are not JSON" in r, "longer than" in r) for r in lost] == [
        (True, False),
        (False, True),
    ]


def test_views_of_a_file_are_never_run(tmp_path):
    with closing(project(tmp_path / "p.db")) as database:
        log(database, 1, {"completions": table("a reply")})
        database.execute("DROP TABLE traces")
        columns = "'t' AS id, 'run' AS run_id, 'run' AS run_name, '2026' AS timestamp, 1 AS step"
        database.execute(
            f"CREATE VIEW traces AS SELECT {columns}, '[]' AS messages, '{{}}' AS metadata"
        )
        database.commit()
    assert responses(run_at(tmp_path)) == [(1, "a reply")]


def test_other_databases_are_no_logs_and_a_damaged_one_is_named(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as database:
        database.execute("CREATE TABLE users (name)")
        database.commit()
    shutil.copy(TRL, tmp_path / "damaged.db")
    content = bytearray(TRL.read_bytes())
    content[512:20_000] = bytes(len(content[512:20_000]))
    (tmp_path / "damaged.db").write_bytes(content)
    os.utime(tmp_path / "damaged.db", (0, 0))
    (tmp_path / "leveldb.db").write_text("no database")
    said = {problem.path: problem for problem in discover(tmp_path).left_out}
    assert trackio_files.NO_PROJECT in said["other.db"].reason
    assert (said["other.db"].severity, said["damaged.db"].severity) == ("note", "lost")
    assert set(said) == {"other.db", "damaged.db"}


def test_a_database_that_takes_too_long_is_named(tmp_path, monkeypatch):
    shutil.copy(TRL, tmp_path / "p.db")
    monkeypatch.setattr(sqlite_files, "_MOST_SECONDS", -1.0)
    monkeypatch.setattr(sqlite_files, "_INSTRUCTIONS", 10)
    (problem,) = discover(tmp_path).left_out
    assert "SQLite took more than" in problem.reason


def test_a_file_made_of_too_many_runs_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(trackio_files, "_MOST_RUNS", 3)
    with closing(project(tmp_path / "p.db")) as database:
        for number in range(5):
            log(database, 1, {"completions": table("a reply")}, run=f"run {number}")
    (problem,) = discover(tmp_path).left_out
    assert "more than 3 runs" in problem.reason


def test_a_run_of_a_project_is_chosen_by_its_source(capsys):
    assert (
        cli.main(["steps", str(TRL.parent), "--source", "huggingface.db/grpo-text", "--json"]) == 0
    )
    assert [row["rollouts"] for row in json.loads(capsys.readouterr().out)["rows"]] == [8, 8, 8]
    assert cli.main(["steps", str(TRL.parent)]) != 0
    assert "holds logs of 2 runs" in capsys.readouterr().err
