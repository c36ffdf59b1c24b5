"""Intervals of means of skewed values, such as what prompts gain where few gain much, or lengths.

Student's t of skewed values misses the mean on the side of the long tail: of ten lognormal values it
holds the mean in 84 % of samples. Hall's transformation takes the skewness off; but that of few values
is known badly, and is mostly estimated too low. So intervals hold what a skewness gives that is a
standard error more, or less, than the estimated one: rather too wide, and much so below some 15 values.

No interval is right of every distribution (Bahadur and Savage 1956, The nonexistence of certain
statistical procedures in nonparametric problems): where few values hold most of the mean, and a sample
has none of these, nothing in it tells. docs/statistics.md has where that begins.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.intervals import student_t

LEAST_VALUES: Final = 4
"""Of fewer there is no skewness that could be told."""
LEAST_STEPS: Final = 10
_ROUNDING: Final = 1e-9


def skewed_mean_interval(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[...] the 95 % interval of the means of values [n, ...], as of `interval_by_moments`."""
    count, mean = len(values), values.mean(axis=0)
    deviation = values.std(axis=0, ddof=1)
    known = np.where(deviation > 0, deviation, np.nan)
    third = ((values - mean) ** 3).mean(axis=0) / known**3
    unbiased = np.sqrt(count * (count - 1)) / (count - 2) * (count / (count - 1)) ** 1.5
    return interval_by_moments(mean, deviation, third * unbiased, np.array(float(count)))


def interval_by_moments(
    mean: FloatArray, deviation: FloatArray, skewness: FloatArray, count: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of means of so many independent values each; arrays of one shape. NaN of fewer
    than LEAST_VALUES, and where all are alike, which say nothing of the spread.

    deviation: with n - 1 in its denominator; skewness: without its bias (G1 of Joanes and Gill 1998). Its
    standard error is that of normal values (Cramér 1946).
    """
    count = np.where(count >= LEAST_VALUES, count, np.nan)
    # What is left of equal values is rounding.
    deviation = np.where(deviation > _ROUNDING * np.abs(mean), deviation, np.nan)
    root = np.sqrt(count)
    uncertainty = _error_of_skewness(count) / root
    return _hull(mean, deviation / root, student_t(count - 1), skewness / root, uncertainty)


def _error_of_skewness(count: FloatArray) -> FloatArray:
    return np.sqrt(6 * count * (count - 1) / ((count - 2) * (count + 1) * (count + 3)))


def weighted_mean_interval(
    values: FloatArray, weights: FloatArray, freedom: float
) -> tuple[float, float]:
    """The 95 % interval of the weighted mean of values [n], as of `interval_by_moments`.

    Values of unequal weights count as (Σ w)² / Σ w² equal ones (Kish 1965); NaN for fewer than
    LEAST_VALUES of these. freedom: degrees that the error has at most.
    """
    count, even = len(values), float(weights.sum() ** 2 / (weights**2).sum())
    mean = float((values * weights).sum() / weights.sum())
    terms = weights * (values - mean) / weights.sum()
    squares = float((terms**2).sum())
    if even < LEAST_VALUES or not np.sqrt(squares) > _ROUNDING * abs(mean):
        return float("nan"), float("nan")
    unbiased = np.sqrt(even * (even - 1)) / (even - 2)
    ends = _hull(
        np.array(mean),
        np.array(np.sqrt(squares * count / (count - 1))),
        student_t(np.array(min(freedom, even - 1))),
        np.array((terms**3).sum() / squares**1.5 * unbiased),
        _error_of_skewness(np.array(even)) / np.sqrt(even),
    )
    return float(ends[0]), float(ends[1])


def interval_of_steps(
    mean: FloatArray, error: FloatArray, groups: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of the means of successive steps [n], by standard errors that are clustered by so
    many groups of equal size; NaN of fewer than two, and where the error is 0.

    Errors that grow with their means show a skewness: the covariance of a mean and of its squared error
    is the third central moment of the mean. It is taken from step to step, so that a trend of both is
    none, and as one for all steps. Of fewer than LEAST_STEPS differences Student's t alone.
    """
    error, bound = np.where(error > 0, error, np.nan), student_t(groups - 1)
    products = np.diff(mean) * np.diff(error**2) / 2
    products = products[np.isfinite(products)]
    if len(products) < LEAST_STEPS:
        return mean - bound * error, mean + bound * error
    scale = float(np.nanmean(error**2)) ** 1.5
    skewness = np.full_like(mean, products.mean() / scale)
    # Products of neighbours have a step in common.
    own = np.sqrt(1.5 / len(products)) * products.std(ddof=1) / scale
    return _hull(mean, error, bound, skewness, np.full_like(mean, own))


def _hull(
    mean: FloatArray,
    error: FloatArray,
    bound: FloatArray,
    skewness: FloatArray,
    uncertainty: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """What holds the interval of Student's t and those of Hall (1992, On the removal of skewness by
    transformation, JRSS B 54) for a skewness of the mean, and for one more and less by its
    standard error. bound: of Student's t.
    """
    ends = [np.broadcast_to(sign * bound, np.shape(error)) for sign in (-1.0, 1.0)]
    for assumed in (skewness - uncertainty, skewness, skewness + uncertainty):
        ends += [_without_skewness(sign * bound, assumed) for sign in (-1.0, 1.0)]
    # Where no skewness is known, Student's t is left.
    return mean - error * np.fmax.reduce(ends), mean - error * np.fmin.reduce(ends)


def _without_skewness(t: FloatArray, skewness: FloatArray) -> FloatArray:
    """The studentized mean that Hall's transformation takes to t."""
    third = np.where(np.abs(skewness) < _ROUNDING, _ROUNDING, skewness) / 3
    return (np.cbrt(1 + 3 * third * (t - third / 2)) - 1) / third
