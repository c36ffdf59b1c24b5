"""Metric files that are damaged, hostile, replaced, or written in unusual ways."""

import json
import sqlite3
import struct
from pathlib import Path

import pytest
from test_metric_sources import only_source, points_of, write_events

from board.formats.metrics import base, metric_sources, trackio_db, wandb_files
from board.formats.metrics.base import MetricSource
from board.formats.metrics.lines import number_in


def trackio(path: Path, *rows: tuple[object, object]) -> sqlite3.Connection:
    """A database with rows of step and metrics."""
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_name TEXT, "
        "step INTEGER, metrics)"
    )
    insert = "INSERT INTO metrics (run_name, step, metrics) VALUES ('r', ?, ?)"
    database.executemany(insert, rows)
    database.commit()
    return database


def reasons(source: MetricSource) -> list[str]:
    return [problem.reason for problem in source.problems]


def test_a_row_of_trackio_that_is_too_long_or_no_text_is_counted_and_the_others_are_read(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(trackio_db, "MOST_RECORD_BYTES", 1 << 20)
    long = json.dumps({"x": "x" * (2 << 20)})
    rows = [(1, '{"loss": 1}'), (2, long), (3, None), (4, 7), (5, '{"loss": 5}')]
    trackio(tmp_path / "p.db", *rows).close()
    source = only_source(tmp_path)
    assert points_of(source) == [(1, "loss", 1.0), (5, "loss", 5.0)]
    assert {problem.reason: problem.count for problem in source.problems} == {
        "a row longer than 1 MB": 1,
        "a row without a step or without metrics": 2,
    }


def test_a_query_of_trackio_without_end_is_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(trackio_db, "_MOST_SECONDS", -1.0)
    monkeypatch.setattr(trackio_db, "_OPERATIONS", 1)
    trackio(tmp_path / "p.db", (1, '{"loss": 1}')).close()
    assert ["interrupted" in reason for reason in reasons(only_source(tmp_path))] == [True]


def test_rows_that_are_in_the_log_of_sqlite_are_read_and_their_coming_is_noticed(tmp_path):
    database = trackio(tmp_path / "p.db", (1, '{"loss": 1}'))
    database.execute("PRAGMA journal_mode = WAL")
    source = only_source(tmp_path)
    assert not source.is_changed
    insert = "INSERT INTO metrics (run_name, step, metrics) VALUES ('r', 2, '{\"loss\": 2}')"
    database.execute(insert)
    database.commit()
    assert source.is_changed
    source.update()
    database.close()
    assert points_of(source) == [(1, "loss", 1.0), (2, "loss", 2.0)]


def test_a_database_that_was_made_anew_is_read_anew(tmp_path):
    path = tmp_path / "p.db"
    trackio(path, (1, '{"loss": 1}'), (2, '{"loss": 2}')).close()
    source = only_source(tmp_path)
    path.unlink()
    trackio(path, (1, '{"loss": 9}')).close()
    source.update()
    assert points_of(source) == [(1, "loss", 9.0)]


def test_a_reader_that_fails_takes_no_page_down_and_a_reading_that_is_stopped_stops(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 1}\n')
    (source,) = metric_sources([tmp_path / "metrics.jsonl"], tmp_path)

    def fails(report):
        raise ZeroDivisionError("of the reader")

    source.read = fails
    source.update()
    assert reasons(source) == ["can't be read: of the reader"]

    def stops(done):
        raise InterruptedError

    (source,) = metric_sources([tmp_path / "metrics.jsonl"], tmp_path)
    with pytest.raises(InterruptedError):
        source.update(stops)


def test_what_was_wrong_with_a_file_is_not_said_any_more_once_it_is_well(tmp_path):
    path = tmp_path / "p.db"
    path.write_bytes(b"SQLite format 3\x00 but no more")
    source = only_source(tmp_path)
    source.update()
    assert [problem.count for problem in source.problems] == [1]
    path.unlink()
    trackio(path, (1, '{"loss": 1}')).close()
    source.update()
    assert reasons(source) == []


def wandb_pieces(*pieces: tuple[int, bytes]) -> bytes:
    """A file of W&B with these pieces of records, by kind."""
    content = b":W&B" + bytes(3)
    return content + b"".join(struct.pack("<IHB", 0, len(own), kind) + own for kind, own in pieces)


def test_a_record_of_many_pieces_is_one_and_pieces_of_nothing_take_no_memory(tmp_path):
    pb = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    record = pb.Record()
    item = record.history.item.add()
    item.key, item.value_json = "loss", "0.5"
    record.history.step.num = 3
    parts = [(wandb_files._MIDDLE, bytes([byte])) for byte in record.SerializeToString()]
    empty = [(wandb_files._MIDDLE, b"")] * 100
    path = tmp_path / "run.wandb"
    path.write_bytes(
        wandb_pieces((wandb_files._FIRST, b""), *empty, *parts, *empty, (wandb_files._LAST, b""))
    )
    assert points_of(only_source(tmp_path)) == [(3, "loss", 0.5)]


def test_a_value_without_its_step_is_of_the_step_that_was_logged_last(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with wandb.init(project="p", dir=str(tmp_path)) as run:
        run.define_metric("train/step")
        run.define_metric("train/*", step_metric="train/step", step_sync=False)
        run.log({"train/loss": 9.0})
        run.log({"train/step": 10, "train/loss": 0.5})
        run.log({"train/lr": 0.1})
    wandb.teardown()
    source = only_source(tmp_path / "wandb", at_rest=True)
    points = [point for point in points_of(source) if point[1] != "train/step"]
    assert points == [(10, "train/loss", 0.5), (10, "train/lr", 0.1)]
    assert reasons(source) == ["a value without train/step, which counts its steps"]


def test_numbers_beside_the_object_of_numbers_are_read_too(tmp_path):
    line = {"step": 1, "lr": 0.1, "ts": 9, "metrics": {"loss": 0.5}}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    assert points_of(only_source(tmp_path)) == [(1, "loss", 0.5), (1, "lr", 0.1)]


def test_a_length_of_an_event_beyond_the_file_is_a_torn_end(tmp_path, summary_writer):
    write_events(summary_writer, tmp_path, [(1, "loss", 0.5)])
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() + struct.pack("<QI", 64 << 20, 0) + bytes(100))
    source = only_source(tmp_path, at_rest=True)
    assert ["torn" in reason for reason in reasons(source)] == [True]


def test_a_line_number_counts_lines_where_the_last_one_had_not_ended(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 1}')
    source = only_source(tmp_path)
    with path.open("a") as file:
        file.write('\n{"step": 2, "loss": 2}\nrubbish\n')
    source.update()
    assert [problem.line for problem in source.problems] == [3]


def test_the_last_row_of_a_csv_is_read_without_a_newline_once_the_file_is_at_rest(
    tmp_path, monkeypatch
):
    path = tmp_path / "progress.csv"
    path.write_text("step,loss\n1,0.5\n2,0.25")
    source = only_source(tmp_path)
    assert points_of(source) == [(1, "loss", 0.5)]
    assert not source.is_changed
    monkeypatch.setattr(base, "_AT_REST_SECONDS", -1.0)
    assert source.is_changed
    source.update()
    assert points_of(source) == [(1, "loss", 0.5), (2, "loss", 0.25)]
    assert reasons(source) == []


@pytest.mark.parametrize(
    ("cell", "value"), [("1_000", None), ("1e3", 1000.0), ("", None), ("nan_", None)]
)
def test_numbers_are_those_that_writers_of_csv_write(cell, value):
    assert number_in(cell) == value


def test_a_name_that_is_too_long_is_counted_and_sources_are_in_natural_order(tmp_path):
    for number in (10, 9):
        line = {"step": 1, "loss": number, "n" * 301: 1.0}
        (tmp_path / f"m{number}.jsonl").write_text(json.dumps(line) + "\n")
    sources = metric_sources(sorted(tmp_path.iterdir()), tmp_path)
    assert [source.name for source in sources] == ["m9.jsonl", "m10.jsonl"]
    sources[0].update()
    assert points_of(sources[0]) == [(1, "loss", 9.0)]
    assert [problem.count for problem in sources[0].problems] == [1]
