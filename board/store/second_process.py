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
from importlib.abc import MetaPathFinder
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection, Pipe
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from board.store.batch import BatchResult, Work, index_batch
from board.store.line_numbers import LineNumbers

if TYPE_CHECKING:
    from board.store.engines import Job

AHEAD: Final = 2
"""Batches it has been given: one that it reads, one for when that is read."""
_THERE: Final = "there"
_BEGIN: Final = (
    "import sys; from multiprocessing.connection import Connection; "
    "connection = Connection(int(sys.argv[1])); sys.path[:] = connection.recv(); "
    f"from {__name__} import serve; serve(connection)"
)


class ProcessGoneError(Exception):
    """The second process has ended by itself: it was killed, for instance."""


class SecondProcess:
    """Reads batches one after the other, in the order in which they are given."""

    def __init__(self, job: Job) -> None:
        self._connection, its_end = Pipe()
        with its_end:
            self._there = can_be_copied()
            self.process = copied(serve, its_end) if self._there else _begun(its_end)
        self._gone = False
        self._given = 0
        self._found: list[Any] = []
        if not self._there:
            self._send(sys.path)
        self._send(job)

    def has_time(self) -> bool:
        """Whether it is there and has not enough to do."""
        self._hear()
        return self._there and not self._gone and self._given - len(self._found) < AHEAD

    def has_result(self, number: int) -> bool:
        """Whether there is nothing to wait for: the batch was read, or never will be."""
        self._hear()
        return self._gone or len(self._found) > number

    def _hear(self) -> None:
        """Takes what it has sent."""
        try:
            while not self._gone and self._connection.poll():
                self._receive()
        except ProcessGoneError:
            pass

    def give(self, batch: Sequence[Work]) -> int:
        """Lets it read a batch; the number by which the result is asked for."""
        self._given += 1
        self._send(batch)
        return self._given - 1

    def result(self, number: int) -> BatchResult:
        """What a batch holds. Raises what reading it raised, and ProcessGoneError."""
        while len(self._found) <= number:
            self._receive()
        found, self._found[number] = self._found[number], None
        if isinstance(found, BaseException):
            raise found
        return found

    def end(self) -> None:
        """Ends it, whatever it is doing: what it has written counts once its result was taken."""
        self._connection.close()
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
            self._found.append(found)


def can_be_copied() -> bool:
    """Whether a copy of this process can do what it does: of all threads it has the one that copies."""
    # Not threading's count, which lacks threads that were begun without it.
    alone = len(sys._current_frames()) == 1 and not current_process().daemon  # pyright: ignore[reportPrivateUsage]
    return alone and sys.platform == "linux"  # system libraries of macOS have threads of their own


def copied(do: Callable[[Connection], None], its_end: Connection) -> BaseProcess:
    """A copy of this process that does one thing, with its end of a connection and no other open file.

    For where can_be_copied says so.
    """
    process = get_context("fork").Process(target=_as_copy, args=(do, its_end), daemon=True)
    with warnings.catch_warnings():
        # Of threads of libraries, which look after themselves: numpy's and Arrow's are ready for it.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _begun(its_end: Connection) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _BEGIN, str(its_end.fileno())]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[its_end.fileno()])


def _as_copy(do: Callable[[Connection], None], connection: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began this one ends it
    _leave_files(connection.fileno())
    do(connection)


def _leave_files(kept: int) -> None:
    """Lets go of what the process that was copied has open: its lock ends with it, and the other end of
    the connection must be its alone, else nobody would see that it is gone.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for entry in [*Path("/proc/self/fd").iterdir()]:
        if (number := int(entry.name)) > 2 and number not in (kept, nothing):
            os.dup2(
                nothing, number
            )  # not closed: objects that think it theirs would close another's


def serve(connection: Connection) -> None:
    """What the second process does until the first one has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began this one ends it
    _spare_pandas()
    job: Job = connection.recv()
    batches: queue.SimpleQueue[Sequence[Work]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, batches), daemon=True).start()
    gc.freeze()  # what was imported need not be looked through while lines are read: a tenth of the time
    connection.send(_THERE)
    numbers = LineNumbers()
    while True:
        connection.send(_outcome(job, numbers, batches.get()))


def _outcome(job: Job, numbers: LineNumbers, batch: Sequence[Work]) -> BatchResult | Exception:
    try:
        numbered = numbers.numbered(batch)
        found = index_batch(job.storage, numbered, job.options, job.vocabulary)
        numbers.learn(found)
        return found
    except Exception as error:  # it is raised where the result is asked for
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            return RuntimeError(repr(error))
        return error


def _listen(connection: Connection, batches: queue.SimpleQueue[Sequence[Work]]) -> None:
    """Takes batches as they come, so that neither process waits for the other to listen, and ends this
    process once the one that began it is gone.
    """
    try:
        while True:
            batches.put(connection.recv())
    finally:
        os._exit(1)


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
