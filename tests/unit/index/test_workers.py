"""Batches of a large log are read in several processes: in order, each once, whatever ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from read_formats import info_at
from written_logs import native_run

from board.core.records import ReadOptions
from board.index.manifest import DeletedIndexError
from board.index.reading import workers
from board.index.reading.batch import MIN_SEGMENT_ROWS
from board.index.reading.shard import Shard
from board.index.reading.workers import Engine, InProcess, Job, ProcessPool, local_engine
from board.index.storage import FolderStorage, MemoryStorage, index_folder
from board.query import index_builder
from board.query.open_run import Follower, OpenOptions

_BATCHES = 6


@pytest.fixture(autouse=True)
def two_cores(monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})


@pytest.fixture
def log(tmp_path) -> Path:
    return min(native_run(tmp_path / "run").glob("*.jsonl"))


def batches(path: Path) -> list[list[Shard]]:
    return [[Shard(path, path.name, "native", file_id=number)] for number in range(_BATCHES)]


@contextmanager
def started_pool(folder: Path) -> Iterator[ProcessPool]:
    """A pool of one worker, which has read a batch of nothing."""
    folder.mkdir(exist_ok=True)
    pool = ProcessPool(Job(FolderStorage(folder), ReadOptions(), None), 1)
    try:
        assert pool.submit([]).result().rows == 0
        yield pool
    finally:
        pool.close()


def wait_until(is_true) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.01)


def numbers_and_rows(engine: Engine, path: Path) -> list[tuple[int, int]]:
    results = [pending.result() for pending in [engine.submit(b) for b in batches(path)]]
    return [(result.files[0].shard.file_id, result.rows) for result in results]


def test_a_pool_reads_what_one_process_reads_in_the_same_order(tmp_path, log):
    alone = numbers_and_rows(InProcess(Job(MemoryStorage(), ReadOptions(), None)), log)
    with started_pool(tmp_path / "index") as pool:
        assert numbers_and_rows(pool, log) == alone
    assert [number for number, _ in alone] == list(range(_BATCHES))


def test_what_a_killed_worker_was_given_is_read_here(tmp_path, log):
    with started_pool(tmp_path / "index") as pool:
        pending = [pool.submit(batch) for batch in batches(log)]
        (worker,) = pool._context.processes
        worker.kill()
        assert [p.result().files[0].shard.file_id for p in pending] == list(range(_BATCHES))
        wait_until(lambda: not worker.is_alive())
        assert pool.submit(batches(log)[0]).result().rows > 0


def test_an_error_of_the_index_is_raised_where_the_result_is_taken(tmp_path):
    many = tmp_path / "many.jsonl"
    many.write_bytes(b'{"step": 1, "response": "a"}\n' * MIN_SEGMENT_ROWS)
    with started_pool(tmp_path / "index") as pool:
        (tmp_path / "index").rmdir()
        pending = pool.submit(batches(many)[0])
        with pytest.raises(DeletedIndexError):
            pending.result()


def test_workers_are_gone_once_the_pool_is_closed(tmp_path):
    with started_pool(tmp_path / "index") as pool:
        (worker,) = pool._context.processes
        assert worker.is_alive()
    wait_until(lambda: not worker.is_alive())


_SCRIPT = """
import sys, time
from pathlib import Path
from board.core.records import ReadOptions
from board.index.storage import FolderStorage
from board.index.reading.workers import Job, ProcessPool
pool = ProcessPool(Job(FolderStorage(Path(sys.argv[1])), ReadOptions(), None), 1)
pool.submit([]).result()
print(pool._context.processes[0].pid, flush=True)
time.sleep(600)
"""


def test_a_worker_ends_with_a_killed_parent(tmp_path):
    command = [sys.executable, "-c", _SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        worker = Path("/proc", process.stdout.readline().strip())
        process.kill()
    wait_until(lambda: not worker.exists() or ") Z " in (worker / "stat").read_text())


def test_a_process_with_other_threads_is_not_copied(tmp_path, monkeypatch):
    job = Job(FolderStorage(tmp_path), ReadOptions(), None)
    for threads, kind in ((2, InProcess), (1, ProcessPool)):
        monkeypatch.setattr(threading, "active_count", lambda threads=threads: threads)
        with local_engine(job, workers.POOL_BYTES) as engine:
            assert isinstance(engine, kind)


@pytest.mark.parametrize(
    ("size", "in_memory"), [(workers.POOL_BYTES - 1, False), (workers.POOL_BYTES, True)]
)
def test_no_process_is_started_for_a_small_log_or_an_index_in_memory(tmp_path, size, in_memory):
    storage = MemoryStorage() if in_memory else FolderStorage(tmp_path)
    with local_engine(Job(storage, ReadOptions(), None), size) as engine:
        assert isinstance(engine, InProcess)


def test_a_table_counts_as_several_times_its_size(tmp_path):
    """Else a log of Parquet would be read by one process that takes as long as for its lines of JSON."""
    engine = Mock(side_effect=local_engine)
    columns = {"step": [1], "prompt": ["p"], "completion": ["c"], "acc": [1.0], "advantage": [0.0]}
    path = tmp_path / "completions" / "completions_00001.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table(columns), path)
    run = Follower(engine=engine).run(info_at(tmp_path))
    assert run.counts == {1: 1}
    assert engine.call_args.args[1] > 2 * path.stat().st_size


def test_a_builder_makes_the_index_of_a_run_in_a_process_of_its_own(tmp_path):
    info = info_at(native_run(tmp_path / "run"))
    options = ReadOptions(system_prompt_end="<|end|>")
    assert index_builder.start(info, options).wait(60) == 0
    assert Follower(OpenOptions(options), persist=True).unread(info) == 0


SERVER = """
import signal, sys
for number in (signal.SIGINT, signal.SIGHUP):  # who started the tests may ignore them
    signal.signal(number, signal.SIG_DFL)
from pathlib import Path
from board.core.records import ReadOptions
from board.index.discovery.discovered_runs import discover
from board.query import index_builder
(info,) = discover(Path(sys.argv[1])).runs
builder = index_builder.start(info, ReadOptions())
print(builder.pid, flush=True)
sys.stdin.read()
"""


def is_running(process: int) -> bool:
    """Whether a process has not ended; one that nobody has waited for yet has."""
    state = Path(f"/proc/{process}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("ended_by", ["TERM", "INT", "HUP", "KILL"])
def test_a_builder_ends_with_its_server_however_that_ends(tmp_path, ended_by):
    info = info_at(native_run(tmp_path / "run"))
    folder = index_folder(info.path, "", ReadOptions(), make=True)
    # While this holds the lock, the builder waits for it.
    with FolderStorage(folder).writer():
        command = [sys.executable, "-c", SERVER, str(info.path)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
            builder = int(server.stdout.readline())
            assert is_running(builder)
            server.send_signal(getattr(signal, f"SIG{ended_by}"))
            server.wait(60)
        deadline = time.monotonic() + 60
        while is_running(builder):
            assert time.monotonic() < deadline
            time.sleep(0.05)
