"""A bounded queue and the one daemon thread that empties it."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Worker(Generic[Item]):
    """Hands items to `handle`, in order, on a thread of its own. `handle` must not raise.

    At most `queue_bytes` bytes and items of `max_steps` steps wait, the one in hand included.
    """

    def __init__(
        self,
        handle: Callable[[Item], None],
        *,
        queue_bytes: int,
        max_steps: int,
        on_full: str,
        full_timeout: float,
    ) -> None:
        self._handle = handle
        self._limit = queue_bytes
        self._max_steps = max_steps
        self._wait = full_timeout if on_full == "block" else 0.0
        self._items: deque[tuple[Item, int, int]] = deque()
        self._bytes = 0
        self._steps: Counter[int] = Counter()
        self._busy = False
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="rollout-exporter", daemon=True)
        self._thread.start()

    def put(self, item: Item, nbytes: int, step: int) -> bool:
        """Queues one item; False where the queue stayed full or was stopped.

        An item bigger than the whole queue passes when it is empty, one of no bytes always.
        """
        with self._changed:
            has_room = self._changed.wait_for(
                lambda: self._stopping or self._fits(nbytes, step), timeout=self._wait
            )
            if not has_room or self._stopping:
                return False
            self._items.append((item, nbytes, step))
            self._bytes += nbytes
            self._steps[step] += 1
            self._changed.notify_all()
        return True

    def flush(self, timeout: float) -> bool:
        """Waits until everything queued so far was handled; False after `timeout` seconds."""
        with self._changed:
            self._changed.notify_all()  # a `put` may have been broken off before it did
            return self._changed.wait_for(
                lambda: not self._items and not self._busy, timeout=timeout
            )

    def stop(self, timeout: float) -> bool:
        """Handles what is queued, then ends the thread; False where `timeout` seconds did not do."""
        deadline = time.monotonic() + timeout
        drained = self.flush(timeout)
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(max(0.1, deadline - time.monotonic()))
        return drained and not self._thread.is_alive()

    @property
    def waiting(self) -> tuple[Item, ...]:
        """What is queued and not yet begun."""
        with self._changed:
            return tuple(item for item, _, _ in self._items)

    def _fits(self, nbytes: int, step: int) -> bool:
        if nbytes == 0 or self._bytes == 0:
            return True
        has_slot = step in self._steps or len(self._steps) < self._max_steps
        return has_slot and self._bytes + nbytes <= self._limit

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._items) or self._stopping)
                if not self._items or self._stopping:
                    return
                item, nbytes, step = self._items.popleft()
                self._busy = True
            self._handle(item)
            del item  # its memory goes now, not when the next one comes
            with self._changed:
                self._bytes -= nbytes
                self._steps -= Counter((step,))  # which leaves out a step that has none any more
                if not self._items:  # also where a signal's handler raised in the middle of `put`
                    self._bytes, self._steps = 0, Counter()
                self._busy = False
                self._changed.notify_all()
