"""Differences of two runs on the prompts that both saw: prompt by prompt, with their interval.

A prompt's difficulty is in both of its means and falls out of their difference, so that fewer rollouts
tell two runs apart than the difference of their means over different prompts would need.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.distributions import student_t_p
from board.core.metrics.skewed_means import LEAST_UNBOUNDED, skewed_mean_interval

LEAST_PROMPTS: Final = 6
"""Of fewer, the same sign in all of them is no rare chance: 2 / 2⁵ of two runs that are alike."""
FLIPS: Final = 4999
"""Of signs, drawn at random (seed SEED) where there are more than 12; the least p is then 1 / 5,000."""
SEED: Final = 0
_ALL_FLIPS: Final = 12
_MOST_FLIPPED: Final = 800
"""Of more differences the sum of flipped ones is normal enough, and Student's t as good."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Means of a metric in run B minus those in run A, over the prompts that both have.

    difference: mean over the prompts; low, high: its 95 % interval, None where there is none to be had.
    won: prompts with a larger mean in B; lost: with a smaller one; equal: with the same. p: two-sided, by
    flips of signs; None for fewer than LEAST_PROMPTS. no_interval: why there is none.
    """

    prompts: int
    difference: float | None
    low: float | None
    high: float | None
    won: int
    lost: int
    equal: int
    p: float | None = None
    no_interval: str = ""


def paired_difference(deltas: FloatArray, most: float = inf) -> PairedDifference:
    """The mean difference of two runs. deltas: [n] of each prompt, B minus A; NaN: not in both. most: no
    difference can be larger, 1 of shares.

    The interval is that of `skewed_mean_interval`, rather too wide. Prompts stand for those like them;
    where one among many holds most of the difference, a sample that misses it is too sure of itself. None
    for fewer than LEAST_PROMPTS, LEAST_UNBOUNDED where differences may be of any size, or where all are
    alike: they say nothing of the spread.
    """
    deltas = deltas[np.isfinite(deltas)]
    count = len(deltas)
    equal = np.abs(deltas) <= _ROUNDING
    sides = (int((deltas > _ROUNDING).sum()), int((deltas < -_ROUNDING).sum()), int(equal.sum()))
    mean = float(deltas.mean()) if count else None
    if mean is None or count < LEAST_PROMPTS:
        why = f"no interval: fewer than {LEAST_PROMPTS} prompts"
        return PairedDifference(count, mean, None, None, *sides, no_interval=why)
    p = sign_flip_p(np.where(equal, 0.0, deltas))
    if not np.ptp(deltas) > _ROUNDING:
        why = "no interval: the difference is the same on all prompts"
        return PairedDifference(count, mean, None, None, *sides, p, why)
    if count < LEAST_UNBOUNDED and most == inf:
        why = f"no interval: fewer than {LEAST_UNBOUNDED} prompts, of values without bounds"
        return PairedDifference(count, mean, None, None, *sides, p, why)
    low, high = skewed_mean_interval(deltas)
    low, high = max(float(low), -most), min(float(high), most)
    return PairedDifference(count, mean, low, high, *sides, p)


def sign_flip_p(deltas: FloatArray) -> float:
    """The two-sided p of a mean of differences [n] by flips of their signs (Fisher 1935, The design of
    experiments, section 21).

    Where it makes no difference which of two runs was called B, each sign is as likely as its opposite,
    however the differences are spread. All flips up to 12 differences that are not 0, else FLIPS and,
    where none of them is as extreme, Hoeffding's bound (1963) if that says less.
    """
    sizes = np.abs(deltas[deltas != 0])
    count, observed = len(sizes), abs(float(deltas.sum()))
    if count > _MOST_FLIPPED:
        t = deltas.mean() / (deltas.std(ddof=1) / np.sqrt(len(deltas)))
        return float(student_t_p(np.array([t]), np.array([len(deltas) - 1.0]))[0])
    bound = observed * (1 - _ROUNDING)
    if count <= _ALL_FLIPS:
        bits = np.arange(1 << count)[:, None] >> np.arange(count) & 1
        return float((np.abs((2 * bits - 1) @ sizes) >= bound).mean())
    bits = np.random.default_rng(SEED).integers(0, 2, (FLIPS, count), np.int8)
    extreme = int((np.abs(2 * (bits @ sizes) - sizes.sum()) >= bound).sum())
    p = (extreme + 1) / (FLIPS + 1)
    hoeffding = 2 * float(np.exp(-(observed**2) / (2 * (sizes**2).sum())))
    return min(p, hoeffding) if not extreme else p


def false_discovery_rates(p: FloatArray) -> FloatArray:
    """[n] the least rate of false discoveries at which each would be one (Benjamini and Hochberg 1995);
    NaN stays NaN.
    """
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(-p[known])]
    rates, count = np.full(len(p), np.nan), len(order)
    ranked = p[order] * count / np.arange(count, 0, -1)
    rates[order] = np.minimum.accumulate(np.minimum(ranked, 1.0)) if count else ranked
    return rates
