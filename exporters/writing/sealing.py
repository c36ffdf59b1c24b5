"""Finished files, on a thread of their own: full parts are compressed, and all go to a store, if any.

A part is replaced only by a whole compressed file, and goes from this machine only when the store has it.
Where that fails it stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from dataclasses import dataclass
from pathlib import Path

from exporters.writing.counters import Counters
from exporters.writing.store import Store

_LEVEL = 3
_CHUNK = 4 << 20
_WAITS = (0.0, 1.0, 4.0, 16.0)
"""Seconds before each try to upload a file."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file that nothing is added to any more, and how many rollouts it holds."""

    path: Path
    rollouts: int = 0
    is_compressed: bool = False
    replaces: bool = True


class Sealer:
    """Compresses and uploads files, one after the other.

    compresses: whether `x.jsonl` is turned into `x.jsonl.zst`. store: where files go; None: they stay.
    """

    def __init__(self, counters: Counters, *, compresses: bool, store: Store | None) -> None:
        self._counters, self._compresses, self._store = counters, compresses, store
        self._files: queue.SimpleQueue[_File | None] = queue.SimpleQueue()
        self._waiting: list[_File] = []  # the one in hand included
        self._lock = threading.RLock()
        self._timed_out = threading.Event()
        self._left: list[Path] = []
        self._reason = ""
        self._thread = threading.Thread(target=self._run, name="rollout-sealer", daemon=True)
        self._thread.start()

    def seal(self, path: Path, rollouts: int) -> None:
        """Takes a full part of so many rollouts."""
        self._take(_File(path, rollouts, self._compresses))

    def send(self, path: Path, rollouts: int = 0, *, replaces: bool = True) -> None:
        """Takes a file that is uploaded as it is. replaces: as in `Store.put`."""
        if self._store is not None:
            self._take(_File(path, rollouts, replaces=replaces))

    def stop(self, timeout: float) -> bool:
        """Does what was handed over and ends; False where `timeout` seconds did not do.

        What is not compressed or uploaded by then stays readable as it is, and is counted.
        """
        self._files.put(None)
        self._thread.join(timeout)
        with self._lock:
            self._timed_out.set()
            late, self._waiting = self._waiting, []
        for file in late if self._store is not None else ():
            self._leave(file, "the time to close was over")
        if self._left:
            message = (
                f"{len(self._left)} files stay in {self._left[-1].parent}, not in {self._store}"
            )
            self._counters.warn(f"{message}: {self._reason}", always=True)
        return not late

    def _take(self, file: _File) -> None:
        with self._lock:
            self._waiting.append(file)
        self._files.put(file)

    def _run(self) -> None:
        while (file := self._files.get()) is not None and not self._timed_out.is_set():
            path = self._compressed(file.path) if file.is_compressed else file.path
            reason = self._upload(path, replaces=file.replaces)
            with self._lock:
                if self._timed_out.is_set():  # counted already
                    return
                self._waiting.remove(file)
            if reason:
                self._leave(file, reason)

    def _compressed(self, path: Path) -> Path:
        try:
            return compress(path)
        except Exception as error:
            self._counters.fail("compress", error)
            return path

    def _upload(self, path: Path, *, replaces: bool) -> str:
        """Moves a file to the store, if there is one. Returns "" or why that failed."""
        if self._store is None:
            return ""
        reason = "no time was left"
        for wait in _WAITS:
            if self._timed_out.wait(wait):
                return reason
            try:
                self._store.put(path, replaces=replaces)
            except Exception as error:
                self._counters.fail("upload", error)
                reason = f"{type(error).__name__}: {error}"
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
                return ""
        return reason

    def _leave(self, file: _File, reason: str) -> None:
        """Counts the rollouts of a file that stays here."""
        self._left.append(file.path)
        self._reason = reason
        self._counters.add("not_uploaded", file.rollouts)
        self._counters.warn(f"{file.path} was not uploaded to {self._store}: {reason}")


def compress(path: Path) -> Path:
    """Replaces `path` by `path`.zst, and returns that. Raises OSError and leaves `path` where it fails.

    Between the two a process may be killed: where both are there, `path` is whole and counts.
    """
    import zstandard

    sealed = path.with_name(path.name + ".zst")
    temporary = path.with_name(f".{sealed.name}.{os.getpid()}")
    try:
        with path.open("rb") as source, temporary.open("wb") as target:
            zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).copy_stream(
                source, target, size=path.stat().st_size, read_size=_CHUNK
            )
            target.flush()
            os.fsync(target.fileno())  # before the only other copy goes
        temporary.replace(sealed)
        path.unlink()
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return sealed
