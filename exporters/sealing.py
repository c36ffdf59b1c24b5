"""Full parts compressed with zstandard, on a thread of their own.

The part is replaced only by a whole compressed file; where that fails it stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from pathlib import Path

from exporters.tally import Tally

_LEVEL = 3
_CHUNK = 4 << 20


class Sealer:
    """Turns `x.jsonl` into `x.jsonl.zst`, one file after the other."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._paths: queue.Queue[Path] = queue.Queue()
        threading.Thread(target=self._run, name="rollout-sealer", daemon=True).start()

    def seal(self, path: Path) -> None:
        """Has `path` compressed in the background."""
        self._paths.put(path)

    def wait(self) -> None:
        """Returns once everything handed over so far was dealt with."""
        self._paths.join()

    def _run(self) -> None:
        while True:
            path = self._paths.get()
            try:
                compress(path)
            except Exception as error:
                self._tally.fail("compress", error)
            finally:
                self._paths.task_done()


def compress(path: Path) -> None:
    """Replaces `path` by `path`.zst. Raises OSError and leaves `path` where that fails."""
    import zstandard

    sealed = path.with_name(path.name + ".zst")
    temporary = path.with_name(f".{sealed.name}.{os.getpid()}")
    try:
        with path.open("rb") as source, temporary.open("wb") as target:
            zstandard.ZstdCompressor(level=_LEVEL).copy_stream(
                source, target, size=path.stat().st_size, read_size=_CHUNK
            )
        temporary.replace(sealed)
        path.unlink()
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
