"""The 95 % interval of a metric's mean at each step: charts, exports and answers have it from here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.intervals import interval_of_means, two_values
from board.core.metrics.skewed_means import interval_of_steps


def interval_of_step_means(
    value_of: Callable[[str], FloatArray], *, is_share: bool
) -> tuple[FloatArray, FloatArray]:
    """The interval at each step [n], NaN where there is none: of shares and of metrics of two values as
    `share_interval` has it, else as `interval_of_steps`, and then not beyond the smallest and the largest
    value that the run has.

    value_of: what the table of steps has of the metric, by the end of the column's name: mean, se,
    even, n, std, q00 and q100 (board.query.steps), NaN where it has not. is_share: each value is 0 or 1
    by itself.
    """
    mean, std, count = value_of("mean"), value_of("std"), value_of("n")
    least, most = value_of("q00"), value_of("q100")
    scale = (0.0, 1.0) if is_share else two_values(mean, std, count, least, most)
    error, groups = value_of("se"), value_of("even")
    if scale is not None:
        return interval_of_means(mean, error, groups, count, scale)
    low, high = interval_of_steps(mean, error, groups)
    least, most = np.fmin.reduce(least, initial=np.nan), np.fmax.reduce(most, initial=np.nan)
    return np.where(low < least, least, low), np.where(high > most, most, high)
