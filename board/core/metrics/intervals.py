"""Intervals that cover the mean in 95 % of all samples like the one at hand."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.distributions import student_t_bound

Z: Final = 1.959963984540054
"""The normal distribution has 95 % between -Z and Z."""


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
    """The 95 % interval of means [n] by their standard errors, clustered by so many groups; NaN for fewer
    than two.

    Student's t with groups - 1 degrees of freedom: with few groups the error itself is uncertain.
    """
    reach = student_t(groups - 1) * error
    return mean - reach, mean + reach


def interval_of_means(
    mean: FloatArray,
    error: FloatArray,
    groups: FloatArray,
    count: FloatArray,
    *,
    is_share: bool,
    is_positive: bool,
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of means [n]: as `share_interval` has it of shares, else as `mean_interval`.

    count: values of each mean. is_positive: no value is negative, so that the interval is not either.
    """
    if is_share:
        return share_interval(mean, error, np.where(np.isfinite(error), count, np.nan))
    low, high = mean_interval(mean, error, groups)
    return (np.maximum(low, 0.0) if is_positive else low), high


def share_interval(
    share: FloatArray, error: FloatArray, count: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Wilson's 95 % interval (1927) of shares [n] of so many rollouts each, NaN where there is none.

    It lies within 0 and 1, and is no point at 0. error: standard errors, clustered by group. Rollouts
    count for as many fewer as the errors of all n together are larger than those of independent ones
    (design effect, Kish 1965): a share of 0 alone says nothing of it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        independent = share * (1 - share) / count
        known = np.isfinite(error) & (independent > 0)
        effect = np.sum(error[known] ** 2) / np.sum(independent[known]) if known.any() else 1.0
        size = np.where(count > 0, count / max(effect, 1.0), np.nan)
    return wilson_bounds(share, size)


def wilson(share: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of one share of so many independent observations."""
    no_error = np.array([np.nan])
    low, high = share_interval(np.array([share]), no_error, np.array([float(count)]))
    return float(low[0]), float(high[0])


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
    spread = first.std(axis=1) * second.std(axis=1)
    alike = np.divide(apart.mean(axis=1), spread, out=np.zeros(len(m)), where=spread > 0)
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
