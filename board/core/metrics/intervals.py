"""Intervals that cover the mean in 95 % of all samples like the one at hand."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.distributions import student_t_bound

Z: Final = 1.959963984540054
"""The normal distribution has 95 % between -Z and Z."""
_ROUNDING: Final = 1e-9
_FEW: Final = 20
"""Degrees of freedom below which a design effect is not known."""


def student_t(freedom: FloatArray) -> FloatArray:
    """The bound between whose two signs Student's t has 95 %, by degrees of freedom; NaN below 1.

    From 3 degrees by the expansion of Abramowitz and Stegun 26.7.5, within 0.2 %; fewer exactly.
    """
    freedom = np.asarray(freedom, np.float64)
    v = np.where(freedom >= 3, freedom, np.nan)
    z = Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    many = z + sum(term / v**power for power, term in enumerate(terms, 1))
    few = freedom < 3
    bounds = np.array(many)
    bounds[few] = student_t_bound(freedom[few])
    return bounds


def mean_interval(
    mean: FloatArray, error: FloatArray, groups: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of means [n] by their standard errors, clustered by so many groups of equal size;
    NaN for fewer than two, and where the error is 0: groups that are all alike say nothing of others.

    Student's t with groups - 1 degrees of freedom, for with few groups the error itself is uncertain.
    Groups of unequal size count as (Σ n)² / Σ n² equal ones. Of skewed values it holds less often.
    """
    reach = np.where(error > 0, student_t(groups - 1) * error, np.nan)
    return mean - reach, mean + reach


Scale = tuple[float, float]
"""The two values that all of a metric's are."""


def two_values(
    mean: FloatArray, std: FloatArray, count: FloatArray, least: FloatArray, most: FloatArray
) -> Scale | None:
    """The two values that all of a metric are, as of rewards of 0 or 1; None where there are others.

    All [n], of the steps of a run: a standard deviation is that of two values only if they are all at the
    two ends, (mean - low) (high - mean) n / (n - 1). As many values as ends say nothing.
    """
    low, high = np.fmin.reduce(least, initial=np.nan), np.fmax.reduce(most, initial=np.nan)
    if not high > low or not np.nansum(count) > len((low, high)):
        return None
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        apart = np.abs(std**2 - (mean - low) * (high - mean) * count / (count - 1))
    known = np.isfinite(apart)
    is_so = known.any() and (apart[known] <= _ROUNDING * (high - low) ** 2).all()
    return (float(low), float(high)) if is_so else None


def interval_of_means(
    mean: FloatArray, error: FloatArray, groups: FloatArray, count: FloatArray, scale: Scale | None
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of means [n]: as `share_interval` has it of metrics of two values, and of shares,
    whose scale is (0, 1); else as `mean_interval`. count: values of each mean.
    """
    if scale is None:
        return mean_interval(mean, error, groups)
    low, width = scale[0], scale[1] - scale[0]
    known = np.where(np.isfinite(error), count, np.nan)
    ends = share_interval((mean - low) / width, error / width, known, groups)
    return low + width * ends[0], low + width * ends[1]


def share_interval(
    share: FloatArray, error: FloatArray, count: FloatArray, groups: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of Agresti and Coull (1998) of shares [n] of so many rollouts each, NaN where
    there is none. It lies within 0 and 1, is no point at 0, and is rather too wide.

    error: standard errors, clustered by group. Rollouts count for as many fewer as the errors of all n
    together are larger than those of independent ones (design effect, Kish 1965): a share of 0 alone says
    nothing of it. groups: of each; the design effect has as many degrees of freedom as there are groups
    beyond one in each of the n: the size is times (z / t)² (Korn and Graubard 1998), and with fewer than
    20 that of the groups, as if all rollouts of a group were alike, since a few groups can't show how
    alike they are.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        independent = share * (1 - share) / count
        known = np.isfinite(error) & (independent > 0)
        effect = np.sum(error[known] ** 2) / np.sum(independent[known]) if known.any() else 1.0
        size = np.where(count > 0, count / max(effect, 1.0), np.nan)
        if groups is not None:
            has_two = groups >= 2
            freedom = float((groups[has_two] - 1).sum())
            bound = float(student_t(np.array([max(freedom, 1.0)]))[0])
            size *= (Z / bound) ** 2
            size = np.where(has_two, size if freedom >= _FEW else np.fmin(size, groups), np.nan)
        middle = (share * size + Z**2 / 2) / (size + Z**2)
        reach = Z * np.sqrt(middle * (1 - middle) / (size + Z**2))
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def independent_share(share: float, count: float) -> tuple[float, float]:
    """The 95 % interval of one share of so many independent observations, as of `share_interval`."""
    no_error = np.array([np.nan])
    low, high = share_interval(np.array([share]), no_error, np.array([float(count)]))
    return float(low[0]), float(high[0])


Estimated = tuple[FloatArray, FloatArray, FloatArray]
"""Values [n] with the lower and upper ends of their intervals."""


def difference_of_estimates(first: Estimated, second: Estimated) -> Estimated:
    """The second minus the first of two independent estimates [n], its interval from theirs: the method
    of variance estimates recovery (Zou and Donner 2008), which of shares is Newcombe's (1998, method
    10).
    """
    value = second[0] - first[0]
    below = np.hypot(second[0] - second[1], first[2] - first[0])
    above = np.hypot(second[2] - second[0], first[0] - first[1])
    return value, value - below, value + above


def difference_of_shares(
    first: FloatArray, second: FloatArray, first_counts: IntArray, second_counts: IntArray
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of a difference of two mean shares [features], of pairs that belong together.

    first, second: [features, groups] shares of a group's two sides; counts: [groups] of rollouts. Two
    groups or more. Wilson's interval of each mean, of as many rollouts as have its spread over groups,
    between the number of groups and that of rollouts, times (z / t)² for few groups (Korn and Graubard
    1998); the two combined by the method of variance estimates recovery with their correlation (Zou and
    Donner 2008; Newcombe 1998, method 10). A share of 0 has an upper bound.
    """
    groups = first.shape[1]
    shrink = (Z / float(student_t(np.array([groups - 1.0]))[0])) ** 2

    def side(shares: FloatArray, count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        mean, variance = shares.mean(axis=1), shares.var(axis=1, ddof=1) / groups
        independent = mean * (1 - mean)
        size = np.divide(
            independent, variance, out=np.full(len(mean), float(groups)), where=variance > 0
        )
        return mean, *wilson_bounds(mean, np.clip(size, groups, count) * shrink)

    m, low_m, high_m = side(first, int(first_counts.sum()))
    n, low_n, high_n = side(second, int(second_counts.sum()))
    apart = (first - m[:, None]) * (second - n[:, None])
    deviation = first.std(axis=1) * second.std(axis=1)
    alike = np.divide(apart.mean(axis=1), deviation, out=np.zeros(len(m)), where=deviation > 0)
    alike = np.clip(alike, 0.0, 1.0)

    def reach(a: FloatArray, b: FloatArray) -> FloatArray:
        return np.sqrt(np.maximum(a**2 - 2 * alike * a * b + b**2, 0.0))

    difference = m - n
    return difference - reach(m - low_m, high_n - n), difference + reach(high_m - m, n - low_n)


def wilson_bounds(share: FloatArray, size: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval (1927) of shares of so many independent observations, NaN of none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        middle = (share + Z**2 / (2 * size)) / (1 + Z**2 / size)
        error = np.sqrt(share * (1 - share) / size + Z**2 / (4 * size**2))
        reach = Z / (1 + Z**2 / size) * error
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)
