"""How many prompts and rollouts show a difference of a given size? From variances of a run."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.intervals import Z

POWER: Final = 0.8
_Z_POWER: Final = 0.8416212335729143
"""The normal distribution has POWER below it."""


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


def prompts_needed(own: Variances, difference: float, rollouts: int, *, is_paired: bool) -> int:
    """How many prompts, with so many rollouts each in both runs, show a difference of means.

    That is: the 95 % interval leaves 0 out in POWER of all samples. is_paired: the same prompts in both;
    the difference is taken to be the same for each, so that their variance falls out. difference: not 0.
    """
    between = 0.0 if is_paired else own.between
    variance = 2 * (between + own.within / rollouts)
    return max(ceil((Z + _Z_POWER) ** 2 * variance / difference**2), 2)
