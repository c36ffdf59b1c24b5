"""Differences of two runs on the prompts that both saw: prompt by prompt, with their interval.

A prompt's difficulty is in both of its means and falls out of their difference, so that fewer rollouts
tell two runs apart than the difference of their means over different prompts would need.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.arrays import FloatArray

RESAMPLES: Final = 2000
SEED: Final = 0
_ROUNDING: Final = 1e-9
_AT_ONCE: Final = 8_000_000
"""Numbers of resamples in memory at once."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Means of a metric in run B minus those in run A, over the prompts that both have.

    difference: mean over the prompts; low, high: its 95 % interval, None for fewer than two prompts.
    won: prompts with a larger mean in B; lost: with a smaller one; equal: with the same.
    """

    prompts: int
    difference: float | None
    low: float | None
    high: float | None
    won: int
    lost: int
    equal: int


def paired_difference(first: FloatArray, second: FloatArray) -> PairedDifference:
    """The difference of means of prompts, [n] of run A and of run B.

    The interval is a bootstrap over prompts (percentiles of RESAMPLES means of n prompts drawn with
    replacement, seed SEED; Efron 1979), widened by sqrt(n / (n - 1)): percentiles of few prompts are too
    narrow by that factor (Hesterberg 2015).
    """
    deltas = second - first
    deltas = deltas[np.isfinite(deltas)]
    count = len(deltas)
    equal = np.abs(deltas) <= _ROUNDING
    sides = (int((deltas > _ROUNDING).sum()), int((deltas < -_ROUNDING).sum()), int(equal.sum()))
    if not count:
        return PairedDifference(0, None, None, None, *sides)
    mean = float(deltas.mean())
    if count < 2:
        return PairedDifference(count, mean, None, None, *sides)
    low, high = np.percentile(_resampled_means(deltas), [2.5, 97.5])
    wider = np.sqrt(count / (count - 1))
    ends = (mean + wider * (low - mean), mean + wider * (high - mean))
    return PairedDifference(count, mean, float(ends[0]), float(ends[1]), *sides)


def _resampled_means(values: FloatArray) -> FloatArray:
    rng, count = np.random.default_rng(SEED), len(values)
    rows = max(min(_AT_ONCE // count, RESAMPLES), 1)
    means = [
        values[rng.integers(0, count, (min(rows, RESAMPLES - done), count))].mean(axis=1)
        for done in range(0, RESAMPLES, rows)
    ]
    return np.concatenate(means)
