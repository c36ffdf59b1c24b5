"""What a run tells of how many prompts a comparison needs: its variances, and which prompts gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.intervals import Z

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
