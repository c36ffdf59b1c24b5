"""Intervals of means of skewed values, such as what prompts gain where few gain much, or lengths.

Student's t of skewed values misses the mean on the side of the long tail: of ten lognormal values it holds
the mean in 84 % of samples. Hall's transformation takes the skewness off; but that of few values is known
badly, and is mostly estimated too low. So intervals hold what a skewness gives that is a standard error
more, or less, than the estimated one: rather too wide, and much so below some 15 values.

No interval is right of every distribution (Bahadur and Savage 1956, The nonexistence of certain
statistical procedures in nonparametric problems): where few values hold most of the mean, and a sample has
none of these, nothing in it tells. docs/statistics.md has where that begins.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.intervals import student_t

LEAST_VALUES: Final = 4
"""Of fewer there is no skewness."""
_ROUNDING: Final = 1e-9


def skewed_mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[...] the 95 % interval of the means of values [n, ...], n of LEAST_VALUES or more; NaN where all are
    alike.

    It holds the interval of Student's t and those of Hall (1992, On the removal of skewness by
    transformation, JRSS B 54) for the sample's skewness without its bias (G1 of Joanes and Gill 1998) and
    one standard error of it (of normal values: Cramér 1946) to both sides.
    """
    count = len(values)
    mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    # What is left of equal values is rounding.
    varies = deviation > _ROUNDING * np.abs(mean)
    deviation = np.where(varies, deviation, np.nan)
    third = ((values - mean) ** 3).mean(axis=0) / deviation**3
    skewness = third * np.sqrt(count * (count - 1)) / (count - 2) * (count / (count - 1)) ** 1.5
    step = np.sqrt(6 * count * (count - 1) / ((count - 2) * (count + 1) * (count + 3)))
    bound = float(student_t(np.array([count - 1.0]))[0]) / np.sqrt(count)
    ends = [np.full_like(deviation, -bound), np.full_like(deviation, bound)]
    for taken in (skewness - step, skewness, skewness + step):
        ends += [_without_skewness(sign * bound, taken, count) for sign in (-1.0, 1.0)]
    return mean - deviation * np.max(ends, axis=0), mean - deviation * np.min(ends, axis=0)


def _without_skewness(z: float, skewness: FloatArray, count: int) -> FloatArray:
    """The studentized mean, over sqrt(n), that Hall's transformation takes to z."""
    third = np.where(np.abs(skewness) < _ROUNDING, _ROUNDING, skewness) / 3
    return (np.cbrt(1 + 3 * third * (z - third / (2 * count))) - 1) / third
