"""Rollouts that were handed over and not written: counted, and told where the closing line is written."""

from __future__ import annotations

from exporters.writing.counters import Counters
from exporters.writing.journal import Journal


class Losses:
    """What a rank lost outside of its queue.

    reason: why everything that comes now is lost, "" while nothing is. journal: where a loss is told that
    came after the closing line.
    """

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.reason = ""
        self.journal: Journal | None = None

    def add(self, step: int | None, rollouts: int) -> None:
        """Counts rollouts of a step; None where it is not known."""
        if step is None:
            self._counters.add("lost", rollouts)
        else:
            self._counters.add_to_step("lost", step, rollouts)
        if self.journal is not None and rollouts:
            self.journal.tell_late_losses()

    def add_late(self, step: int, rollouts: int) -> None:
        """Counts rollouts that came too late to be written, and says so once."""
        if not rollouts:
            return
        is_first = "late" not in self._counters.counts
        self._counters.add("late", rollouts)
        self.add(step, rollouts)
        if is_first:
            message = f"step {step}: {rollouts} rollouts were logged {self.reason}"
            self._counters.warn(message, always=True)
