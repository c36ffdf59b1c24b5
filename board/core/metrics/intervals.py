"""Intervals that cover the mean in 95 % of all samples like the one at hand."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray

Z: Final = 1.959963984540054
"""The normal distribution has 95 % between -Z and Z."""


def student_t(freedom: FloatArray) -> FloatArray:
    """The bound between whose two signs Student's t has 95 %, by degrees of freedom; NaN below 1.

    1 and 2 degrees exactly, more by the expansion of Abramowitz and Stegun 26.7.5, within 0.2 %.
    """
    v = np.where(freedom >= 3, freedom, np.nan)
    z = Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    many = z + sum(term / v**power for power, term in enumerate(terms, 1))
    return np.select([freedom == 1, freedom == 2], [12.706204736, 4.302652730], many)


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
        middle = (share + Z**2 / (2 * size)) / (1 + Z**2 / size)
        error_of_middle = np.sqrt(share * (1 - share) / size + Z**2 / (4 * size**2))
        reach = Z / (1 + Z**2 / size) * error_of_middle
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)


def wilson(share: float, count: float) -> tuple[float, float]:
    """Wilson's 95 % interval of one share of so many independent observations."""
    no_error = np.array([np.nan])
    low, high = share_interval(np.array([share]), no_error, np.array([float(count)]))
    return float(low[0]), float(high[0])
