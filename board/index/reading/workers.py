"""Where batches of a log are read: in this process, and in other processes beside it for large logs.

A batch is read by `index_batch`, a plain function of plain data; workers on a Ray cluster call the same
one (ray_engine). Parsers hold the interpreter's lock, so threads would gain nothing.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import current_process, parent_process
from multiprocessing.context import ForkContext, ForkProcess
from typing import Any, Final, Protocol

from board.index.reading.batch import BatchResult, Job, index_batch
from board.index.reading.shard import Shard
from board.index.storage import FolderStorage

POOL_BYTES: Final = 32 << 20
"""Smaller logs are read before a second process has saved any time."""
MAX_PROCESSES: Final = 2
"""Each takes up to 200 MB, and a build is promised to take 500 MB."""
_BATCHES_PER_WORKER: Final = 2
"""One that it reads, one for when that is read."""
_MAX_IN_FLIGHT: Final = 12
"""Results are taken in order; so many batches may wait for one that takes long."""


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """A batch that is being read. result: waits for it, and raises what reading it raised."""

    result: Callable[[], BatchResult]
    is_done: Callable[[], bool] = lambda: False


class Engine(Protocol):
    """Reads batches.

    parallel: batches that other processes can be given at once; 0: all are read in this process.
    max_in_flight: batches that may be submitted before the first result is taken.
    """

    parallel: int
    max_in_flight: int

    def submit(self, batch: Sequence[Shard]) -> PendingBatch:
        """Begins to read a batch."""
        ...


ChooseEngine = Callable[[Job, int], AbstractContextManager[Engine]]
"""From a job and the number of bytes to read to the engine that reads them."""


class InProcess:
    """Reads each batch when its result is asked for."""

    parallel = 0
    max_in_flight = 1

    def __init__(self, job: Job) -> None:
        self._job = job

    def submit(self, batch: Sequence[Shard]) -> PendingBatch:
        """Reads nothing yet."""
        return PendingBatch(lambda: index_batch(self._job, batch))


class ProcessPool:
    """Reads batches in forked processes, and in this one those that they have no time for.

    A process that was killed reads nothing more: its batches are read here.
    """

    max_in_flight = _MAX_IN_FLIGHT

    def __init__(self, job: Job, workers: int) -> None:
        self.parallel = workers * _BATCHES_PER_WORKER
        self._job = job
        self._context = _Context()
        self._executor = ProcessPoolExecutor(workers, self._context, _initialize_worker, (job,))
        self._futures: list[Future[BatchResult]] = []

    @property
    def has_capacity(self) -> bool:
        """Whether a worker has too little to do."""
        self._futures = [future for future in self._futures if not future.done()]
        return len(self._futures) < self.parallel

    def submit(self, batch: Sequence[Shard]) -> PendingBatch:
        """Gives the batch to a worker, or reads it before returning where none has capacity."""
        try:
            if self.has_capacity:
                future = self._executor.submit(_read_in_worker, batch)
                self._futures.append(future)
                return PendingBatch(lambda: self._result(future, batch), future.done)
        except BrokenProcessPool:
            pass
        result = index_batch(self._job, batch)
        return PendingBatch(lambda: result, lambda: True)

    def _result(self, future: Future[BatchResult], batch: Sequence[Shard]) -> BatchResult:
        try:
            return future.result()
        except BrokenProcessPool:
            return index_batch(self._job, batch)

    def close(self) -> None:
        """Ends the workers at once: what was not taken does not count."""
        for process in self._context.processes:
            process.kill()
        self._executor.shutdown()


@contextmanager
def local_engine(job: Job, size: int) -> Generator[Engine]:
    """The engine for so many bytes on this machine: several processes where that pays."""
    is_shared = isinstance(job.storage, FolderStorage)  # what another process writes is seen here
    workers = min(len(os.sched_getaffinity(0)), MAX_PROCESSES) - 1 if _can_fork() else 0
    if size < POOL_BYTES or not is_shared or workers < 1:
        yield InProcess(job)
        return
    import numpy.ma  # noqa: F401  # Arrow asks for it, and would in each process

    gc.freeze()  # a collection would look through all that was imported, and write to shared pages
    pool = ProcessPool(job, workers)
    try:
        yield pool
    finally:
        pool.close()
        gc.unfreeze()


def _can_fork() -> bool:
    """Whether a copy of this process could work: locks that other threads hold are never released in it.

    A server is full of threads; it builds large indexes in a process of their own.
    """
    return (
        sys.platform == "linux" and threading.active_count() == 1 and not current_process().daemon
    )


class _Context(ForkContext):
    """Remembers the processes it starts: the executor has no public way to kill them (before 3.14)."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[ForkProcess] = []

    def Process(  # noqa: N802  # pyright: ignore[reportIncompatibleVariableOverride]
        self, *args: Any, **options: Any
    ) -> ForkProcess:
        """A process that is not started yet; the executor calls it."""
        self.processes.append(ForkProcess(*args, **options))
        return self.processes[-1]


_job: Job | None = None


def _initialize_worker(job: Job) -> None:
    global _job
    _job = job
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Ends this worker when its parent was killed: its queue would let it wait forever."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _read_in_worker(batch: Sequence[Shard]) -> BatchResult:
    assert _job is not None
    return index_batch(_job, batch)
