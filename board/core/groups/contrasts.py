"""What winners of a group have that its losers have not: differences within groups, over all groups.

Rollouts of a group answer one prompt, so what differs between its best and its others is not what differs
between prompts. Winners are the rollouts above the mean reward of their group, losers those below. What
chance alone would give is told by shuffling who won within each group (board.core.groups.permutation).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.groups.permutation import number_p, presence_p
from board.core.metrics.intervals import difference_of_shares
from board.core.metrics.paired import false_discovery_rates
from board.core.metrics.skewed_means import skewed_mean_interval, weighted_mean_interval

LEAST_GROUPS: Final = 5
_ROUNDING: Final = 1e-9
_AT_ONCE: Final = 2_000_000
"""Counts of features by group in memory at once."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """Of a feature. winners, losers: its mean over the groups, of the winners and the losers of each.

    difference: of the two, with its 95 % interval over groups: of shares by `difference_of_shares`, of
    numbers by `skewed_mean_interval`. groups: with a value on both sides. z: how far the winners' total
    is from what shuffles within groups give, in standard deviations of these. p: two-sided, of the
    shuffles. rate: the least rate of false discoveries at which it counts, over all features of its
    kind.
    """

    feature: str
    kind: str
    winners: float
    losers: float
    difference: float
    low: float
    high: float
    groups: int
    z: float
    p: float
    rate: float = float("nan")


@dataclass(frozen=True, slots=True)
class Sides:
    """Of rollouts [n] the code of each one's group, -1 for one that is on no side, and whether it won."""

    groups: IntArray
    won: FloatArray

    @property
    def count(self) -> int:
        """Groups, those without sides too."""
        return int(self.groups.max(initial=-1)) + 1


def sides(groups: IntArray, rewards: FloatArray) -> Sides:
    """Who won and lost in which group. groups: [n] codes, -1 for none; rewards: [n], NaN: not scored.

    Groups of equal rewards have no winner. A rollout at the mean of its group is on no side.
    """
    known = (groups >= 0) & np.isfinite(rewards)
    _, places = np.unique(groups[known], return_inverse=True)
    means = np.bincount(places, rewards[known]) / np.maximum(np.bincount(places), 1)
    above = rewards[known] - means[places]
    side = np.where(np.abs(above) > _ROUNDING, np.sign(above), 0.0)
    result, won = np.full(len(groups), -1, np.int64), np.zeros(len(groups))
    result[known], won[known] = np.where(side != 0, places, -1), side > 0
    return Sides(result, won)


def contrasts(
    sides: Sides, kind: str, features: Mapping[str, FloatArray | IntArray]
) -> list[Contrast]:
    """The contrast of each feature that five groups or more have, without rates (NaN).

    features: by name [n] its values, NaN: not recorded; or, of integers, the places of the rollouts that
    have it, all others being without.
    """
    columns = {n: v.astype(np.float64) for n, v in features.items() if v.dtype.kind == "f"}
    places = {n: v.astype(np.int64) for n, v in features.items() if n not in columns}
    return [*_of_presence(sides, kind, places), *_of_numbers(sides, kind, columns)]


def _of_presence(sides: Sides, kind: str, features: Mapping[str, IntArray]) -> list[Contrast]:
    inside, count = sides.groups >= 0, sides.count
    every = np.bincount(sides.groups[inside], minlength=count)
    won = np.bincount(sides.groups[inside], sides.won[inside], count).astype(np.int64)
    has_both = (won > 0) & (won < every)
    sizes, wins = every[has_both], won[has_both]
    if len(sizes) < LEAST_GROUPS:
        return []
    contrasted: list[Contrast] = []
    names, batch = [*features], max(_AT_ONCE // len(sizes), 1)
    for first in range(0, len(names), batch):
        some = names[first : first + batch]
        having, winning = np.zeros((2, len(some), len(sizes)), np.int64)
        for row, name in enumerate(some):
            rollouts = features[name][inside[features[name]]]
            codes = sides.groups[rollouts]
            having[row] = np.bincount(codes, minlength=count)[has_both]
            winning[row] = np.bincount(codes, sides.won[rollouts], count)[has_both]
        contrasted += _contrasts_of_counts(some, kind, sizes, wins, having, winning)
    return contrasted


def _contrasts_of_counts(
    names: Sequence[str],
    kind: str,
    sizes: IntArray,
    wins: IntArray,
    having: IntArray,
    winning: IntArray,
) -> list[Contrast]:
    """sizes, wins: [groups] rollouts on a side, and winners; having, winning: [names, groups] the ones of
    those with the feature.
    """
    winners, losers = winning / wins, (having - winning) / (sizes - wins)
    low, high = difference_of_shares(winners, losers, wins, sizes - wins)
    share = having / sizes
    excess = (winning - wins * share).sum(axis=1)
    squares = (wins * (sizes - wins) / (sizes - 1) * share * (1 - share)).sum(axis=1)
    z = _in_deviations(excess, squares)
    p = presence_p(sizes, wins, having, winning.sum(axis=1))
    of_winners, of_losers = winners.mean(axis=1), losers.mean(axis=1)
    return [
        Contrast(
            name,
            kind,
            float(of_winners[i]),
            float(of_losers[i]),
            float(of_winners[i] - of_losers[i]),
            float(low[i]),
            float(high[i]),
            len(sizes),
            float(z[i]),
            float(p[i]),
        )
        for i, name in enumerate(names)
    ]


def _in_deviations(excess: FloatArray, squares: FloatArray) -> FloatArray:
    return np.divide(excess, np.sqrt(squares), out=np.zeros(len(excess)), where=squares > 0)


def _of_numbers(sides: Sides, kind: str, features: Mapping[str, FloatArray]) -> list[Contrast]:
    """Those that are recorded of the same rollouts are shuffled together."""
    together: dict[bytes, list[str]] = {}
    for name, values in features.items():
        together.setdefault(np.isfinite(values).tobytes(), []).append(name)
    contrasted: dict[str, Contrast] = {}
    for names in together.values():
        used = (sides.groups >= 0) & np.isfinite(features[names[0]])
        won, groups = sides.won[used] > 0, sides.groups[used]
        wins, sizes = (
            np.bincount(groups, counted, sides.count) for counted in (won, np.ones(len(won)))
        )
        has_both = (wins > 0) & (wins < sizes)
        if has_both.sum() < LEAST_GROUPS:
            continue
        usable = has_both[groups]
        values = np.stack([features[name][used][usable] for name in names], axis=1)
        _, codes = np.unique(groups[usable], return_inverse=True)
        made = _contrasts_of_values(names, kind, codes, won[usable], values)
        contrasted |= {contrast.feature: contrast for contrast in made}
    return [contrasted[name] for name in features if name in contrasted]


def _contrasts_of_values(
    names: Sequence[str], kind: str, groups: IntArray, won: BoolArray, values: FloatArray
) -> list[Contrast]:
    """groups: [n] codes from 0, each with both sides; values: [n, names]."""
    sizes, wins = np.bincount(groups), np.bincount(groups, won)

    def sums(of: FloatArray) -> FloatArray:
        columns = [np.bincount(groups, column) for column in of.T]
        return np.stack(columns, axis=1).astype(np.float64)

    deviations = values - (sums(values) / sizes[:, None])[groups]
    # What is left of equal values is rounding.
    deviations[np.abs(deviations) <= _ROUNDING * np.abs(values)] = 0.0
    winners = sums(values * won[:, None]) / wins[:, None]
    losers = sums(values * ~won[:, None]) / (sizes - wins)[:, None]
    differences, count = winners - losers, len(sizes)
    low, high = skewed_mean_interval(differences)
    weights = wins * (sizes - wins) / (sizes * (sizes - 1))
    squares = (weights[:, None] * sums(deviations**2)).sum(axis=0)
    z = _in_deviations(won.astype(np.float64) @ deviations, squares)
    p = number_p(groups, won, deviations)
    mean = differences.mean(axis=0)
    return [
        Contrast(
            name,
            kind,
            float(winners[:, i].mean()),
            float(losers[:, i].mean()),
            float(mean[i]),
            float(low[i]),
            float(high[i]),
            count,
            float(z[i]),
            float(p[i]),
        )
        for i, name in enumerate(names)
    ]


@dataclass(frozen=True, slots=True)
class WithinDifference:
    """A difference within groups. groups: that have both sides. NaN for fewer than LEAST_GROUPS; low and
    high also where fewer of the groups differ.
    """

    difference: float
    low: float
    high: float
    groups: int


def within_difference(gaps: FloatArray, weights: FloatArray) -> WithinDifference:
    """The mean of gaps [groups], weighted, with its 95 % interval over the groups.

    gaps: mean of the ones with something minus mean of the ones without it, in one group. weights:
    n·m / (n + m) of the n with and m without it is the inverse of a gap's variance, as of a regression
    with a fixed effect for each group. The error is that regression's, clustered by group (Liang and
    Zeger 1986), times G / (G - 1). The interval is that of `weighted_mean_interval`, with at most a
    degree of freedom for each gap that is not 0 but one: groups whose rewards are all alike tell nothing
    of the spread.
    """
    count = len(gaps)
    if count < LEAST_GROUPS:
        return WithinDifference(nan, nan, nan, count)
    mean = float((gaps * weights).sum() / weights.sum())
    differing = np.count_nonzero(np.abs(gaps) > _ROUNDING)
    if differing < LEAST_GROUPS:
        return WithinDifference(mean, nan, nan, count)
    return WithinDifference(mean, *weighted_mean_interval(gaps, weights, differing - 1.0), count)


def with_rates(contrasted: Sequence[Contrast]) -> list[Contrast]:
    """All with their rates of false discoveries among those of their kind, the most certain first.

    Kinds are apart: numbers are few, and their p by shuffles never as small as thousands of phrases ask.
    """
    rated: list[Contrast] = []
    for kind in dict.fromkeys(one.kind for one in contrasted):
        alike = [one for one in contrasted if one.kind == kind]
        rates = false_discovery_rates(np.array([one.p for one in alike])).tolist()
        rated += [replace(one, rate=rate) for one, rate in zip(alike, rates, strict=True)]
    return sorted(rated, key=lambda one: (one.p, -abs(one.z), one.feature))
