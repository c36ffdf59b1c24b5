"""Where batches are read: in this process, or in several beside it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final, Protocol

from board.core.options import ReadOptions
from board.core.vocabulary import Vocabulary
from board.store.batch import BatchResult, Work, index_batch
from board.store.storage import Storage

MANY_BYTES: Final = 1 << 30
"""From so many bytes on a second process is worth its start, about a second of CPU."""
_MOST_PROCESSES: Final = 2

Awaited = Callable[[], BatchResult]


@dataclass(frozen=True, slots=True)
class Job:
    """What all batches of a run have in common."""

    storage: Storage
    options: ReadOptions
    vocabulary: Vocabulary | None


class Engine(Protocol):
    """Reads batches. width: how many are worth having under way beside what its user does; 0: none."""

    width: int

    def submit(self, batch: Sequence[Work]) -> Awaited:
        """Begins to read a batch; the result is waited for by calling what is returned."""
        ...


ChooseEngine = Callable[[Job, int], AbstractContextManager[Engine]]
"""From a job and the number of bytes to read to the engine that reads them."""


class InProcess:
    """Reads each batch when its result is asked for."""

    width = 0

    def __init__(self, job: Job) -> None:
        self._job = job

    def submit(self, batch: Sequence[Work]) -> Awaited:
        """As Engine."""
        job = self._job
        return lambda: index_batch(job.storage, batch, job.options, job.vocabulary)


class _Processes:
    """Reads batches in other processes; parsers hold the interpreter's lock, so threads gain nothing."""

    def __init__(self, pool: ProcessPoolExecutor, width: int) -> None:
        self._pool = pool
        self.width = width

    def submit(self, batch: Sequence[Work]) -> Awaited:
        """As Engine."""
        return self._pool.submit(_read_in_worker, batch).result


_job: Job | None = None


def _begin_worker(job: Job, parent: int) -> None:
    global _job
    _job = job
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Ends this process once the one that started it is gone, killed for instance."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _read_in_worker(batch: Sequence[Work]) -> BatchResult:
    if _job is None:
        raise AssertionError("the worker was not begun")
    return index_batch(_job.storage, batch, _job.options, _job.vocabulary)


@contextmanager
def local(job: Job, size: int) -> Generator[Engine]:
    """The engine for so many bytes on this machine: two processes where that pays."""
    width = min(_MOST_PROCESSES, len(os.sched_getaffinity(0)))
    if size < MANY_BYTES or width < 2:
        yield InProcess(job)
        return
    with ProcessPoolExecutor(
        width, get_context("spawn"), initializer=_begin_worker, initargs=(job, os.getpid())
    ) as pool:
        yield _Processes(pool, width)
