"""Fisher's exact test of two shares, for many pairs at once."""

from __future__ import annotations

from math import lgamma
from typing import Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray

_AS_LIKELY: Final = 1 + 1e-7
"""Tables as likely as the observed one count as such within rounding (as R's fisher.test does)."""

_ROUNDING: Final = 1e-6


def fisher_p(
    first_right: IntArray, first_total: IntArray, second_right: IntArray, second_total: IntArray
) -> FloatArray:
    """[n] two-sided p that two shares differ: the chance of a table that is no likelier than the observed
    one, given its margins (Fisher 1935). NaN where a total is 0.
    """
    tables = np.stack([first_right, first_total, second_right, second_total], axis=1)
    unique, place = np.unique(tables, axis=0, return_inverse=True)
    return np.array([_p(*row) for row in unique.tolist()])[place.reshape(-1)]


def least_fisher_p(
    first_right: IntArray, first_total: IntArray, second_right: IntArray, second_total: IntArray
) -> FloatArray:
    """[n] the least p that tables with these margins can have: where that is above a level no table can
    be told from chance, and need not be counted among those that were (Tarone 1990, A modified Bonferroni
    method for discrete data; Gilbert 2005 of false discoveries). NaN where a total is 0.
    """
    right = first_right + second_right
    ends = (np.maximum(right - second_total, 0), np.minimum(right, first_total))
    tables = ((end, first_total, right - end, second_total) for end in ends)
    return np.fmin(*(fisher_p(*table) for table in tables))


def is_fisher_below(
    first_right: IntArray,
    first_total: IntArray,
    second_right: IntArray,
    second_total: IntArray,
    bound: float,
) -> BoolArray:
    """[n] whether fisher_p is below a bound; it is computed only where it is near to it. It is at least
    the chance of the observed table, and at most that times the number of tables.
    """
    tables = np.stack([first_right, first_total, second_right, second_total])
    right, total, other_right, other_total = tables
    is_possible = (total > 0) & (other_total > 0)
    logs = np.log(np.arange(1, int((total + other_total).max(initial=0)) + 1))
    factorials = np.append(0.0, np.cumsum(logs))

    def choose(n: IntArray, k: IntArray) -> FloatArray:
        return factorials[n] - factorials[k] - factorials[n - k]

    every, every_right = total + other_total, right + other_right
    chance = choose(total, right) + choose(other_total, other_right) - choose(every, every_right)
    limit, many = np.log(bound), np.log(np.minimum(total, every_right) + 1)
    below = is_possible & (chance + many < limit)
    near = is_possible & ~below & (chance <= limit + _ROUNDING)
    below[near] = fisher_p(*tables[:, near]) < bound
    return below


def _p(right: int, total: int, other_right: int, other_total: int) -> float:
    if not total or not other_total:
        return float("nan")
    all_right = right + other_right
    low, high = max(0, all_right - other_total), min(total, all_right)
    counts = np.arange(low, high + 1)
    log_chances = np.array(
        [_log_choose(total, k) + _log_choose(other_total, all_right - k) for k in counts.tolist()]
    )
    chances = np.exp(log_chances - log_chances.max())
    observed = chances[right - low]
    return float(chances[chances <= observed * _AS_LIKELY].sum() / chances.sum())


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
