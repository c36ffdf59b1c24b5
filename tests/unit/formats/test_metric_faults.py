"""Files of metrics that are damaged, hostile, replaced or still written give no wrong number."""

import json
import shutil
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest
from read_metrics import offline_run, only_source, points_of, write_events

from board.formats.io import sqlite_files
from board.formats.metrics import MOST_SOURCES, metric_sources
from board.formats.metrics.base import MOST_RECORD_BYTES, MetricSource
from board.formats.metrics.points import MOST_NAME_CHARACTERS
from board.formats.metrics.wandb_files import WandbFile

LARGE = MOST_RECORD_BYTES + 1


def reasons(source: MetricSource) -> list[str]:
    return [problem.reason for problem in source.problems]


def lines_of(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


# All sources


class Failing(MetricSource):
    title = "failing"

    def read(self, report):
        report(1)
        raise ZeroDivisionError("of the reader")


def test_whatever_a_reader_raises_is_a_problem_and_what_report_raises_is_raised(tmp_path):
    source = Failing("a.csv", ())
    source.update()
    assert reasons(source) == ["can't be read: ZeroDivisionError: of the reader"]

    def stop(done):
        raise LookupError("stopped")

    with pytest.raises(LookupError, match="stopped"):
        source.update(stop)


def test_what_is_said_of_a_reading_goes_when_the_next_one_is_well(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(lines_of({"step": 1, "loss": 0.5}, {"loss": 1}))
    source = only_source(tmp_path)
    path.unlink()
    for _ in range(2):
        source.update()
        assert [problem.count for problem in source.problems] == [1, 1]
    path.write_text(lines_of({"step": 1, "loss": 0.5}, {"loss": 1}))
    source.update()
    assert reasons(source) == ["a line without a step"]


def test_names_that_are_too_long_are_left_out_and_counted(tmp_path):
    long = "x" * (MOST_NAME_CHARACTERS + 1)
    record = {"step": 1, "loss": 0.5, long: 1.0, f"{long}y": {"a": 1, "b": 2}, "y": {long: 1}}
    (tmp_path / "metrics.jsonl").write_text(lines_of(record))
    source = only_source(tmp_path)
    assert points_of(source) == [(1, "loss", 0.5)]
    assert [(p.count, "longer than 300" in p.reason) for p in source.problems] == [(3, True)]


def test_sources_come_in_natural_order_and_those_beyond_the_most_are_named(tmp_path):
    paths = [tmp_path / f"{number}.jsonl" for number in range(MOST_SOURCES + 20)]
    for path in paths:
        path.write_text(lines_of({"step": 1, "loss": 0.5}))
    *shown, left_out = metric_sources(reversed(paths), tmp_path)
    assert [source.name for source in shown] == [path.name for path in paths[:MOST_SOURCES]]
    left_out.update()
    (reason,) = reasons(left_out)
    assert reason.endswith(
        "256.jsonl, 257.jsonl, 258.jsonl, 259.jsonl, 260.jsonl, 261.jsonl, "
        "262.jsonl, 263.jsonl, 264.jsonl, 265.jsonl and 10 more"
    )
    assert not left_out.is_changed
    assert len(metric_sources(paths[:MOST_SOURCES], tmp_path)) == MOST_SOURCES


# Lines


def test_what_stands_beside_a_wrapper_is_read_too(tmp_path):
    record = {"step": 1, "ts": 1.5, "metrics": {"a": 1.0}, "data": {"b": 2.0}, "loss": 3.0}
    (tmp_path / "metrics.jsonl").write_text(lines_of(record))
    assert points_of(only_source(tmp_path)) == [(1, "a", 1.0), (1, "b", 2.0), (1, "loss", 3.0)]


def test_lines_are_numbered_right_behind_one_whose_newline_came_later(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": NaN}')
    source = only_source(tmp_path)
    assert source.points.count == 1
    with path.open("a") as file:
        file.write('\n{"loss": 1}\n')
    source.update()
    assert (source.points.count, source.points.non_finite["loss"]) == (1, 1)
    assert [problem.line for problem in source.problems] == [2]


def test_the_last_row_of_csv_needs_no_newline_and_may_grow(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("loss,step\n0.5,1\n0.25,1")
    source = only_source(tmp_path, at_rest=True)
    assert points_of(source) == [(1, "loss", 0.25)]
    path.write_text("loss,step\n0.5,1\n0.25,12")
    source.update()
    assert points_of(source) == [(1, "loss", 0.5), (12, "loss", 0.25)]
    path.write_text("loss,step\n0.5,1\n0.25,12\n0.1")
    source.update()
    assert points_of(source) == [(1, "loss", 0.5), (12, "loss", 0.25)]
    assert source.points.count == 2


def test_what_only_python_takes_for_a_number_is_none(tmp_path):
    (tmp_path / "progress.csv").write_text("step,loss\n1,1_000\n1_0,1\n2,\u0661\n3,inf\n4,1e3\n")
    source = only_source(tmp_path)
    assert points_of(source)[-1] == (4, "loss", 1000.0)
    assert source.points.count == 2
    assert reasons(source) == ["a row without a step"]


# TensorBoard


def test_a_length_that_leads_past_the_end_is_named_with_its_place(tmp_path):
    path = write_events(tmp_path, [(0, "loss", 0.5)])
    end = path.stat().st_size
    with path.open("ab") as file:
        file.write(struct.pack("<QI", LARGE, 0) + bytes(100))
    source = only_source(tmp_path, at_rest=True)
    assert points_of(source) == [(0, "loss", 0.5)]
    assert reasons(source) == [f"its end is torn, from byte {end} on"]


def test_a_record_that_is_passed_over_is_not_looked_at_again(tmp_path):
    path = write_events(tmp_path, [(0, "loss", 0.5)])
    end = path.stat().st_size
    with path.open("ab") as file:
        file.write(struct.pack("<QI", LARGE, 0) + bytes(LARGE + 4))
    source = only_source(tmp_path, at_rest=True)
    assert source.problems == ()
    with path.open("r+b") as file:
        file.seek(end)
        file.write(b"\xff" * 8)
    source.update()
    assert source.problems == ()


def test_damage_is_said_once_however_often_it_is_seen(tmp_path):
    path = write_events(tmp_path, [(0, "loss", 0.5)])
    with path.open("ab") as file:
        file.write(b"\xff" * 100)
    source = only_source(tmp_path)
    source.update()
    assert [(p.count, "is damaged" in p.reason) for p in source.problems] == [(1, True)]


# W&B


def test_a_value_without_its_own_step_is_of_the_last_one_that_is_known(tmp_path, monkeypatch):
    wandb, run = offline_run(tmp_path, monkeypatch)
    with run:
        run.define_metric("loss", step_metric="count", step_sync=False)
        run.log({"loss": 9.0})
        run.log({"count": 50})
        run.log({"loss": 0.5})
        run.log({"count": 60, "loss": 0.25})
    wandb.teardown()
    source = only_source(tmp_path / "wandb")
    losses = [point for point in points_of(source) if point[1] == "loss"]
    assert losses == [(50, "loss", 0.5), (60, "loss", 0.25)]
    assert [(p.count, p.hint) for p in source.problems] == [(1, "its step is that of count")]


def wandb_file(folder: Path, pieces: list[tuple[int, int]]) -> Path:
    """A file of pieces of these lengths and kinds, all bytes of which are 0."""
    content = bytearray(b":W&B\0\0\0")
    for length, kind in pieces:
        left = 32768 - len(content) % 32768
        content += bytes(left if left < 7 else 0)
        content += struct.pack("<IHB", 0, length, kind) + bytes(length)
    path = folder / "run.wandb"
    path.write_bytes(content)
    return path


@pytest.mark.timeout(60)
def test_a_record_of_very_many_pieces_takes_no_time_that_grows_with_their_square(tmp_path):
    pytest.importorskip("wandb")
    path = wandb_file(tmp_path, [(0, 2), *[(0, 3)] * 400_000])
    source = WandbFile("run.wandb", (path,))
    source.update()
    assert source.torn_at == path.stat().st_size


def test_a_record_that_is_too_long_is_passed_over(tmp_path):
    pytest.importorskip("wandb")
    whole = 32768 - 7
    pieces = [(whole - 7, 2), *[(whole, 3)] * (MOST_RECORD_BYTES // whole + 1), (10, 4), (0, 1)]
    source = WandbFile("run.wandb", (wandb_file(tmp_path, pieces),))
    source.update()
    assert reasons(source) == ["a record longer than 16 MB"]
    assert source.torn_at is None


# Trackio

TABLE = "CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_name TEXT, step, metrics)"


def connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(TABLE)
    return database


def insert(database: sqlite3.Connection, *rows: tuple[object, object], run: str = "run") -> None:
    statement = "INSERT INTO metrics (run_name, step, metrics) VALUES (?, ?, ?)"
    database.executemany(statement, [(run, *row) for row in rows])
    database.commit()


def row(step: int, loss: float) -> tuple[int, str]:
    return step, json.dumps({"loss": loss})


def test_rows_that_are_too_long_or_hold_no_text_are_passed_over_and_counted(tmp_path):
    with closing(connect(tmp_path / "p.db")) as database:
        insert(database, row(1, 0.5), (2, None), (3, 7), (4, b'{"loss": 2}'), (None, "{}"))
        values = f"'run', 5, CAST(zeroblob({LARGE}) AS TEXT)"
        database.execute(f"INSERT INTO metrics (run_name, step, metrics) VALUES ({values})")
        insert(database, row(6, 0.25))
    source = only_source(tmp_path)
    assert points_of(source) == [(1, "loss", 0.5), (4, "loss", 2.0), (6, "loss", 0.25)]
    assert {problem.reason: problem.count for problem in source.problems} == {
        "a row without a step, or without metrics": 3,
        "a row longer than 16 MB": 1,
    }


def test_a_database_that_takes_too_long_is_named(tmp_path, monkeypatch):
    with closing(connect(tmp_path / "p.db")) as database:
        insert(database, *(row(step, 0.5) for step in range(1000)))
    monkeypatch.setattr(sqlite_files, "_MOST_SECONDS", -1.0)
    monkeypatch.setattr(sqlite_files, "_INSTRUCTIONS", 10)
    (reason,) = reasons(only_source(tmp_path))
    assert "SQLite took more than" in reason


def test_rows_in_the_log_of_a_database_are_news(tmp_path):
    path = tmp_path / "p.db"
    with closing(connect(path)) as database:
        insert(database, row(1, 0.5))
        source = only_source(tmp_path)
        state, beside = path.stat(), sorted(tmp_path.iterdir())
        insert(database, row(2, 0.25))
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (state.st_size, state.st_mtime_ns)
        assert source.is_changed
        source.update()
        assert points_of(source) == [(1, "loss", 0.5), (2, "loss", 0.25)]
        assert sorted(tmp_path.iterdir()) == beside


def test_a_copy_without_the_file_that_sqlite_needs_is_read_without_its_log(tmp_path):
    with closing(connect(tmp_path / "p.db")) as database:
        insert(database, row(1, 0.5))
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        insert(database, row(2, 0.25))
        copy = tmp_path / "copy"
        copy.mkdir()
        for name in ("p.db", "p.db-wal"):
            shutil.copy(tmp_path / name, copy / name)
    source = only_source(copy)
    assert points_of(source) == [(1, "loss", 0.5)]
    assert ["p.db-wal are not read" in reason for reason in reasons(source)] == [True]
    assert sorted(path.name for path in copy.iterdir()) == ["p.db", "p.db-wal"]


@pytest.mark.parametrize("is_moved", [True, False], ids=["another file", "emptied in place"])
def test_a_database_that_was_made_anew_is_read_anew(tmp_path, is_moved):
    path = tmp_path / "p.db"
    with closing(connect(path)) as database:
        insert(database, row(1, 0.5), row(2, 0.25))
    source = only_source(tmp_path)
    if is_moved:
        path.rename(tmp_path / "old")
        with closing(connect(path)) as database:
            insert(database, row(1, 4.0), row(2, 4.0), row(3, 4.0))
    else:
        with closing(sqlite3.connect(path)) as database:
            database.execute("DELETE FROM metrics")
            insert(database, row(1, 4.0))
    source.update()
    assert {value for *_, value in points_of(source)} == {4.0}


def test_a_database_is_the_file_that_was_checked_even_if_its_name_leads_elsewhere_then(
    tmp_path, monkeypatch
):
    root, outside = tmp_path / "root", tmp_path / "outside.db"
    root.mkdir()
    for path, loss in ((root / "p.db", 0.5), (outside, 666.0)):
        with closing(connect(path)) as database:
            insert(database, row(1, loss))
    monkeypatch.setenv("ROLLOUT_BOARD_ROOT", str(root))
    real = sqlite3.connect

    def swapped(*args, **options):
        (root / "p.db").rename(root / "moved")
        (root / "p.db").symlink_to(outside)
        return real(*args, **options)

    monkeypatch.setattr(sqlite_files.sqlite3, "connect", swapped)
    assert points_of(only_source(root)) == [(1, "loss", 0.5)]
