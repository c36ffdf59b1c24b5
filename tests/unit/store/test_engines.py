"""Two processes share the batches of a large run."""

from __future__ import annotations

import os
from pathlib import Path

from written_logs import native_run

from board.core.options import ReadOptions
from board.store import engines
from board.store.batch import Work
from board.store.engines import Job, local
from board.store.shard import Shard
from board.store.storage import FolderStorage

_BATCHES = 12


def batches(path: Path) -> list[list[Work]]:
    return [[Work(Shard(path, path.name, "native"), number)] for number in range(_BATCHES)]


def read_with(folder: Path, path: Path, size: int) -> list[tuple[int, int]]:
    folder.mkdir()
    with local(Job(FolderStorage(folder), ReadOptions(), None), size) as engine:
        awaited = [engine.submit(batch) for batch in batches(path)]
        results = [result() for result in awaited]
    return [(r.files[0].work.file_id, r.segments[0].rows) for r in results]


def test_two_processes_find_what_one_finds_in_the_order_that_was_asked(tmp_path, monkeypatch):
    path = min(native_run(tmp_path / "run").glob("*.jsonl"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    alone = read_with(tmp_path / "one", path, engines.MANY_BYTES - 1)
    both = read_with(tmp_path / "two", path, engines.MANY_BYTES)
    assert alone == both
    assert [number for number, _ in both] == list(range(_BATCHES))


def test_what_the_other_process_has_no_time_for_is_read_here(tmp_path, monkeypatch):
    path = min(native_run(tmp_path / "run").glob("*.jsonl"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    here: list[int] = []
    own = engines.index_batch

    def noted(storage, batch, *rest):
        here.append(batch[0].file_id)
        return own(storage, batch, *rest)

    monkeypatch.setattr(engines, "index_batch", noted)
    read_with(tmp_path / "index", path, engines.MANY_BYTES)
    assert 0 in here  # the other process was not there yet
