"""Full parts compressed with zstandard, on a thread of their own.

The part is replaced only by a whole compressed file; where that fails it stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from pathlib import Path

from exporters.writing.counters import Counters

_LEVEL = 3
_CHUNK = 4 << 20


class Sealer:
    """Turns `x.jsonl` into `x.jsonl.zst`, one file after the other."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._paths: queue.Queue[Path | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="rollout-sealer", daemon=True)
        self._thread.start()

    def seal(self, path: Path) -> None:
        """Has `path` compressed in the background."""
        self._paths.put(path)

    def stop(self, timeout: float) -> bool:
        """Compresses what was handed over and ends; False where `timeout` seconds did not do.

        What is not compressed by then stays readable as it is.
        """
        self._paths.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (path := self._paths.get()) is not None:
            try:
                compress(path)
            except Exception as error:
                self._counters.fail("compress", error)


def compress(path: Path) -> None:
    """Replaces `path` by `path`.zst. Raises OSError and leaves `path` where that fails.

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
