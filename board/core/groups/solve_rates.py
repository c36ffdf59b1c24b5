"""Solve rates of groups: pass@k, how they are distributed, and zero-std groups at other group sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray, divided
from board.core.groups.statistics import Groups
from board.core.metrics.intervals import share_interval

_MOST_COUNTS: Final = 8
"""Tries of a group up to which each count of right ones has a share of its own."""


def pass_at_k(tries: IntArray, right: FloatArray, k: int) -> FloatArray:
    """Chance that at least one of k tries is right, unbiased: 1 - C(n - c, k) / C(n, k).

    tries, right: [groups] n tries of which c are right. NaN where n < k or c is NaN. Source: Chen et
    al. 2021, Evaluating Large Language Models Trained on Code, arXiv 2107.03374; the product
    form of its numerically stable script. Raises ValueError when k is below 1.
    """
    if k < 1:
        raise ValueError(f"k is {k}; expected 1 or more")
    n, none_right = tries.astype(np.float64), np.ones(len(tries))
    for i in range(k):
        none_right *= np.maximum(n - right - i, 0.0) / np.maximum(n - i, 1.0)
    return np.where((n >= k) & np.isfinite(right), 1.0 - none_right, np.nan)


@dataclass(frozen=True, slots=True)
class MeanOverGroups:
    """Of each step [steps]: the mean over so many groups with its 95 % interval; NaN without groups."""

    steps: IntArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    groups: IntArray


def pass_at_k_by_step(groups: Groups, k: int) -> MeanOverGroups:
    """The mean of pass@k over the groups with k or more graded rollouts.

    Its interval is that of a share of so many groups: chances between 0 and 1 vary no more than zeros and
    ones of the same mean, so that it is wide enough, and too wide where groups are alike.
    """
    steps, of_group = np.unique(groups.steps, return_inverse=True)
    values = pass_at_k(groups.graded, groups.right, k)
    known = np.isfinite(values)
    total = np.bincount(of_group[known], weights=values[known], minlength=len(steps))
    counts = np.bincount(of_group[known], minlength=len(steps))
    mean = divided(total, counts)
    low, high = share_interval(mean, np.full(len(steps), np.nan), counts.astype(np.float64))
    return MeanOverGroups(steps, mean, low, high, counts)


@dataclass(frozen=True, slots=True)
class SolveRateShares:
    """shares: [bins, steps] of the graded groups of each step, NaN where it has none. labels: of the
    bins, from all wrong to all right. groups: [steps] graded ones.
    """

    steps: IntArray
    labels: tuple[str, ...]
    shares: FloatArray
    groups: IntArray


def solve_rate_shares(groups: Groups) -> SolveRateShares:
    """How the solve rates of the groups of each step are distributed.

    A bin for each count, 0/8 to 8/8, where all groups have the same number of graded rollouts and that
    is 8 or fewer; else none, up to a quarter, half and three quarters, more, and all.
    """
    steps, of_group = np.unique(groups.steps, return_inverse=True)
    known = np.isfinite(groups.right) & (groups.graded > 0)
    tries, right, at = groups.graded[known], groups.right[known], of_group[known]
    size = int(tries.max(initial=0))
    if (tries == size).all() and size <= _MOST_COUNTS:
        labels = tuple(f"{count}/{size}" for count in range(size + 1))
        bins = right.astype(np.int64)
    else:
        labels = ("none", "to 25 %", "to 50 %", "to 75 %", "to <100 %", "all")
        rate = right / tries
        inner = 1 + np.searchsorted([0.25, 0.5, 0.75], rate)
        bins = np.where(right == 0, 0, np.where(right == tries, 5, inner))
    counts = np.zeros((len(labels), len(steps)))
    np.add.at(counts, (bins, at), 1)
    total = counts.sum(axis=0)
    return SolveRateShares(steps, labels, divided(counts, total[None, :]), total.astype(np.int64))


@dataclass(frozen=True, slots=True)
class ZeroStdShare:
    """Expected share of groups of so many rollouts that are all right, and all wrong. is_extrapolated:
    of more rollouts than the groups have.
    """

    size: int
    all_right: float
    all_wrong: float
    is_extrapolated: bool

    @property
    def total(self) -> float:
        """Expected share of zero-std groups."""
        return self.all_right + self.all_wrong


def zero_std_at_sizes(
    tries: IntArray, right: FloatArray, sizes: Sequence[int]
) -> list[ZeroStdShare]:
    """The expected share of zero-std groups if groups had other sizes, by who is right and wrong.

    tries, right: [groups] n graded rollouts of which c are right; groups with fewer than two are left
    out. Of up to the smallest n: the chance that k of the n rollouts are all right, C(c, k) / C(n, k), or
    all wrong, mean over the groups, which is unbiased. Of more: prompts whose chance of a right rollout
    is Beta(a, b) distributed, with the mean of the chances and of their squares that c (c - 1) /
    n (n - 1) estimates without bias; then E[p^k] is the product of (a + i) / (a + b + i) (Skellam 1948,
    beta-binomial distribution). Empty without groups.
    """
    known = np.isfinite(right) & (tries >= 2)
    n, c = tries[known].astype(np.float64), right[known]
    if not len(n):
        return []
    largest = int(n.min())
    mean, square = float((c / n).mean()), float((c * (c - 1) / (n * (n - 1))).mean())
    variance = square - mean**2
    result: list[ZeroStdShare] = []
    for k in sizes:
        if k <= largest:
            all_right, all_wrong = (float(_all_of(n, own, k).mean()) for own in (c, n - c))
        elif variance <= 0:  # no more than one chance for all prompts
            all_right, all_wrong = mean**k, (1 - mean) ** k
        else:
            total = max(mean * (1 - mean) / variance - 1, 1e-9)
            i = np.arange(k)
            all_right, all_wrong = (
                float(np.prod((total * own + i) / (total + i))) for own in (mean, 1 - mean)
            )
        result.append(ZeroStdShare(k, all_right, all_wrong, k > largest))
    return result


def _all_of(n: FloatArray, c: FloatArray, k: int) -> FloatArray:
    """[groups] chance that k of n, of which c have it, all have it."""
    i = np.arange(k)[:, None]
    return np.prod(np.maximum(c - i, 0.0) / (n - i), axis=0)
