"""Two processes share the batches of a large run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from written_logs import native_run

from board.core.options import ReadOptions
from board.store import engines
from board.store.batch import Work
from board.store.engines import Job, local
from board.store.manifest import TakenAwayError
from board.store.second_process import SecondProcess
from board.store.shard import Shard
from board.store.storage import FolderStorage, MemoryStorage

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


def test_what_a_killed_process_was_given_is_read_here(tmp_path, monkeypatch):
    path = min(native_run(tmp_path / "run").glob("*.jsonl"))
    other = SecondProcess(Job(FolderStorage(tmp_path), ReadOptions(), None))
    while not other.has_time():
        time.sleep(0.01)
    monkeypatch.setattr(engines, "SecondProcess", lambda _: other)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with local(Job(FolderStorage(tmp_path), ReadOptions(), None), engines.MANY_BYTES) as engine:
        first, *_ = [engine.submit(batch) for batch in batches(path)]
        assert other.process.poll() is None
        other.process.kill()
        other.process.wait()
        assert first().segments[0].rows > 0
        assert engine.submit(batches(path)[0])().segments[0].rows > 0
        assert not other.has_time()


def test_an_error_of_the_index_is_raised_where_the_result_is_asked_for(tmp_path):
    path = min(native_run(tmp_path / "run").glob("*.jsonl"))
    other = SecondProcess(Job(FolderStorage(tmp_path / "gone"), ReadOptions(), None))
    try:
        number = other.give(batches(path)[0])
        with pytest.raises(TakenAwayError):
            other.result(number)
    finally:
        other.end()


def test_an_index_in_memory_is_made_by_one_process(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with local(Job(MemoryStorage(), ReadOptions(), None), engines.MANY_BYTES) as engine:
        assert engine.width == 0


def test_a_second_process_reads_without_importing_frames(tmp_path):
    path = min(native_run(tmp_path / "run").glob("*.jsonl"))
    script = (
        "import sys; from pathlib import Path; from board.store import second_process as other; "
        "other._spare_pandas(); from board.core.options import ReadOptions; "
        "from board.store.batch import Work, index_batch; from board.store.shard import Shard; "
        "from board.store.storage import FolderStorage; path = Path(sys.argv[1]); "
        "work = Work(Shard(path, path.name, 'native'), 0); "
        "index_batch(FolderStorage(path.parent), [work], ReadOptions(), None); "
        "assert 'pandas' not in sys.modules; import pandas, pyarrow; "
        "assert pyarrow.array([1]).to_pandas().sum() == 1"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
