"""Intervals of means of skewed values, such as what prompts gain where few gain much, or lengths.

Student's t of skewed values misses the mean on the side of the long tail: of ten lognormal values it
holds the mean in 84 % of samples. Hall's transformation takes the skewness off; but that of few values
is known badly, and is mostly estimated too low. So intervals hold what every skewness gives that is up to
a standard error more, or less, than the estimated one: rather too wide, and much so below some 15 values.

Whether values have a long tail can't be told from a few of them: those that miss it look like any others,
so that to leave out the intervals of samples that look skewed would leave those that are wrong. Of values
without bounds there is an interval from LEAST_UNBOUNDED on.

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
LEAST_UNBOUNDED: Final = 20
"""Values that may have a long tail: of lognormal ones of sigma 2 fewer are held in 83 to 91 %."""
LEAST_STEPS: Final = 10
MOST_SKEWNESS: Final = 2.0
"""Of a step's mean: of lognormal values of sigma 2 in 2 to 8 groups most runs have more, and of sigma 1
few; intervals hold in 72 to 82 % of the former.
"""
_ROUNDING: Final = 1e-9
_ASSUMED: Final = 21
"""Values of a skewness, from one standard error less to one more."""


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
    uncertainty = _error_of_skewness(skewness, count) / root
    return _hull(mean, deviation / root, student_t(count - 1), skewness / root, uncertainty)


def _error_of_skewness(skewness: FloatArray, count: FloatArray) -> FloatArray:
    """That of normal values (Cramér 1946), and half of the skewness, as of values with a long tail."""
    of_normal = np.sqrt(6 * count * (count - 1) / ((count - 2) * (count + 1) * (count + 3)))
    return np.hypot(of_normal, skewness / 2)


def weighted_mean_interval(
    values: FloatArray, weights: FloatArray, freedom: float
) -> tuple[float, float]:
    """The 95 % interval of the weighted mean of values [n], as of `interval_by_clusters`.

    Values of unequal weights count as (Σ w)² / Σ w² equal ones (Kish 1965). freedom: degrees that the
    error has at most.
    """
    count, even = len(values), float(weights.sum() ** 2 / (weights**2).sum())
    mean = float((values * weights).sum() / weights.sum())
    terms = weights * (values - mean) / weights.sum()
    error = np.sqrt((terms**2).sum() * count / (count - 1))
    third = np.array((terms**3).sum())
    low, high = interval_by_clusters(
        np.array(mean), np.array(error), third, np.array(even), freedom
    )
    return float(low), float(high)


def interval_by_clusters(
    mean: FloatArray,
    error: FloatArray,
    third: FloatArray,
    clusters: FloatArray,
    freedom: FloatArray | float = np.inf,
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of means [n] of values in so many clusters of equal size, (Σ n)² / Σ n² of
    others; NaN of fewer than LEAST_VALUES of these, and where the error is 0.

    error: by the clusters; third: sum of the third powers of what each moves the mean by. freedom:
    degrees that the error has at most.
    """
    clusters = np.where(clusters >= LEAST_VALUES, clusters, np.nan)
    error = np.where(error > _ROUNDING * np.abs(mean), error, np.nan)
    unbiased = np.sqrt(clusters * (clusters - 1)) / (clusters - 2)
    skewness = third / (error * np.sqrt(1 - 1 / clusters)) ** 3 * unbiased
    uncertainty = _error_of_skewness(skewness * np.sqrt(clusters), clusters) / np.sqrt(clusters)
    bound = student_t(np.minimum(clusters - 1, freedom))
    return _hull(mean, error, bound, skewness, uncertainty)


def interval_of_steps(
    mean: FloatArray, error: FloatArray, groups: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of the means of successive steps [n], by standard errors that are clustered by so
    many groups of equal size; NaN of fewer than two, where the error is 0, and of all steps whose means
    are more skewed than MOST_SKEWNESS. Of fewer than LEAST_STEPS changes from step to step, which can't
    tell, Student's t alone, of LEAST_UNBOUNDED groups or more.
    """
    third, uncertainty, scale = _third_moment(mean, error)
    is_told = np.isfinite(scale) & (np.isfinite(third) | (groups >= LEAST_UNBOUNDED))
    error = np.where((error > 0) & is_told, error, np.nan)
    skewness, of_skewness = (np.full_like(mean, x / scale) for x in (third, uncertainty))
    return _hull(mean, error, student_t(groups - 1), skewness, of_skewness)


def interval_over_steps(
    mean: FloatArray,
    error: FloatArray,
    groups: FloatArray,
    past: tuple[FloatArray, FloatArray],
) -> tuple[float, float]:
    """The 95 % interval of the mean over steps [n], each as much as the others, by errors as of
    `interval_of_steps`; its degrees of freedom are those of a sum (Welch 1947).

    past: means and errors of all successive steps up to the last of these, which tell the skewness.
    """
    count, squares = len(mean), error**2
    total = np.sqrt(squares.sum())
    third, uncertainty, scale = _third_moment(*past)
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = squares.sum() ** 2 / np.nansum(squares**2 / (groups - 1))
        # The third moment of a sum of independent values is the sum of theirs.
        skewness, of_skewness = (count * x / total**3 for x in (third, uncertainty))
    is_told = np.isfinite(scale) and (np.isfinite(third) or freedom + 1 >= LEAST_UNBOUNDED)
    of_mean = total / count if total > 0 and is_told else np.nan
    low, high = _hull(
        np.array(mean.mean()),
        np.array(of_mean),
        student_t(np.array(freedom)),
        np.array(skewness),
        np.array(of_skewness),
    )
    return float(low), float(high)


def _third_moment(mean: FloatArray, error: FloatArray) -> tuple[float, float, float]:
    """The third central moment of a step's mean, its standard error, and what it is divided by to be the
    skewness. NaN of fewer than LEAST_STEPS changes; the last one without an error, and where the skewness
    is more than MOST_SKEWNESS.

    Errors that grow with their means show it: it is the covariance of a mean and of its squared error. It
    is taken from step to step, so that a trend of both is none, and as one for all steps.
    """
    squares = np.where(error > 0, error**2, np.nan)
    scale = float(np.nanmean(squares)) ** 1.5 if np.isfinite(squares).any() else np.nan
    products = np.diff(mean) * np.diff(squares) / 2
    products = products[np.isfinite(products)]
    if len(products) < LEAST_STEPS:
        return np.nan, np.nan, scale
    third = float(products.mean())
    # Products of neighbours have a step in common; long tails as in _error_of_skewness.
    uncertainty = float(np.sqrt(1.5 / len(products)) * products.std(ddof=1))
    is_told = abs(third) <= MOST_SKEWNESS * scale
    return third, float(np.hypot(uncertainty, third / 2)), scale if is_told else np.nan


def _hull(
    mean: FloatArray,
    error: FloatArray,
    bound: FloatArray,
    skewness: FloatArray,
    uncertainty: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """What holds the interval of Student's t and those of Hall (1992, On the removal of skewness by
    transformation, JRSS B 54) for every skewness of the mean that is within its standard error of the
    estimated one: they do not widen evenly with it. bound: of Student's t.
    """
    parts = np.linspace(-1, 1, _ASSUMED).reshape(-1, *[1] * np.ndim(skewness))
    assumed = skewness + parts * uncertainty
    # Where no skewness is known, Student's t is left.
    most = np.fmax.reduce(np.fmax(_without_skewness(bound, assumed), bound))
    least = np.fmin.reduce(np.fmin(_without_skewness(-bound, assumed), -bound))
    return mean - error * most, mean - error * least


def _without_skewness(t: FloatArray, skewness: FloatArray) -> FloatArray:
    """The studentized mean that Hall's transformation takes to t."""
    third = np.where(np.abs(skewness) < _ROUNDING, _ROUNDING, skewness) / 3
    return (np.cbrt(1 + 3 * third * (t - third / 2)) - 1) / third
