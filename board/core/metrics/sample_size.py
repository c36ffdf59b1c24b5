"""How many prompts and rollouts show a difference of a given size? From variances of a run."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.intervals import Z
from board.core.metrics.paired import LEAST_PROMPTS

POWER: Final = 0.8
_Z_POWER: Final = 0.8416212335729143
"""The normal distribution has POWER below it."""
_SKEWNESS: Final = 1.1
LEAST_GAINS: Final = 20
"""Prompts by which the share that gains can be told."""


@dataclass(frozen=True, slots=True)
class Variances:
    """Of a metric: between the true means of a step's prompts, and between rollouts of one prompt."""

    between: float
    within: float


def variances(
    means: FloatArray, within: FloatArray, counts: IntArray, steps: IntArray
) -> Variances | None:
    """The components of variance (Searle 1971, one-way random effects) of groups [n], pooled over steps.

    means, within: of each group; within has n - 1 in its denominator, NaN for one rollout. counts: its
    rollouts. steps: groups are compared with those of their step. None where no group has two rollouts,
    or no step has two groups.
    """
    repeated = (counts > 1) & np.isfinite(within)
    freedom = (counts - 1)[repeated]
    known = np.isfinite(means) & (counts > 0)
    _, of_step, sizes = np.unique(steps[known], return_inverse=True, return_counts=True)
    if not freedom.sum() or not (sizes > 1).any():
        return None
    inside = float((within[repeated] * freedom).sum() / freedom.sum())
    centres = np.bincount(of_step, means[known]) / sizes
    squares = float(((means[known] - centres[of_step]) ** 2).sum())
    of_means = squares / float((sizes - 1).sum())
    noise = inside * float((1 / counts[known]).mean())
    return Variances(max(of_means - noise, 0.0), inside)


def prompts_needed(
    own: Variances,
    difference: float,
    rollouts: int,
    *,
    is_paired: bool,
    share: float = 1.0,
    room: float = inf,
) -> int:
    """How many prompts, with so many rollouts each in both runs, show a difference of means.

    That is: the 95 % interval leaves 0 out in POWER of all samples. difference: not 0. is_paired: the
    same prompts in both, so that their difficulty falls out; the gain does not where it is another one
    for each. share: of the prompts that gain, all as much, the others nothing; the gain then has the
    variance difference² (1 / share - 1), which no number of rollouts makes less. room: how far the mean
    is from the best value; prompts near to that gain less and others more, which is a variance, too.

    Student's t of so many prompts needs z² / 2 more than normal ones (Guenther 1981), its correction for
    skewness a tenth more, and below LEAST_PROMPTS there is no interval.
    """
    rollout_noise = 2 * own.within / rollouts
    uneven = 1 + own.between / room**2
    of_prompts = difference**2 * (uneven / share - 1) if is_paired else 2 * own.between
    needed = (Z + _Z_POWER) ** 2 * (of_prompts + rollout_noise) / difference**2 + Z**2 / 2
    return max(ceil((_SKEWNESS if is_paired else 1.0) * needed), LEAST_PROMPTS)


def share_of_gains(gains: FloatArray, noise: float) -> float | None:
    """The share of prompts that gain, if those that do gain the same: by the mean and the spread of gains
    [n] of prompts, whose measurement has a variance of `noise`. None where the mean is within noise.
    """
    count, mean = len(gains), float(gains.mean()) if len(gains) else 0.0
    if count < LEAST_GAINS:
        return None
    variance = float(gains.var(ddof=1))
    if abs(mean) <= Z * (variance / count) ** 0.5:
        return None
    return mean**2 / (mean**2 + max(variance - noise, 0.0))
