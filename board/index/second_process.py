"""A process beside this one that reads batches.

Where this process has no other threads it is a copy of it, there at once. Else a new one, for a copy
would lack those threads and keep their locks; not one of multiprocessing's, which first run the main
module of this process again, with all it imports, and take a second to begin. This one imports what reads
batches and is there in a third of that time.
"""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import gc
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection, Pipe
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from board.index.batch import FEW_ROWS, BatchResult, Work, index_batch
from board.index.line_numbers import LineNumbers
from board.index.work_queue import Turns

if TYPE_CHECKING:
    from board.index.engines import Job

AHEAD: Final = 2
"""Batches it has been given: one that it reads, one for when that is read."""
_THERE: Final = "there"
_BEGIN: Final = (
    "import sys; from multiprocessing.connection import Connection; "
    "connection = Connection(int(sys.argv[1])); sys.path[:] = connection.recv(); "
    f"from {__name__} import serve; serve(connection, int(sys.argv[2]))"
)

_Batches = queue.SimpleQueue[tuple[int, Sequence[Work]]]


class ProcessGoneError(Exception):
    """The second process has ended by itself: it was killed, for instance."""


class SecondProcess:
    """Reads batches one after the other, in the order in which they are given."""

    def __init__(self, job: Job) -> None:
        self._connection, its_end = Pipe()
        self._turns = Turns()
        turns = self._turns.descriptor
        with its_end:
            self._there = can_be_copied()
            if self._there:
                self.process = copied(lambda: serve(its_end, turns), its_end.fileno(), turns)
            else:
                self.process = _begun(its_end.fileno(), turns)
        self._gone = False
        self._given = self._done = 0
        self._found: dict[int, BatchResult | Exception] = {}
        if not self._there:
            self._send(sys.path)
        self._send(job)

    def has_time(self) -> bool:
        """Whether it is there and has not enough to do."""
        self._hear()
        return self._there and not self._gone and self._given - self._done < AHEAD

    def has_result(self, number: int) -> bool:
        """Whether there is nothing to wait for: the batch was read, or never will be."""
        self._hear()
        return self._gone or number in self._found

    def _hear(self) -> None:
        """Takes what it has sent."""
        try:
            while not self._gone and self._connection.poll():
                self._receive()
        except ProcessGoneError:
            pass

    def give(self, batch: Sequence[Work]) -> int:
        """Lets it read a batch; the number by which the result is asked for, counted from 0."""
        number = self._given
        self._given += 1
        self._send((number, batch))
        self._turns.add(number)
        return number

    def taken_back(self) -> int | None:
        """The number of the next batch that it has not begun, and now never will; None: there is none."""
        number = self._turns.taken()
        if number is not None:
            self._done += 1
        return number

    def result(self, number: int) -> BatchResult:
        """What a batch holds. Raises what reading it raised, and ProcessGoneError."""
        while number not in self._found:
            self._receive()
        found = self._found.pop(number)
        if isinstance(found, Exception):
            raise found
        return found

    def end(self) -> None:
        """Ends it, whatever it is doing: what it has written counts once its result was taken."""
        self._connection.close()
        self._turns.close()
        self.process.kill()
        if isinstance(self.process, BaseProcess):
            self.process.join()
        else:
            self.process.wait()

    def _send(self, what: object) -> None:
        try:
            self._connection.send(what)
        except OSError:
            self._gone = True

    def _receive(self) -> None:
        try:
            found = None if self._gone else self._connection.recv()
        except (OSError, EOFError, pickle.UnpicklingError):
            found = None
        if found is None:
            self._gone = True
            raise ProcessGoneError
        if found == _THERE:
            self._there = True
        else:
            number, self._found[number] = found
            self._done += 1


def can_be_copied() -> bool:
    """Whether a copy of this process can do what it does: of all threads it has the one that copies."""
    # Not threading's count, which lacks threads that were begun without it.
    alone = len(sys._current_frames()) == 1 and not current_process().daemon  # pyright: ignore[reportPrivateUsage]
    return alone and sys.platform == "linux"  # system libraries of macOS have threads of their own


def copied(do: Callable[[], None], *kept: int) -> BaseProcess:
    """A copy of this process that does one thing, with these of its open files and no other.

    For where can_be_copied says so.
    """
    process = get_context("fork").Process(target=_as_copy, args=(do, kept), daemon=True)
    with warnings.catch_warnings():
        # Of threads of libraries, which look after themselves: numpy's and Arrow's are ready for it.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _begun(*kept: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _BEGIN, *map(str, kept)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=kept)


def _as_copy(do: Callable[[], None], kept: Sequence[int]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began this one ends it
    _leave_files(kept)
    do()


def _leave_files(kept: Sequence[int]) -> None:
    """Lets go of what the process that was copied has open: its lock ends with it, and the other end of
    the connection must be its alone, else nobody would see that it is gone.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for entry in [*Path("/proc/self/fd").iterdir()]:
        if (number := int(entry.name)) > 2 and number not in (*kept, nothing):
            os.dup2(
                nothing, number
            )  # not closed: objects that think it theirs would close another's


def serve(connection: Connection, turns: int) -> None:
    """What the second process does until the first one has gone. turns: the descriptor of its Turns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began this one ends it
    _spare_pandas()
    job: Job = connection.recv()
    batches: _Batches = queue.SimpleQueue()
    said: queue.SimpleQueue[object] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, batches), daemon=True).start()
    threading.Thread(target=_say, args=(connection, said), daemon=True).start()
    gc.freeze()  # what was imported need not be looked through while lines are read: a tenth of the time
    said.put(_THERE)
    numbers = LineNumbers()
    waiting = Turns(turns)
    while True:
        number = waiting.awaited()
        said.put((number, _outcome(job, numbers, _numbered(batches, number))))


def _numbered(batches: _Batches, wanted: int) -> Sequence[Work]:
    """The batch of that number; those before it were taken back."""
    while True:
        number, batch = batches.get()
        if number == wanted:
            return batch


def _outcome(job: Job, numbers: LineNumbers, batch: Sequence[Work]) -> BatchResult | Exception:
    try:
        numbered = numbers.numbered(batch)
        found = index_batch(job.storage, numbered, job.options, job.vocabulary, FEW_ROWS)
        numbers.learn(found)
        return found
    except Exception as error:  # it is raised where the result is asked for
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(repr(error))
        return error


def _listen(connection: Connection, batches: _Batches) -> None:
    """Takes batches as they come, so that neither process waits for the other to listen, and ends this
    process once the one that began it is gone.
    """
    try:
        while True:
            batches.put(connection.recv())
    finally:
        os._exit(1)


def _say(connection: Connection, said: queue.SimpleQueue[object]) -> None:
    """Sends what there is to say: a result is larger than what a connection holds, and the process that
    gets it takes it when it has read a batch of its own, for which the next batch need not wait.
    """
    with suppress(OSError):  # whoever began this process is gone, and _listen ends it
        while True:
            connection.send(said.get())


class _NoPandas(MetaPathFinder):
    """Lets imports of pandas fail."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """None but for pandas: others look for it then."""
        if fullname == "pandas":
            raise ImportError("not needed to read batches")


def _spare_pandas() -> None:
    """Arrow imports pandas the first time it makes an array, to see whether it is given a frame."""
    if "pandas" in sys.modules:
        return
    for_now = _NoPandas()
    sys.meta_path.insert(0, for_now)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(for_now)
