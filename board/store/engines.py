"""Where batches are read: in this process, or in several beside it."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final, Protocol

from board.core.options import ReadOptions
from board.core.vocabulary import Vocabulary
from board.store.batch import BatchResult, Work, index_batch
from board.store.storage import Storage

MANY_BYTES: Final = 1 << 30
"""From so many bytes on a second process is worth its start, about a second of CPU."""
_AHEAD: Final = 2
"""Batches the second process has been given: one that it reads, one for when that is read."""
_UNDER_WAY: Final = _AHEAD + 1
"""Batches that wait to be taken in their order: no more, so that whoever watches soon sees the first."""

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


class _TwoProcesses:
    """Reads batches in a process beside this one, and here what that one has no time for.

    Parsers hold the interpreter's lock, so threads gain nothing. The other process takes a second to
    begin; until then, and whenever it has enough to do, a batch is read here when it is submitted.
    """

    width = _UNDER_WAY

    def __init__(self, job: Job, pool: ProcessPoolExecutor) -> None:
        self._here = InProcess(job)
        self._pool = pool
        self._given: list[Future[Any]] = [pool.submit(_begun) for _ in range(_AHEAD)]

    def submit(self, batch: Sequence[Work]) -> Awaited:
        """As Engine."""
        self._given = [future for future in self._given if not future.done()]
        if len(self._given) < _AHEAD:
            future = self._pool.submit(_read_in_worker, batch)
            self._given.append(future)
            return future.result
        found = self._here.submit(batch)()
        return lambda: found


_job: Job | None = None


def _begin_worker(job: Job, parent: int) -> None:
    global _job
    _job = job
    gc.freeze()  # what was imported need not be looked through while lines are read: a tenth of the time
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Ends this process once the one that started it is gone, killed for instance."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _begun() -> None:
    """Is done when a worker is there."""


def _read_in_worker(batch: Sequence[Work]) -> BatchResult:
    if _job is None:
        raise AssertionError("the worker was not begun")
    return index_batch(_job.storage, batch, _job.options, _job.vocabulary)


@contextmanager
def local(job: Job, size: int) -> Generator[Engine]:
    """The engine for so many bytes on this machine: two processes where that pays."""
    if size < MANY_BYTES or len(os.sched_getaffinity(0)) < 2:
        yield InProcess(job)
        return
    with ProcessPoolExecutor(
        1, get_context("spawn"), initializer=_begin_worker, initargs=(job, os.getpid())
    ) as pool:
        yield _TwoProcesses(job, pool)
