"""Two processes share the batches of a large run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from written_logs import native_run

from board.core.options import ReadOptions
from board.index import engines, second_process
from board.index.batch import FEW_ROWS, Work
from board.index.discovery.discovered_runs import discover
from board.index.engines import Engine, Job, local
from board.index.manifest import TakenAwayError
from board.index.memory_storage import MemoryStorage
from board.index.second_process import SecondProcess
from board.index.shard import Shard
from board.index.storage import FolderStorage
from board.query.open_run import Follower

_BATCHES = 12


def batches(path: Path) -> list[list[Work]]:
    return [[Work(Shard(path, path.name, "native"), number)] for number in range(_BATCHES)]


def is_running(other: SecondProcess) -> bool:
    process = other.process
    return process.poll() is None if isinstance(process, subprocess.Popen) else process.is_alive()


def read_with(folder: Path, path: Path, size: int) -> list[tuple[int, int]]:
    folder.mkdir()
    with (
        patch("os.sched_getaffinity", lambda _: {0, 1}),
        local(Job(FolderStorage(folder), ReadOptions(), None), size) as engine,
    ):
        awaited = [engine.submit(batch) for batch in batches(path)]
        results = [reading.result() for reading in awaited]
    return [(r.files[0].work.file_id, r.rows) for r in results]


@contextmanager
def two_processes(folder: Path) -> Iterator[tuple[Engine, SecondProcess]]:
    """An engine of two processes, the second of which is there."""
    job = Job(FolderStorage(folder), ReadOptions(), None)
    other = SecondProcess(job)
    while not other.has_time():
        time.sleep(0.01)
    with (
        patch.object(engines, "SecondProcess", lambda _: other),
        patch("os.sched_getaffinity", lambda _: {0, 1}),
        local(job, engines.MANY_BYTES) as engine,
    ):
        yield engine, other


def finds_in_order_what_one_process_finds(folder: Path, path: Path) -> None:
    alone = read_with(folder / "one", path, engines.MANY_BYTES - 1)
    both = read_with(folder / "two", path, engines.MANY_BYTES)
    assert alone == both
    assert [number for number, _ in both] == list(range(_BATCHES))


def leaves_what_it_was_given_to_be_read_here_when_killed(folder: Path, path: Path) -> None:
    with two_processes(folder) as (engine, other):
        first, *_ = [engine.submit(batch) for batch in batches(path)]
        assert is_running(other)
        other.process.kill()
        while is_running(other):
            time.sleep(0.01)
        while not first.is_there():
            time.sleep(0.01)
        assert first.result().rows > 0
        assert engine.submit(batches(path)[0]).result().rows > 0
        assert not other.has_time()


def leaves_what_it_has_not_begun_to_be_read_here(folder: Path, path: Path) -> None:
    with two_processes(folder) as (engine, other):
        os.kill(other.process.pid, signal.SIGSTOP)
        first, second, *_ = [engine.submit(batch) for batch in batches(path)]
        assert not first.is_there()
        for number, reading in enumerate((first, second)):
            assert reading.result().files[0].work.file_id == number
        os.kill(other.process.pid, signal.SIGCONT)
        assert other.result(other.give(batches(path)[7])).files[0].work.file_id == 7


def raises_an_error_of_the_index_where_the_result_is_asked_for(folder: Path, path: Path) -> None:
    many = folder / "many.jsonl"
    many.write_bytes(b'{"step": 1, "response": "a"}\n' * FEW_ROWS)
    other = SecondProcess(Job(FolderStorage(folder / "gone"), ReadOptions(), None))
    try:
        number = other.give(batches(many)[0])
        with pytest.raises(TakenAwayError):
            other.result(number)
    finally:
        other.end()


def ends_with_the_process_that_was_copied(folder: Path, path: Path) -> None:
    """And holds nothing of it until then: neither its lock nor its end of the connection."""
    storage = FolderStorage(folder)
    with storage.writer():
        other = SecondProcess(Job(storage, ReadOptions(), None))
        other.result(other.give(batches(path)[0]))
    with storage.writer() as alone:
        assert alone
    other._connection.close()
    while is_running(other):
        time.sleep(0.01)


def begins_its_next_batch_before_its_last_result_was_taken(folder: Path, path: Path) -> None:
    many = folder / "large_result.jsonl"
    line = b'{"step": 1, "response": "%b"}\n' % (b"a" * 200)
    many.write_bytes(line * (FEW_ROWS - 1))  # so few that they are sent, not written
    other = SecondProcess(Job(FolderStorage(folder), ReadOptions(), None))
    try:
        numbers = [other.give(batch) for batch in batches(many)[:2]]
        while wait([other._turns.descriptor], 0):  # for ever, should it not begin the second
            time.sleep(0.01)
        assert [other.result(number).rows for number in numbers] == [FEW_ROWS - 1] * 2
    finally:
        other.end()


LAWS = (
    begins_its_next_batch_before_its_last_result_was_taken,
    finds_in_order_what_one_process_finds,
    leaves_what_it_was_given_to_be_read_here_when_killed,
    leaves_what_it_has_not_begun_to_be_read_here,
    raises_an_error_of_the_index_where_the_result_is_asked_for,
    ends_with_the_process_that_was_copied,
)


@pytest.mark.parametrize("law", LAWS)
def test_a_new_process(tmp_path, monkeypatch, law):
    monkeypatch.setattr(second_process, "can_be_copied", lambda: False)
    law(tmp_path, min(native_run(tmp_path / "run").glob("*.jsonl")))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux alone")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_copied_process(tmp_path):
    """In a copy of this process, which has none of its threads and need not import anything again."""
    path = min(native_run(tmp_path / "run").glob("*.jsonl"))
    told = tmp_path / "told"
    process = os.fork()
    if process == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)  # ends it, should a law wait for what never comes
        try:
            assert second_process.can_be_copied()
            for law in LAWS:
                law(tmp_path, path)
        except BaseException:
            told.write_text(traceback.format_exc())
        finally:
            os._exit(told.exists())
    _, status = os.waitpid(process, 0)
    assert status == 0, told.read_text() if told.exists() else f"it was ended: {status}"


def test_a_process_of_several_threads_is_not_copied():
    end = threading.Lock()
    end.acquire()
    thread = threading.Thread(target=end.acquire)
    thread.start()
    assert not second_process.can_be_copied()
    end.release()
    thread.join()


def test_batches_are_read_here_until_a_new_process_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(second_process, "can_be_copied", lambda: False)
    path = min(native_run(tmp_path / "run").glob("*.jsonl"))
    here: list[int] = []
    own = engines.index_batch

    def noted(storage, batch, *rest):
        here.append(batch[0].file_id)
        return own(storage, batch, *rest)

    monkeypatch.setattr(engines, "index_batch", noted)
    read_with(tmp_path / "index", path, engines.MANY_BYTES)
    assert 0 in here


def test_a_table_counts_as_several_times_its_size(tmp_path):
    """Else a log of Parquet would be read by one process that takes as long as for its lines of JSON."""
    told: list[int] = []

    def engine(job: Job, size: int) -> AbstractContextManager[Engine]:
        told.append(size)
        return local(job, size)

    columns = {"step": [1], "prompt": ["p"], "completion": ["c"], "acc": [1.0], "advantage": [0.0]}
    path = tmp_path / "completions" / "completions_00001.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table(columns), path)
    run = Follower(engine=engine).run(discover(tmp_path).runs[0])
    assert run.counts == {1: 1}
    assert told[0] > 2 * path.stat().st_size


def test_an_index_in_memory_is_made_by_one_process(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with local(Job(MemoryStorage(), ReadOptions(), None), engines.MANY_BYTES) as engine:
        assert engine.width == 0


def test_a_second_process_reads_without_importing_frames(tmp_path):
    path = min(native_run(tmp_path / "run").glob("*.jsonl"))
    script = (
        "import sys; from pathlib import Path; from board.index import second_process as other; "
        "other._spare_pandas(); from board.core.options import ReadOptions; "
        "from board.index.batch import FEW_ROWS, Work, index_batch; from board.index.shard import Shard; "
        "from board.index.storage import FolderStorage; path = Path(sys.argv[1]); "
        "work = Work(Shard(path, path.name, 'native'), 0); "
        "index_batch(FolderStorage(path.parent), [work], ReadOptions(), None); "
        "assert 'pandas' not in sys.modules; import pandas, pyarrow; "
        "assert pyarrow.array([1]).to_pandas().sum() == 1"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
