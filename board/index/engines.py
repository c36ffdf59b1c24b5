"""Where batches are read: in this process, or in several beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from board.core.options import ReadOptions
from board.core.tokens.vocabulary import Vocabulary
from board.index.batch import FEW_ROWS, BatchResult, Work, index_batch
from board.index.line_numbers import LineNumbers
from board.index.second_process import AHEAD, ProcessGoneError, SecondProcess
from board.index.storage import FolderStorage, Storage

MANY_BYTES: Final = 48 << 20
"""From so many bytes of texts on a second process is worth its while; of 64 MB of long arrays two take as
long as one."""
_HERE: Final = 0
_THERE: Final = 1
_UNDER_WAY: Final = AHEAD + 1
_MOST_AWAITED: Final = 12
"""Batches that wait to be taken in their order, where the one before them takes long."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """A batch that is read. result: waits for it. is_there: whether there is nothing to wait for."""

    result: Callable[[], BatchResult]
    is_there: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Job:
    """What all batches of a run have in common."""

    storage: Storage
    options: ReadOptions
    vocabulary: Vocabulary | None


class Engine(Protocol):
    """Reads batches. width: how many are worth having under way beside what its user does; 0: none.
    most: how many it may have been given whose results were not taken.
    """

    width: int
    most: int

    def reader(self) -> int | None:
        """Which of its processes gets the next batch, each reading its own in turn; None: any may."""
        ...

    def submit(self, batch: Sequence[Work]) -> Awaited:
        """Begins to read a batch."""
        ...


ChooseEngine = Callable[[Job, int], AbstractContextManager[Engine]]
"""From a job and the number of bytes to read to the engine that reads them."""


class InProcess:
    """Reads each batch when its result is asked for."""

    width = most = 0

    def __init__(self, job: Job) -> None:
        self._job = job
        self._numbers = LineNumbers()

    def reader(self) -> int | None:
        """As Engine."""
        return _HERE

    def submit(self, batch: Sequence[Work]) -> Awaited:
        """As Engine."""
        return Awaited(lambda: self.read(batch))

    def read(self, batch: Sequence[Work]) -> BatchResult:
        """What a batch holds."""
        job = self._job
        numbered = self._numbers.numbered(batch)
        found = index_batch(job.storage, numbered, job.options, job.vocabulary, FEW_ROWS)
        self._numbers.learn(found)
        return found

    def told(self, batch: Sequence[Work]) -> Sequence[Work]:
        """The batch for another process, with what is known here of its lines."""
        return self._numbers.told(batch)

    def learn(self, found: BatchResult) -> None:
        """Takes note of what was read elsewhere: its lines need not be counted here."""
        self._numbers.learn(found)


class _TwoProcesses:
    """Reads batches in a process beside this one, and here what that one has no time for.

    Parsers hold the interpreter's lock, so threads gain nothing. Until the other process is there, and
    whenever it has enough to do, a batch is read here when it is submitted; and where a result is waited
    for, those that it was given and has not begun.
    """

    width = _UNDER_WAY
    most = _MOST_AWAITED

    def __init__(self, job: Job, other: SecondProcess) -> None:
        self._here = InProcess(job)
        self._other = other
        self._next: int | None = None
        self._given: dict[int, Sequence[Work]] = {}
        self._taken_back: dict[int, BatchResult] = {}

    def reader(self) -> int | None:
        """As Engine."""
        if self._next is None:
            self._next = _THERE if self._other.has_time() else _HERE
        return self._next

    def submit(self, batch: Sequence[Work]) -> Awaited:
        """As Engine."""
        reader, self._next = self.reader(), None
        if reader == _THERE:
            number = self._other.give(self._here.told(batch))
            self._given[number] = batch
            return Awaited(lambda: self._result(number), lambda: self._is_there(number))
        found = self._here.read(batch)
        return Awaited(lambda: found, lambda: True)

    def _is_there(self, number: int) -> bool:
        return number in self._taken_back or self._other.has_result(number)

    def _result(self, number: int) -> BatchResult:
        while not self._is_there(number):
            next_one = self._other.taken_back()
            if next_one is None:
                break
            self._taken_back[next_one] = self._here.read(self._given[next_one])
        batch = self._given.pop(number)
        if number in self._taken_back:
            return self._taken_back.pop(number)
        try:
            found = self._other.result(number)
        except ProcessGoneError:
            return self._here.read(batch)
        self._here.learn(found)
        return found


@contextmanager
def local(job: Job, size: int) -> Generator[Engine]:
    """The engine for so many bytes on this machine: two processes where that pays."""
    is_shared = isinstance(job.storage, FolderStorage)  # what another process writes is seen here
    if size < MANY_BYTES or not is_shared or len(os.sched_getaffinity(0)) < 2:
        yield InProcess(job)
        return
    other = SecondProcess(job)
    try:
        yield _TwoProcesses(job, other)
    finally:
        other.end()
