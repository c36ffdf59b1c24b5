"""Intervals that cover the mean in 95 % of all samples like the one at hand."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray

LEVEL: Final = 0.95
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
    mean: FloatArray, error: FloatArray, groups: IntArray | FloatArray, *, is_share: bool = False
) -> tuple[FloatArray, FloatArray]:
    """The 95 % interval of means [n] by their standard errors, clustered by so many groups; NaN for fewer
    than two.

    Student's t with groups - 1 degrees of freedom: with few groups the error itself is uncertain. Of a
    share Wilson's interval (1927) instead, for as many independent rollouts as have that error, or as
    there are groups where all are alike: it stays within 0 and 1, and is no point at 0.
    """
    groups = np.asarray(groups, np.float64)
    if is_share:
        return _wilson(mean, error, groups)
    reach = student_t(groups - 1) * error
    return mean - reach, mean + reach


def _wilson(
    share: FloatArray, error: FloatArray, groups: FloatArray
) -> tuple[FloatArray, FloatArray]:
    with np.errstate(divide="ignore", invalid="ignore"):
        count = np.where(error > 0, share * (1 - share) / error**2, groups)
        count = np.where(groups >= 2, np.maximum(count, 1.0), np.nan)
        t = student_t(groups - 1)
        middle = (share + t**2 / (2 * count)) / (1 + t**2 / count)
        reach = (
            t / (1 + t**2 / count) * np.sqrt(share * (1 - share) / count + t**2 / (4 * count**2))
        )
    return np.maximum(middle - reach, 0.0), np.minimum(middle + reach, 1.0)
