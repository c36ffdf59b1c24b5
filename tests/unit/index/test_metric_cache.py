"""Metrics that are kept are those that reading the files again gives, however these changed meanwhile."""

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from read_formats import run_at
from read_metrics import offline_run, points_of, write_events

from board.formats.io.locations import cache_folder
from board.formats.metrics import metric_sources
from board.formats.metrics.base import MetricSource
from board.index import metric_cache
from board.query.trainer import metrics
from board.query.trainer.metrics import TrainerMetricsReader, read_trainer_metrics

STEPS = 30


def row(step: int) -> dict[str, float]:
    return {"loss": math.nan if step == 7 else 1 / step, "grad/norm": math.sin(step)}


def write_lines(folder: Path, first: int, last: int) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps({"step": s, **row(s)}) + "\n" for s in range(first, last))
        file.write("no JSON\n")


def write_csv(folder: Path, first: int, last: int) -> None:
    with (folder / "progress.csv").open("a") as file:
        file.write("" if first > 1 else "step,loss,grad/norm\n")
        file.writelines(f"{s},{row(s)['loss']},{row(s)['grad/norm']}\n" for s in range(first, last))
        file.write("1,2,3,4\n")


def write_trackio(folder: Path, first: int, last: int) -> None:
    with closing(sqlite3.connect(folder / "p.db")) as database:
        columns = "(id INTEGER PRIMARY KEY, run_name, step, metrics)"
        database.execute(f"CREATE TABLE IF NOT EXISTS metrics {columns}")
        rows = [("run", s, json.dumps(row(s))) for s in range(first, last)]
        insert = "INSERT INTO metrics (run_name, step, metrics) VALUES (?, ?, ?)"
        database.executemany(insert, [*rows, ("run", last, "no JSON")])
        database.commit()


def write_events_on(folder: Path, first: int, last: int) -> None:
    """The events of these steps at the end of the one event file."""
    points = [(s, name, value) for s in range(first, last) for name, value in row(s).items()]
    written = write_events(folder / f"own {first}", points)
    with (folder / "events.out.tfevents.1").open("ab") as file:
        file.write(
            written.read_bytes() + (3).to_bytes(8, "little") + b"\0\0\0\0\xff\xff\xff\0\0\0\0"
        )


WRITERS = (write_lines, write_csv, write_trackio, write_events_on)


def source_in(folder: Path) -> MetricSource:
    (source,) = metric_sources([path for path in folder.iterdir() if path.is_file()], folder)
    return source


def read(folder: Path) -> MetricSource:
    source = source_in(folder)
    source.update()
    return source


def restored(folder: Path) -> MetricSource:
    source = source_in(folder)
    assert metric_cache.restore(source)
    return source


def said(source: MetricSource) -> tuple:
    problems = [(one.reason, one.line, one.count, one.severity) for one in source.problems]
    return points_of_all(source), +source.points.non_finite, source.points.count, problems


def points_of_all(source: MetricSource) -> str:
    return repr(points_of(source))  # in which NaN equals NaN


@pytest.mark.parametrize("write", WRITERS)
def test_what_is_kept_of_files_that_grew_is_read_on_to_what_reading_them_again_gives(
    tmp_path, write
):
    write(tmp_path, 1, 10)
    metric_cache.store(read(tmp_path))
    unchanged = restored(tmp_path)
    assert not unchanged.is_changed
    assert said(unchanged) == said(read(tmp_path))
    for first in (10, 20):
        write(tmp_path, first, first + 10)
        source = restored(tmp_path)
        assert source.is_changed
        source.update()
        assert said(source) == said(read(tmp_path))
        metric_cache.store(source)
    assert source.points.count >= 2 * (STEPS - 1)


def test_a_wandb_file_that_is_kept_goes_on_where_it_was(tmp_path, monkeypatch):
    wandb, run = offline_run(tmp_path, monkeypatch)
    with run:
        run.define_metric("train/global_step")
        run.define_metric("train/*", step_metric="train/global_step")
        for step in range(200):
            run.log({"train/global_step": 5 * step, **{f"train/{n}": step * n for n in range(20)}})
    wandb.teardown()
    (path,) = tmp_path.rglob("*.wandb")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    metric_cache.store(read(path.parent))
    with path.open("ab") as file:
        file.write(content[len(content) // 2 :])
    source = restored(path.parent)
    assert 0 < source.points.count < 4200
    source.update()
    assert said(source) == said(read(path.parent))


def write_anew(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 4.0}\n' * 1000)


def delete(folder: Path) -> None:
    (folder / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").write_text('{"step": 1, "loss": 4.0}\n')


def damage(folder: Path) -> None:
    (kept,) = (cache_folder() / "metrics").iterdir()
    kept.write_bytes(kept.read_bytes()[:-50])


def say_less(folder: Path) -> None:
    """What is kept lacks a part of what the source says, as of another version."""
    (path,) = (cache_folder() / "metrics").iterdir()
    table = pq.read_table(path)
    said_of_files = json.loads(table.schema.metadata[b"rollout-board"])
    del said_of_files["state"]["points"]
    metadata = {b"rollout-board": json.dumps(said_of_files).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def mix_up(folder: Path) -> None:
    (kept,) = (cache_folder() / "metrics").iterdir()
    kept.write_text("no Parquet")


@pytest.mark.parametrize("change", [write_anew, delete, damage, mix_up, say_less])
def test_what_is_kept_of_other_files_or_is_damaged_is_not_used(tmp_path, monkeypatch, change):
    monkeypatch.setenv("ROLLOUT_BOARD_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "run"
    folder.mkdir()
    write_lines(folder, 1, 10)
    metric_cache.store(read(folder))
    change(folder)
    source = source_in(folder)
    assert not metric_cache.restore(source)
    source.update()
    assert said(source) == said(read(folder))


@pytest.mark.parametrize("seconds", [-1.0, 1000.0])
def test_metrics_that_took_long_to_read_are_not_read_again(tmp_path, monkeypatch, seconds):
    monkeypatch.setattr(metrics, "_WORTH_KEEPING_SECONDS", seconds)
    (tmp_path / "log.jsonl").write_text(
        '{"step": 1, "prompt": "p", "response": "r", "reward": 1}\n'
    )
    write_lines(tmp_path, 1, 10)
    before = sorted(tmp_path.iterdir())
    run = run_at(tmp_path)
    first = read_trainer_metrics(run)
    updates = []
    real = MetricSource.update
    monkeypatch.setattr(
        MetricSource, "update", lambda self, report: updates.append(self) or real(self, report)
    )
    again = read_trainer_metrics(run)
    assert again.version == first.version
    assert len(updates) == (0 if seconds < 0 else 1)
    assert sorted(tmp_path.iterdir()) == before  # nothing is written beside the logs


def test_the_names_that_are_known_are_there_while_the_reading_goes_on(tmp_path):
    (tmp_path / "log.jsonl").write_text(
        '{"step": 1, "prompt": "p", "response": "r", "reward": 1}\n'
    )
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5, "kl": 0.1}\n' * 2000)
    run, reader = run_at(tmp_path), TrainerMetricsReader()
    seen = list[list[str]]()
    reader.read(run, lambda done, total: seen.append(reader.names))
    assert seen[1] == seen[-1] == ["loss", "kl"]
