"""What rules ask of a run's rollouts, step by step, so that a run is looked over without reading them."""

from __future__ import annotations

from dataclasses import dataclass

from board.core.groups.statistics import IntArray
from board.core.metrics.kl import FloatArray


@dataclass(frozen=True, slots=True)
class StepChecks:
    """Arrays [S], ascending by step; NaN and 0 where a step has nothing of it.

    rollouts: of the step. scored: those with a reward; lowest, highest: of these. clock: the latest
    timestamp. pairs: grouped rollouts of which reward and length are known; xx, yy, xy: sums of squares
    and products of what is left of reward (x) and length (y) after their group's means. rank_steps,
    ranks: (step, rank) of every rank that has a rollout at a step.
    """

    steps: IntArray
    rollouts: IntArray
    scored: IntArray
    lowest: FloatArray
    highest: FloatArray
    clock: FloatArray
    pairs: IntArray
    xx: FloatArray
    yy: FloatArray
    xy: FloatArray
    rank_steps: IntArray
    ranks: IntArray
