"""The share of rollouts with a label, estimated from a stratified sample, and how far authors agree."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.intervals import independent_share
from board.core.metrics.shares import interval, percent

LEAST_AGREED: Final = 10
"""Rollouts that two authors labelled both, for an interval of kappa."""


@dataclass(frozen=True, slots=True)
class LabelShare:
    """Rollouts with a label among n labelled ones of a sample.

    share: of the population, 0 to 1, with its 95 % interval from low to high; NaN without any labelled
    one. population: rollouts of the strata that have labelled ones, of all_rollouts of the sample's.
    """

    label: str
    count: int
    n: int
    share: float
    low: float
    high: float
    population: int
    all_rollouts: int

    def table_row(self) -> dict[str, str]:
        """The share as a row of a table: heading -> text."""
        return {
            "label": self.label,
            "labelled": f"{self.count} of {self.n}",
            "share": percent(self.share),
            "95 % interval": interval(self.low, self.high),
            "of rollouts": f"{self.population:,} of {self.all_rollouts:,}",
        }


class Stratum(NamedTuple):
    """population: its rollouts in the run. labels: of those drawn from it that are labelled."""

    population: int
    labels: Sequence[str]


def label_shares(strata: Sequence[Stratum], names: Iterable[str] = ()) -> list[LabelShare]:
    """The share of each label, the largest first. names: labels whose share is given, too, where no
    labelled rollout has them.

    A stratum's labelled rollouts stand for all of it: share = sum_h N_h p_h / sum_h N_h over the
    strata with any (Cochran, Sampling Techniques, 1977, ch. 5). The interval is that of a share for the
    effective sample size n_eff = (sum_h N_h)^2 / sum_h (N_h^2 (1 - n_h / N_h) / n_h): Kish's design
    effect of unequal weights (1965), and less left to chance where much of a stratum is labelled.
    """
    every = sum(one.population for one in strata)
    used = [one for one in strata if one.labels]
    population = sum(one.population for one in used)
    n = sum(len(one.labels) for one in used)
    variance = sum(one.population * (one.population / len(one.labels) - 1) for one in used)
    shares: list[LabelShare] = []
    for name in {*names, *(label for one in used for label in one.labels)}:
        counts = [Counter(one.labels)[name] for one in used]
        of_strata = zip(used, counts, strict=True)
        share = sum(one.population * k / len(one.labels) for one, k in of_strata) / population
        # Where every rollout is labelled nothing is left to chance.
        low, high = (
            independent_share(share, population**2 / variance) if variance else (share, share)
        )
        shares.append(LabelShare(name, sum(counts), n, share, low, high, population, every))
    return sorted(shares, key=lambda one: (-one.share, one.label))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Two authors over the n rollouts that both labelled.

    equal: how many have the same label, with the 95 % interval of that share. kappa: Cohen's, 1 where
    they always agree, 0 where as often as by chance; NaN where both use one and the same label. pairs:
    how often each two labels stand together, (of the first author, of the second).
    """

    first: str
    second: str
    n: int
    equal: int
    low: float
    high: float
    kappa: float
    kappa_low: float
    kappa_high: float
    pairs: Mapping[tuple[str, str], int]

    @property
    def kappa_text(self) -> str:
        """Kappa with its interval in words."""
        if math.isnan(self.kappa):
            return "not defined: both use one label"
        if math.isnan(self.kappa_low):
            return f"{self.kappa:.2f} (no interval: fewer than {LEAST_AGREED} rollouts)"
        return f"{self.kappa:.2f} ({self.kappa_low:.2f} to {self.kappa_high:.2f})"


def agreement(first: str, second: str, pairs: Sequence[tuple[str, str]]) -> Agreement:
    """How far two authors agree; pairs: their labels of each rollout that both labelled, [n].

    Cohen, A coefficient of agreement for nominal scales (1960). Its interval is that of the share of
    equal labels, counted from the agreement by chance, which is taken as known; NaN for fewer than
    LEAST_AGREED, which say too little of that.
    """
    n, counts = len(pairs), Counter(pairs)
    equal = sum(count for (one, other), count in counts.items() if one == other)
    low, high = independent_share(equal / n, n) if n else (math.nan, math.nan)
    ours, theirs = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    chance = sum(ours[label] * theirs[label] for label in ours) / n**2 if n else 1.0
    if chance == 1:
        kappa = kappa_low = kappa_high = math.nan
    else:
        kappa, *ends = ((share - chance) / (1 - chance) for share in (equal / n, low, high))
        is_enough = n >= LEAST_AGREED
        kappa_low = max(ends[0], -1.0) if is_enough else math.nan
        kappa_high = min(ends[1], 1.0) if is_enough else math.nan
    bounds = (kappa_low, kappa_high)
    return Agreement(first, second, n, equal, low, high, kappa, *bounds, dict(counts))


_STEP_BINS: Final = 10
_REWARD_BINS: Final = 4


def strata_of(steps: IntArray, rewards: FloatArray, size: int) -> tuple[IntArray, IntArray]:
    """The stratum of each rollout, [n] from 0: ranges of steps, each cut by quantiles of the reward; and
    the number of its range of steps, [n].

    steps: [n]. rewards: [n], NaN where not recorded, which is a stratum of its own. size: of the sample;
    there are at most half as many strata, so that each has two rollouts or more.
    """
    most = max(size // 2, 1)
    reward_bins = min(_REWARD_BINS, most)
    step_bins = max(min(_STEP_BINS, most // (reward_bins + 1)), 1)
    by_step = _quantile_bins(steps.astype(float), step_bins)
    strata = np.zeros(len(steps), np.int64)
    is_known = ~np.isnan(rewards)
    for number in range(step_bins):
        own = by_step == number
        of_reward = np.zeros(int(own.sum()), np.int64)
        known = is_known[own]
        of_reward[known] = 1 + _quantile_bins(rewards[own][known], reward_bins)
        strata[own] = number * (reward_bins + 1) + of_reward
    return np.unique(strata, return_inverse=True)[1].reshape(-1), by_step


def _quantile_bins(values: FloatArray, bins: int) -> IntArray:
    """The bin of each value, equal values in one; each bin has about as many where they differ."""
    if not len(values):
        return np.zeros(0, np.int64)
    edges = np.unique(np.quantile(values, np.arange(1, bins) / bins, method="inverted_cdf"))
    return np.searchsorted(edges, values, side="left")


def draw(strata: IntArray, size: int, seed: int) -> IntArray:
    """Places of a stratified random sample without replacement, ascending: at least one, or two where it
    has two, of each stratum, the rest in proportion to their sizes.

    strata: [n] as of `strata_of`. size: at most so many, but never fewer than two of each stratum.
    """
    counts = np.bincount(strata)
    least = np.minimum(counts, 2)
    wanted = max(size, int(least.sum()))
    sizes = least.copy()
    left = min(wanted, len(strata)) - int(least.sum())
    if left > 0:
        room = counts - least
        exact = left * room / room.sum()
        sizes += np.floor(exact).astype(np.int64)
        rest = min(wanted, len(strata)) - int(sizes.sum())
        sizes[np.argsort(-(exact % 1), kind="stable")[:rest]] += 1
    random = np.random.default_rng(seed)
    chosen = [
        random.choice(np.flatnonzero(strata == number), count, replace=False)
        for number, count in enumerate(sizes.tolist())
        if count
    ]
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
