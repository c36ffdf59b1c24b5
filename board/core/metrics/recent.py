"""A metric now: its mean over the last steps, and how that differs from the steps before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.autocorrelation import reach_of_change
from board.core.metrics.shares import ROUNDING_NOISE

WINDOW: Final = 10
"""Steps in a mean: fewer make every step a trend, more hide the last hour of a training."""
_LEAST: Final = 5
"""Recorded values that a window needs before it is compared."""
_UNSEEN: Final = 5e-5
"""A change by so small a part of the mean is none: at four digits both means read the same."""
ERRORS: Final = 2.0
"""A change of at most so many errors is within noise."""


@dataclass(frozen=True, slots=True)
class Recent:
    """The means of two windows of steps, one right after the other.

    mean: of the newer window; None where it holds no recorded value. change: from the mean of the older
    one, 0 where it is lost in the digits; error: half of what chance alone exceeds in 5 % of runs, a
    standard error that few steps make wider; both None where there are too few steps to compare.
    """

    mean: float | None
    change: float | None = None
    error: float | None = None

    @property
    def is_noise(self) -> bool:
        """Whether the change is within noise."""
        if self.change is None or self.error is None:
            return False
        return abs(self.change) <= ERRORS * self.error


def window_of(steps: IntArray, upto: int) -> IntArray:
    """The last `WINDOW` of the steps [S], ascending, up to and with `upto`."""
    return steps[steps <= upto][-WINDOW:]


def recent(steps: IntArray, values: FloatArray, upto: int) -> Recent:
    """The mean over the last `WINDOW` steps up to and with `upto`, against the `WINDOW` steps before.

    steps: [S] ascending; values: [S] means of steps, NaN where not recorded: left out. The error is that
    of values that wander as those of all stretches of `WINDOW` steps up to now do, and is no less than
    such means have changed before (board.core.metrics.autocorrelation): means of successive steps are
    alike.
    """
    until = values[steps <= upto]
    windows = until[-WINDOW:], until[-2 * WINDOW : -WINDOW]
    new, before = (window[np.isfinite(window)] for window in windows)
    if not len(new):
        return Recent(None)
    mean = float(new.mean())
    if len(until) < 2 * WINDOW or min(len(new), len(before)) < _LEAST:
        return Recent(mean)
    known = until[np.isfinite(until)]
    stretch = min(len(new), len(before))
    reach = reach_of_change(known, stretch)
    if reach is None:
        return Recent(mean)
    change = mean - float(before.mean())
    if abs(change) <= _UNSEEN * max(abs(mean), abs(float(before.mean())), ROUNDING_NOISE / _UNSEEN):
        change = 0.0
    return Recent(mean, change, reach / ERRORS)
