"""What was written, lost and refused so far, and the one warning a minute about it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from contextlib import suppress

_logger = logging.getLogger("exporters")

_SECONDS_BETWEEN_WARNINGS = 60.0


class Counters:
    """Counters that the training thread and the writing one share."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._steps: dict[str, Counter[int]] = {}
        self._lock = (
            threading.RLock()
        )  # a signal's handler may log in the thread that it interrupts
        self._last_warning = float("-inf")

    @property
    def counts(self) -> dict[str, int]:
        """All counters by name; `records` and `lost` are always there."""
        with self._lock:
            return {"records": 0, "lost": 0, **self._counts}

    def add(self, name: str, number: int = 1) -> None:
        """Counts something that belongs to no step."""
        with self._lock:
            self._counts[name] += number

    def add_to_step(self, name: str, step: int, number: int = 1) -> None:
        """Counts rollouts of a step: `records` written, `lost`, or `sampled_out`."""
        with self._lock:
            self._counts[name] += number
            self._steps.setdefault(name, Counter())[step] += number

    def take_step(self, name: str, step: int) -> int:
        """What was counted under `name` for a step; forgotten afterwards."""
        with self._lock:
            return self._steps.get(name, Counter[int]()).pop(step, 0)

    def refuse(self, step: int, name: str, reason: str) -> None:
        """Counts a field that was left out and warns of it."""
        self.add(f"refused:{name}")
        self.warn(f"step {step}: {name} was left out: {reason}")

    def mend(self, step: int, name: str, wrong: str) -> None:
        """Counts a field that was written otherwise than it was handed over, or not, and warns of it."""
        self.add(f"mended:{name}")
        self.warn(f"step {step}: {name} is not written as it was: {wrong}")

    def fail(self, where: str, error: Exception) -> None:
        """Counts an error and warns of it."""
        self.add(f"errors:{where}")
        self.warn(f"{where}: {type(error).__name__}: {error}")

    def warn(self, message: str, *, always: bool = False) -> None:
        """Writes to the log, at most once a minute unless `always`."""
        now = time.monotonic()
        with self._lock:
            if not always and now - self._last_warning < _SECONDS_BETWEEN_WARNINGS:
                return
            self._last_warning = now
        lost = self.counts["lost"]
        with suppress(Exception):  # of a handler that raises
            _logger.warning("%s (training goes on; %d rollouts lost so far)", message, lost)
