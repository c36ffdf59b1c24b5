"""Advantages as conventions have them, made of all rollouts at once: what SQL is compared with."""

from __future__ import annotations

import numpy as np
from plain_groups import PlainGroups

from board.core.groups.statistics import (
    ABSOLUTE,
    CONVENTIONS,
    EPSILON,
    RELATIVE,
    BoolArray,
    FitCounts,
    IntArray,
)
from board.core.metrics.kl import FloatArray


def _moments(rewards: FloatArray, groups: PlainGroups) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Of each rollout: its reward less its group's mean, the group's sum of squares, its scores."""
    member = groups.of_row >= 0
    mean = np.full(len(rewards), np.nan)
    mean[member] = groups.mean[groups.of_row[member]]
    apart = rewards - mean
    known = np.isfinite(apart)
    squares = np.bincount(
        groups.of_row[known], weights=apart[known] ** 2, minlength=len(groups.steps)
    )
    of_group = np.full(len(rewards), np.nan)
    scored = np.full(len(rewards), np.nan)
    of_group[member] = squares[groups.of_row[member]]
    scored[member] = groups.scored[groups.of_row[member]]
    return apart, of_group, scored


def _grpo(rewards: FloatArray, groups: PlainGroups) -> FloatArray:
    apart, squares, n = _moments(rewards, groups)
    return apart / (np.sqrt(squares / np.where(n > 1, n - 1, np.nan)) + EPSILON)


def _grpo_population(rewards: FloatArray, groups: PlainGroups) -> FloatArray:
    apart, squares, n = _moments(rewards, groups)
    return apart / (np.sqrt(squares / n) + EPSILON)


def _mean_only(rewards: FloatArray, groups: PlainGroups) -> FloatArray:
    return _moments(rewards, groups)[0]


def _leave_one_out(rewards: FloatArray, groups: PlainGroups) -> FloatArray:
    apart, _, n = _moments(rewards, groups)
    return apart * n / np.where(n > 1, n - 1, np.nan)


def reward_spread(rewards: FloatArray, groups: PlainGroups) -> FloatArray:
    """[n] the standard deviation, n - 1 in its denominator, of the rewards of all grouped rollouts of
    each one's step; NaN for rollouts without a group and where fewer than two are scored.
    """
    grouped = groups.of_row >= 0
    member = grouped & np.isfinite(rewards)
    steps, of_group = np.unique(groups.steps, return_inverse=True)
    of_row = of_group[groups.of_row[member]]
    values, count = rewards[member], len(steps)
    n = np.bincount(of_row, minlength=count)
    mean = np.bincount(of_row, weights=values, minlength=count) / np.maximum(n, 1)
    squares = np.bincount(of_row, weights=(values - mean[of_row]) ** 2, minlength=count)
    spread = np.full(len(rewards), np.nan)
    by_step = np.sqrt(squares / np.where(n > 1, n - 1, np.nan))
    spread[grouped] = by_step[of_group[groups.of_row[grouped]]]
    return spread


def _batch_scaled(
    rewards: FloatArray, groups: PlainGroups, spread: FloatArray | None = None
) -> FloatArray:
    """By the spread of all rewards of the step, not of the group's. spread: as of reward_spread."""
    known = reward_spread(rewards, groups) if spread is None else spread
    return _mean_only(rewards, groups) / (known + EPSILON)


COMPUTE = {
    "grpo": _grpo,
    "dr_grpo": _mean_only,
    "rloo": _leave_one_out,
    "grpo_population": _grpo_population,
    "batch_std": _batch_scaled,
}


def fit_counts(
    rewards: FloatArray,
    advantages: FloatArray,
    groups: PlainGroups,
    spread: FloatArray | None = None,
) -> FitCounts:
    """Recorded against recomputed advantages, step by step.

    rewards, advantages: [n], NaN where not recorded; groups: of the same n rollouts. spread: as of
    by_convention. Rewards at their group's mean tell conventions apart as little as zeros do, so they
    count only for `differs`.
    """
    steps, of_group = np.unique(groups.steps, return_inverse=True)
    of_row = np.append(of_group, 0)[groups.of_row]
    apart = _moments(rewards, groups)[0]
    known = np.isfinite(apart) & np.isfinite(advantages)
    telling = known & (np.abs(apart) > ABSOLUTE)
    hits: dict[str, IntArray] = {}
    differs: dict[str, IntArray] = {}
    furthest: dict[str, FloatArray] = {}
    batch = reward_spread(rewards, groups) if spread is None else spread
    for name in CONVENTIONS:
        expected, other = by_convention(name, rewards, advantages, groups, batch)
        hit = telling & _equal(expected, advantages)
        hits[name] = np.bincount(of_row[hit], minlength=len(steps))
        differs[name] = np.bincount(of_row[other], minlength=len(steps))
        furthest[name] = _largest(np.abs(advantages - expected), of_row, len(steps))
    telling_by_step = np.bincount(of_row[telling], minlength=len(steps))
    return FitCounts(steps, telling_by_step, hits, differs, furthest)


def _largest(values: FloatArray, of_row: IntArray, steps: int) -> FloatArray:
    """[steps] the largest finite value of each, NaN where there is none."""
    known = np.isfinite(values)
    found = np.full(steps, np.nan)
    np.fmax.at(found, of_row[known], values[known])
    return found


def by_convention(
    name: str,
    rewards: FloatArray,
    advantages: FloatArray,
    groups: PlainGroups,
    spread: FloatArray | None = None,
) -> tuple[FloatArray, BoolArray]:
    """([n] advantages as a convention has them, [n] whether the recorded ones are known and others).

    spread: [n] as reward_spread has it of all rollouts of their steps, where these are some of them.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        if name == "batch_std":
            expected = _batch_scaled(rewards, groups, spread)
        else:
            expected = COMPUTE[name](rewards, groups)
    known = np.isfinite(expected) & np.isfinite(advantages)
    return expected, known & ~_equal(expected, advantages)


def _equal(expected: FloatArray, recorded: FloatArray) -> BoolArray:
    with np.errstate(invalid="ignore"):
        return np.abs(expected - recorded) <= ABSOLUTE + RELATIVE * np.abs(expected)
