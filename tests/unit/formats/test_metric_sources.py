"""Files that trainers' real clients write are read point for point, also while they grow or are torn."""

import csv
import json
import math
import os
import sqlite3
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from read_metrics import offline_run, only_source, points_of, write_events

from board.formats.metrics import metric_sources
from board.formats.metrics.base import MOST_RECORD_BYTES, MetricSource

NAN, INF = math.nan, math.inf
POINTS = [
    (step, name, value)
    for step in range(1, 41)
    for name, value in {
        "loss": NAN if step == 7 else INF if step == 9 else 1 / step,
        "grad/norm": math.sin(step),
    }.items()
]
SAMPLES = Path(__file__).parents[3] / "rollout_samples"


def assert_same(source: MetricSource, expected, *, exact: bool = True) -> None:
    """exact: as 64 bits; TensorBoard stores 32."""
    result, wanted = points_of(source), sorted(expected)
    assert [(step, name) for step, name, _ in result] == [(s, n) for s, n, _ in wanted]
    values = np.array([value for *_, value in wanted])
    values = np.where(np.isfinite(values), values, NAN)
    values = values if exact else values.astype(np.float32).astype(np.float64)
    np.testing.assert_array_equal([value for *_, value in result], values)


def log_by_step(log) -> None:
    for step in range(1, 41):
        log({name: value for own, name, value in POINTS if own == step}, step)


def test_event_files_of_torch_are_read_point_for_point(tmp_path):
    write_events(tmp_path, POINTS)
    source = only_source(tmp_path)
    assert source.title == "TensorBoard"
    assert_same(source, POINTS, exact=False)
    assert source.points.non_finite == {"loss": 2}
    assert source.problems == ()


def test_a_resumed_training_purges_the_steps_that_it_writes_again(tmp_path):
    first = write_events(tmp_path, [(s, "loss", 1.0) for s in range(1, 31)])
    first.rename(first.with_name("events.out.tfevents.1.first"))
    again = [(s, "loss", 2.0) for s in range(21, 26)]
    second = write_events(tmp_path, again, purge_step=21)
    second.rename(second.with_name("events.out.tfevents.2.second"))
    assert_same(only_source(tmp_path), [*((s, "loss", 1.0) for s in range(1, 21)), *again])


def test_an_event_file_is_read_on_from_where_it_ended(tmp_path):
    path = write_events(tmp_path, POINTS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    source = only_source(tmp_path, at_rest=True)
    assert 0 < source.points.count < len(POINTS)
    assert ["torn" in problem.reason for problem in source.problems] == [True]
    path.write_bytes(content)
    assert source.is_changed
    source.update()
    assert_same(source, POINTS, exact=False)
    assert source.problems == ()
    assert not source.is_changed


def test_a_damaged_length_ends_an_event_file_and_takes_no_memory(tmp_path):
    path = write_events(tmp_path, POINTS)
    path.write_bytes(path.read_bytes() + (2**60).to_bytes(8, "little") + bytes(100))
    source = only_source(tmp_path)
    assert_same(source, POINTS, exact=False)
    assert ["is damaged" in problem.reason for problem in source.problems] == [True]


def test_an_offline_run_of_wandb_is_read_point_for_point(tmp_path, monkeypatch):
    wandb, run = offline_run(tmp_path, monkeypatch)
    with run:
        run.define_metric("train/global_step")
        run.define_metric("train/*", step_metric="train/global_step")
        for step in range(10):
            counted = {"train/global_step": step * 5, "train/loss": step / 3}
            run.log({"reward": NAN if step == 3 else step / 7, "nested": {"a": step}, **counted})
        run.log({"table": wandb.Table(columns=["a"], data=[[1]]), "note": "hello"})
    wandb.teardown()  # its service has written all of it then
    source = only_source(tmp_path / "wandb")
    expected = [
        point
        for step in range(10)
        for point in (
            (step, "reward", NAN if step == 3 else step / 7),
            (step, "nested.a", float(step)),
            (step * 5, "train/loss", step / 3),
            (step, "train/global_step", step * 5.0),
        )
    ]
    assert source.title == "W&B"
    assert_same(source, expected)
    assert source.points.non_finite == {"reward": 1}


def test_a_wandb_file_is_read_as_far_as_it_is_whole_and_then_on(tmp_path, monkeypatch):
    wandb, run = offline_run(tmp_path, monkeypatch)
    with run:
        for step in range(200):
            run.log({f"metric {n}": step * n for n in range(20)})
    wandb.teardown()
    (path,) = tmp_path.rglob("*.wandb")
    content = path.read_bytes()
    # A cut between two records leaves nothing torn; 8 bytes later it is within one.
    for cut in (len(content) // 2, len(content) // 2 + 8):
        path.write_bytes(content[:cut])
        source = only_source(tmp_path / "wandb", at_rest=True)
        if source.problems:
            break
    before = source.points.count
    assert 0 < before < 4000
    assert ["torn" in problem.reason for problem in source.problems] == [True]
    path.write_bytes(content)
    source.update()
    assert source.points.count == 4000
    assert source.problems == ()


def test_a_project_of_trackio_is_read_point_for_point_and_not_changed(tmp_path):
    # As trackio 0.43 makes it (sqlite_storage.py), whose client needs a server's process.
    path = tmp_path / "project.db"
    words = {NAN: "NaN", INF: "Infinity"}
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp "
            "TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL)"
        )
        columns = "run_id, timestamp, run_name, step, metrics"
        insert = f"INSERT INTO metrics ({columns}) VALUES (?,?,?,?,?)"

        def log(run: str, row: dict[str, float], step: int) -> None:
            metrics = {n: words.get(v, v) if v == v else "NaN" for n, v in row.items()}
            database.execute(insert, (run, "2026", run, step, json.dumps(metrics)))

        for run in ("other", tmp_path.name, "newest"):
            log_by_step(partial(log, run))
    database.close()
    before = path.read_bytes()
    source = only_source(tmp_path)
    assert_same(source, POINTS)
    assert source.problems == ()
    (newest,) = metric_sources([path], tmp_path, "unknown")
    newest.update()
    assert ["2 other runs" in problem.reason for problem in newest.problems] == [True]
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["project.db"]


def test_the_client_of_trackio_writes_what_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = pytest.importorskip("trackio.sqlite_storage")
        monkeypatch.setattr(storage, "TRACKIO_DIR", tmp_path)
        rows = [{name: value} for _, name, value in POINTS]
        steps = [step for step, *_ in POINTS]
        storage.SQLiteStorage.bulk_log("project", "run", rows, steps=steps)
    assert_same(only_source(tmp_path), POINTS)


def test_the_state_of_transformers_trainer_is_read_point_for_point(tmp_path):
    callbacks = pytest.importorskip("transformers.trainer_callback")
    history = []
    log_by_step(lambda row, step: history.append({**row, "epoch": step / 10, "step": step}))
    summary = {"train_runtime": 3.0, "train_loss": 0.5, "step": 40}
    for steps in (20, 40):
        own = [row for row in history if row["step"] <= steps]
        own += [summary] if steps == 40 else []
        folder = tmp_path / f"checkpoint-{steps}"
        folder.mkdir()
        state = callbacks.TrainerState(global_step=steps, log_history=own)
        state.save_to_json(str(folder / "trainer_state.json"))
    # An older one may have been copied later.
    os.utime(tmp_path / "checkpoint-20" / "trainer_state.json")
    source = only_source(tmp_path)
    assert source.name == "checkpoint-40/trainer_state.json"
    epochs = [(step, "epoch", step / 10) for step in range(1, 41)]
    assert_same(source, [*POINTS, *epochs, (40, "train_loss", 0.5)])


def test_the_state_that_trl_saved_is_read_point_for_point():
    path = SAMPLES / "grpo_calculator_trl" / "trainer_state.json"
    (source,) = metric_sources([path], path.parent)
    source.update()
    history = json.loads(path.read_text())["log_history"]
    ignored = ("step", "total_flos", "train_runtime")
    ignored += ("train_samples_per_second", "train_steps_per_second")
    last = {
        (row["step"], name): float(value)
        for row in history
        for name, value in row.items()
        if name not in ignored
    }
    assert_same(source, [(step, name, value) for (step, name), value in last.items()])


@pytest.mark.parametrize(
    "line",
    [
        lambda row, step: {"step": step, **row},
        lambda row, step: {**row, "step": float(step)},
        lambda row, step: {"step": step, "data": row},
        lambda row, step: {"ts": 1.5, "step_key": "rollout/step", "step": step, "metrics": row},
        lambda row, step: {**row, "global_step/max_steps": f"{step}/40"},
        lambda row, step: {"training_step": step, **row},
    ],
    ids=["Tinker, prime-rl", "xtuner", "verl", "miles", "ms-swift", "ART"],
)
def test_json_lines_are_read_point_for_point(tmp_path, line):
    lines: list[str] = []
    log_by_step(lambda row, step: lines.append(json.dumps(line(row, step))))
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert_same(only_source(tmp_path), POINTS)


def test_json_lines_are_read_on_and_a_torn_line_waits(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 0.5}\n{"step": 2, "lo')
    source = only_source(tmp_path)
    assert points_of(source) == [(1, "loss", 0.5)]
    assert source.problems == ()
    with path.open("a") as file:
        file.write('ss": 0.25}\n{"step": 2, "loss": 0.125}')
    source.update()
    assert points_of(source) == [(1, "loss", 0.5), (2, "loss", 0.125)]


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}\n')
    source = only_source(tmp_path)
    path.write_text('{"step": 1, "loss": 4.0}\n')
    source.update()
    assert points_of(source) == [(1, "loss", 4.0)]


def test_lines_that_are_torn_too_long_or_without_a_step_are_counted(tmp_path):
    lines = ['{"step": 1, "loss": 0.5}', '{"step": 2, "loss', '{"loss": 1}', '{"loss": 2}']
    lines.append('{"step": 3, "x": "' + "x" * MOST_RECORD_BYTES + '"}')
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    source = only_source(tmp_path)
    assert points_of(source) == [(1, "loss", 0.5)]
    counts = {problem.reason.partition(":")[0]: problem.count for problem in source.problems}
    assert counts == {
        "a line that can't be read": 1,
        "a line without a step": 2,
        "the line is longer than 16 MB": 1,
    }


def test_csv_with_a_step_column_is_read_point_for_point(tmp_path):
    with (tmp_path / "progress.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["loss", "step", "note", "grad/norm"])
        writer.writeheader()
        log_by_step(lambda row, step: writer.writerow({**row, "step": step, "note": 'a, "b"'}))
        writer.writerow({"step": 41})
    assert_same(only_source(tmp_path), POINTS)


def test_csv_without_a_step_column_is_no_source(tmp_path):
    path = tmp_path / "prompts.csv"
    path.write_text("prompt,answer\n2+2,4\n")
    assert metric_sources([path], tmp_path) == []


def test_what_is_missing_of_an_extra_is_named_with_its_command(tmp_path, monkeypatch):
    (tmp_path / "run.wandb").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "wandb.proto.wandb_internal_pb2", None)
    source = only_source(tmp_path)
    (problem,) = source.problems
    assert "pip install 'rollout-board[wandb]'" in problem.reason


@pytest.mark.parametrize(
    "name", ["run.wandb", "a.db", "events.out.tfevents.1", "trainer_state.json"]
)
def test_rubbish_is_named_and_takes_nothing_else_down(tmp_path, name):
    (tmp_path / name).write_bytes(bytes(range(256)) * 100)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n')
    sources = metric_sources([tmp_path / name, tmp_path / "metrics.jsonl"], tmp_path)
    for source in sources:
        source.update()
    assert [points_of(source) for source in sources if source.points.names] == [[(1, "loss", 0.5)]]
