"""What differs between winners and losers by chance alone: who won is shuffled within each group.

Where the reward does not depend on a feature, each way to deal a group's wins to its rollouts is as
likely as the one that was seen, whatever the group's size, its share of winners, and how rare the feature
is. Rollouts of a group have to be exchangeable: an order of sampling that matters, such as an earlier
attempt that stands in the prompt, breaks that.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray, IntArray

SHUFFLES: Final = 4999
"""Of numbers; the least p is then 1 / 5,000."""
SEED: Final = 0
_AT_ONCE: Final = 4_000_000
"""Numbers in memory at once."""
_AS_LIKELY: Final = 1 + 1e-7
"""Counts as likely as the observed one are so within rounding."""
_LEAST_P: Final = 1e-12
"""A Fourier transform in double precision tells no smaller probabilities apart."""


def presence_p(
    sizes: IntArray, wins: IntArray, having: IntArray, winners_having: IntArray
) -> FloatArray:
    """[features] the exact two-sided p that as many winners have a feature, or as few.

    sizes, wins: [groups] rollouts that won or lost, and of these the winners. having: [features, groups]
    how many of the rollouts of a group have the feature; winners_having: [features] winners with it, of
    all groups. Given these margins a group's count is hypergeometric, and their sum is the statistic of
    Cochran (1954) and Mantel and Haenszel (1959), whose distribution is convolved exactly (Mehta, Patel
    and Gray 1985, of several 2 x 2 tables) by Fourier transform. p is the chance of a count that is no
    likelier than the observed one, as of `fisher_p`: as counts are whole numbers it is below a level less
    often than the level says, of rare features much less. Never less than 1e-12.
    """
    least = np.maximum(having + wins - sizes, 0)
    most = np.minimum(having, wins)
    varies = most > least
    span = (most - least).sum(axis=1)
    observed = winners_having - least.sum(axis=1)
    tables = np.stack(np.broadcast_arrays(sizes, wins, having), axis=-1)[varies]
    kinds, kind = np.unique(tables, axis=0, return_inverse=True)
    rows = np.nonzero(varies)[0]
    p = np.ones(len(having))
    for length in np.unique(1 << np.ceil(np.log2(span + 1)).astype(np.int64)).tolist():
        logs = _log_transforms(kinds, length)
        features = np.flatnonzero((span < length) & (2 * (span + 1) > length))
        batch = max(_AT_ONCE // max(length, len(kinds)), 1)
        for first in range(0, len(features), batch):
            some = features[first : first + batch]
            place = np.full(len(having), -1)
            place[some] = np.arange(len(some))
            used = place[rows] >= 0
            counts = np.zeros((len(some), len(kinds)))
            np.add.at(counts, (place[rows[used]], kind.reshape(-1)[used]), 1)
            chances = np.maximum(np.fft.irfft(np.exp(counts @ logs), length, axis=1), 0.0)
            p[some] = _as_unlikely(chances, observed[some])
    return p


def _log_transforms(kinds: IntArray, length: int) -> npt.NDArray[np.complex128]:
    """[kinds, length // 2 + 1] the logarithm of the Fourier transform of each hypergeometric
    distribution, counted from its least value. kinds: [kinds, 3] rollouts, winners, with the feature.
    """
    largest = int(kinds.max(initial=0))
    logs = np.append(0.0, np.cumsum(np.log(np.arange(1, largest + 1))))
    chances = np.zeros((len(kinds), length))
    for row, (size, win, have) in enumerate(kinds.tolist()):
        least, most = max(have + win - size, 0), min(have, win)
        if most - least >= length:
            continue  # of features of a longer span
        k = least + np.arange(int(most - least + 1))
        log_chances = (
            (logs[have] - logs[k] - logs[have - k])
            + (logs[size - have] - logs[win - k] - logs[size - have - win + k])
            - (logs[size] - logs[win] - logs[size - win])
        )
        chances[row, : len(k)] = np.exp(log_chances)
    transform = np.fft.rfft(chances, axis=1)
    # A zero of the transform stays one: exp(-690) of any count of it.
    return np.log(np.where(np.abs(transform) < 1e-300, 1e-300, transform))


def _as_unlikely(chances: FloatArray, observed: IntArray) -> FloatArray:
    """[features] the chance of a count that is no likelier than the observed one, of distributions
    [features, values].
    """
    bound = chances[np.arange(len(observed)), observed] * _AS_LIKELY
    total = np.where(chances <= bound[:, None], chances, 0.0).sum(axis=1)
    return np.clip(total, _LEAST_P, 1.0)


def number_p(groups: IntArray, won: BoolArray, deviations: FloatArray) -> FloatArray:
    """[features] the two-sided p of what winners have more of than losers.

    By SHUFFLES shuffles within groups (seed SEED), as Phipson and Smyth (2010) count them: never 0, and
    never too small. Where no shuffle is as extreme, by Bernstein's inequality if that says less: it holds
    for draws without replacement, too (Hoeffding 1963, theorem 4).

    groups: [n] codes from 0; won: [n]. deviations: [n, features] of values from the mean of their group.
    """
    order = np.argsort(groups, kind="stable")
    won, deviations, groups = won[order], deviations[order], groups[order]
    observed = np.abs(won @ deviations)
    sizes = np.bincount(groups)[groups]
    # Sums in another order differ in their last bits: that is as extreme, not less.
    bound = observed - 1e-9 * np.abs(deviations).sum(axis=0)
    rng, extreme = np.random.default_rng(SEED), np.zeros(deviations.shape[1])
    batch = max(_AT_ONCE // max(len(won), 1), 1)
    for first in range(0, SHUFFLES, batch):
        count = min(batch, SHUFFLES - first)
        sums = np.zeros((count, deviations.shape[1]))
        for size in np.unique(sizes).tolist():
            members = sizes == size
            labels = np.tile(won[members].reshape(-1, size), (count, 1, 1))
            shuffled = rng.permuted(labels, axis=2).reshape(count, -1)
            sums += shuffled.astype(np.float64) @ deviations[members]
        extreme += (np.abs(sums) >= bound).sum(axis=0)
    p = (extreme + 1) / (SHUFFLES + 1)
    return np.where(extreme == 0, np.minimum(p, _bernstein(groups, won, deviations, observed)), p)


def _bernstein(
    groups: IntArray, won: BoolArray, deviations: FloatArray, observed: FloatArray
) -> FloatArray:
    """[features] above the chance that draws of the smaller side of each group sum to as much."""
    sizes, wins = np.bincount(groups), np.bincount(groups, won)
    draws = np.minimum(wins, sizes - wins) / sizes
    variance = draws[groups] @ deviations**2
    largest = np.abs(deviations).max(axis=0, initial=0.0)
    scale = 2 * (variance + largest * observed / 3)
    exponent = np.divide(observed**2, scale, out=np.zeros(len(scale)), where=scale > 0)
    return np.maximum(2 * np.exp(-exponent), _LEAST_P)
