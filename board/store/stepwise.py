"""Work over the steps of a run that takes a while: in its own thread, with progress, to be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from board.errors import BoardError

T = TypeVar("T")


class Stepwise(Generic[T]):
    """Calls `work` for each step, coarse to fine, so that what is there early spans the whole run.

    work returns what is kept of a step, and may raise BoardError: the step is then counted in `failed`.
    Safe to read from any thread.
    """

    def __init__(self, steps: Sequence[int], work: Callable[[int], T]) -> None:
        self.total = len(steps)
        self._waiting = coarse_to_fine(steps)
        self._work = work
        self._found: dict[int, T] = {}
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.failed = 0

    def start(self) -> None:
        """Begins, or goes on after a stop; nothing where it runs or is done."""
        with self._lock:
            if self.is_running or not self._waiting:
                return
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="stepwise", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Ends after the step at hand; what was found stays."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> None:
        """Waits for the end."""
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def is_running(self) -> bool:
        """Whether a thread is at it."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def done(self) -> int:
        """Steps that were looked at."""
        return self.total - len(self._waiting)

    @property
    def found(self) -> dict[int, T]:
        """By step, ascending, what was found so far."""
        with self._lock:
            return dict(sorted(self._found.items()))

    def _run(self) -> None:
        while self._waiting and not self._stop.is_set():
            step = self._waiting[0]
            try:
                result = self._work(step)
            except BoardError:
                self.failed += 1
            else:
                with self._lock:
                    self._found[step] = result
            self._waiting.pop(0)


def coarse_to_fine(steps: Sequence[int]) -> list[int]:
    """All steps once: the last and the first, the middle, the quarters, and so on."""
    count = len(steps)
    chosen: dict[int, None] = {}
    parts = 1
    while len(chosen) < count:
        for part in range(parts, -1, -1):
            chosen.setdefault(round((count - 1) * part / parts))
        parts *= 2
    return [steps[place] for place in chosen]
