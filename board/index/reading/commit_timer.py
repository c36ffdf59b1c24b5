"""How far a build has come: what its user is told, and when what was read is worth being committed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal

Progress = Callable[[int, int], None]
"""Called with (bytes read, bytes in all) while a run is read."""

_COMMIT_SECONDS: Final = 1.0
_FIRST_STEPS_SECONDS: Final = 2.0
_STEPS_SHARE: Final = 8.0
"""While an index is built its step table is made again after so many times what that took."""
_SOON_SECONDS: Final = 2.0
"""But not when the build ends in so many seconds, and makes it anyway."""


class CommitTimer:
    """total: bytes of the run; done: of them, what was read before."""

    def __init__(self, total: int, done: int, progress: Progress | None) -> None:
        self._total = total
        self._done_before = done
        self._progress = progress
        self._committed_at = self._stepped_at = self._begun_at = time.monotonic()
        self._steps_took = _FIRST_STEPS_SECONDS / _STEPS_SHARE

    def report(self, done: int) -> None:
        """Says how many bytes are done."""
        if self._progress is not None:
            self._progress(min(done, self._total), self._total)

    def next_commit(self, done: int) -> Literal["steps", "rows"] | None:
        """Whether rows are to be committed now, and the step table with them. done: bytes, with those
        that wait for others before them.
        """
        now = time.monotonic()
        if now - self._stepped_at > _STEPS_SHARE * self._steps_took:
            # What the rest takes if it is read as fast as what was read by now.
            left = max(self._total - done, 0) / max(done - self._done_before, 1)
            if (now - self._begun_at) * left > _SOON_SECONDS:
                return "steps"
        return "rows" if now - self._committed_at > _COMMIT_SECONDS else None

    def committed(self) -> None:
        """Takes note that rows were committed."""
        self._committed_at = time.monotonic()

    def step_table_written(self, begun: float) -> None:
        """Takes note that the step table was made, since then by time.monotonic."""
        self._stepped_at = time.monotonic()
        self._steps_took = max(self._stepped_at - begun, _FIRST_STEPS_SECONDS / _STEPS_SHARE)
