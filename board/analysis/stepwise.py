"""Results that come step after step from the log of a whole run, in a thread that can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from board.errors import BoardError


class _OfStep(Protocol):
    @property
    def step(self) -> int: ...


T = TypeVar("T", bound=_OfStep)


class Stepwise(Generic[T]):
    """Takes what an iterator yields, each of a step; total: how many steps there are.

    A BoardError ends it and is kept in `error`. Safe to read from any thread.
    """

    def __init__(self, items: Iterator[T], total: int) -> None:
        self.total = total
        self.error: BoardError | None = None
        self._items = items
        self._found: list[T] = []
        self._ended = False
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins, or goes on after a stop; nothing where it runs or has ended."""
        with self._lock:
            if self.is_running or self._ended:
                return
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="stepwise", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stops after the step at hand; what was found stays."""
        self._stop.set()

    def join(self, timeout: float | None = None) -> None:
        """Waits until it has ended or stopped."""
        if self._thread is not None:
            self._thread.join(timeout)

    @property
    def is_running(self) -> bool:
        """Whether a thread is at it."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def has_ended(self) -> bool:
        """Whether all was read, or an error made it end."""
        return self._ended

    @property
    def done(self) -> int:
        """Steps of which something was found."""
        with self._lock:
            return len({item.step for item in self._found})

    @property
    def found(self) -> list[T]:
        """What was found so far, by step."""
        with self._lock:
            return sorted(self._found, key=lambda item: item.step)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                item = next(self._items, None)
            except BoardError as error:
                self.error, item = error, None
            if item is None:
                self._ended = True
                return
            with self._lock:
                self._found.append(item)


def coarse_to_fine(steps: Sequence[int]) -> list[int]:
    """All steps once: the last and the first, the middle, the quarters, and so on.

    So what is there early spans the whole run.
    """
    count = len(steps)
    chosen: dict[int, None] = {}
    parts = 1
    while len(chosen) < count:
        for part in range(parts, -1, -1):
            chosen.setdefault(round((count - 1) * part / parts))
        parts *= 2
    return [steps[place] for place in chosen]
