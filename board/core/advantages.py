"""Are the advantages a log holds those that its rewards give? Recomputed by each convention in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nextafter
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.groups import Groups, IntArray
from board.core.kl import FloatArray

BoolArray = npt.NDArray[np.bool_]
EPSILON: Final = 1e-4
"""Added to the standard deviation: TRL's value; verl has 1e-6, which no tolerance here can tell."""
RELATIVE: Final = 0.01
ABSOLUTE: Final = 2e-3
"""Recorded and recomputed advantages count as equal within ABSOLUTE + RELATIVE * |recomputed|: logs
carry 4 or 5 digits, and epsilons differ."""
_FITS: Final = 0.9
"""A convention fits a step when at least this share of its advantages is equal."""
_STEPS: Final = 200
"""Steps, evenly spread, by which the convention is told."""
_MOST: Final = 0.5
"""The convention of a run fits more than this share of its steps: a fault may lie in the others."""
_FIRST: Final = 10
"""Or as many steps at its beginning: a fault may last from then on."""


@dataclass(frozen=True, slots=True)
class Convention:
    """How an advantage is made of a group's rewards. formula: in r, mean, std of the group, size n."""

    name: str
    label: str
    formula: str
    source: str
    compute: Callable[[FloatArray, Groups], FloatArray]


def _moments(rewards: FloatArray, groups: Groups) -> tuple[FloatArray, FloatArray, FloatArray]:
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


def _grpo(rewards: FloatArray, groups: Groups) -> FloatArray:
    apart, squares, n = _moments(rewards, groups)
    return apart / (np.sqrt(squares / np.where(n > 1, n - 1, np.nan)) + EPSILON)


def _grpo_population(rewards: FloatArray, groups: Groups) -> FloatArray:
    apart, squares, n = _moments(rewards, groups)
    return apart / (np.sqrt(squares / n) + EPSILON)


def _mean_only(rewards: FloatArray, groups: Groups) -> FloatArray:
    return _moments(rewards, groups)[0]


def _leave_one_out(rewards: FloatArray, groups: Groups) -> FloatArray:
    apart, _, n = _moments(rewards, groups)
    return apart * n / np.where(n > 1, n - 1, np.nan)


def reward_spread(rewards: FloatArray, groups: Groups) -> FloatArray:
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
    rewards: FloatArray, groups: Groups, spread: FloatArray | None = None
) -> FloatArray:
    """By the spread of all rewards of the step, not of the group's. spread: as of reward_spread."""
    known = reward_spread(rewards, groups) if spread is None else spread
    return _mean_only(rewards, groups) / (known + EPSILON)


_BATCH: Final = "batch_std"

CONVENTIONS: Final[Mapping[str, Convention]] = {
    c.name: c
    for c in (
        Convention(
            "grpo",
            "GRPO, mean and standard deviation of the group",
            "(r - mean) / (std + 1e-4), n - 1 in std's denominator",
            "DeepSeekMath, arXiv 2402.03300; TRL scale_rewards='group'; verl grpo",
            _grpo,
        ),
        Convention(
            "dr_grpo",
            "Dr. GRPO, mean of the group only",
            "r - mean",
            "Dr. GRPO, arXiv 2503.20783; TRL scale_rewards='none'; prime-rl",
            _mean_only,
        ),
        Convention(
            "rloo",
            "RLOO, mean of the others",
            "(r - mean) * n / (n - 1) = r - mean of the group's other rewards",
            "Ahmadian et al. 2024, arXiv 2402.14740",
            _leave_one_out,
        ),
        Convention(
            "grpo_population",
            "GRPO, standard deviation over n",
            "(r - mean) / (std + 1e-4), n in std's denominator",
            "DeepSeekMath, arXiv 2402.03300, with numpy's default std",
            _grpo_population,
        ),
        Convention(
            _BATCH,
            "Mean of the group, standard deviation of the step",
            "(r - mean) / (std of all rewards of the step + 1e-4)",
            "arXiv 2508.08221; TRL scale_rewards='batch'",
            _batch_scaled,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class FitCounts:
    """How the advantages of each step with groups fit; arrays [steps].

    telling: advantages by which conventions can be told apart. spread: see reward_spread, that of the
    whole step where the advantages are some of its alone. hits: by convention how many of these
    it gives; differs: how many of all known ones it does not give; furthest: by how much the one that
    is furthest from what it gives is so, NaN where none is known.
    """

    steps: IntArray
    telling: IntArray
    spread: FloatArray
    hits: Mapping[str, IntArray]
    differs: Mapping[str, IntArray]
    furthest: Mapping[str, FloatArray]

    def spread_at(self, step: int, rollouts: int) -> FloatArray:
        """[rollouts] the spread at a step for each of so many of its rollouts, as by_convention takes
        it; NaN where the step has none.
        """
        known = self.spread[self.steps == step]
        return np.full(rollouts, known[0] if len(known) else np.nan)


@dataclass(frozen=True, slots=True)
class Told:
    """convention: that the run follows, None where none fits; closest: the one that fits best. shares:
    by convention, the share of steps that it fits. compared: advantages by which that was told.
    """

    convention: str | None
    closest: str
    shares: Mapping[str, float]
    compared: int


def fit_counts(
    rewards: FloatArray, advantages: FloatArray, groups: Groups, spread: FloatArray | None = None
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
    of_group_rows = np.where(groups.of_row >= 0, batch, np.nan)
    spread_by_step = _largest(of_group_rows, of_row, len(steps))
    return FitCounts(steps, telling_by_step, spread_by_step, hits, differs, furthest)


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
    groups: Groups,
    spread: FloatArray | None = None,
) -> tuple[FloatArray, BoolArray]:
    """([n] advantages as a convention has them, [n] whether the recorded ones are known and others).

    spread: [n] as reward_spread has it of all rollouts of their steps, where these are some of them.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        if name == _BATCH:
            expected = _batch_scaled(rewards, groups, spread)
        else:
            expected = CONVENTIONS[name].compute(rewards, groups)
    known = np.isfinite(expected) & np.isfinite(advantages)
    return expected, known & ~_equal(expected, advantages)


def told(counts: FitCounts) -> Told:
    """Which convention the recorded advantages follow.

    A convention fits a step when 9 of 10 of its telling advantages are equal, and the run when it fits
    more than half of the steps, or else the first 10. Of a long run 200 steps, evenly spread, tell the
    convention.
    """
    count = len(counts.steps)
    places = np.linspace(0, max(count - 1, 0), min(count, _STEPS)).round().astype(np.int64)
    telling = counts.telling[places]
    shares: dict[str, float] = {}
    known: dict[str, float] = {}
    for name, hits in counts.hits.items():
        fits = _steps_that_fit(hits[places], telling)
        shares[name] = float(fits.mean()) if len(fits) else float("nan")
        if len(fits):
            begins = len(fits) >= _FIRST and bool(fits[:_FIRST].all())
            known[name] = max(shares[name], nextafter(_MOST, 1.0) if begins else 0.0)
    closest = max(known, key=lambda name: known[name]) if known else next(iter(CONVENTIONS))
    follows = known.get(closest, 0.0) > _MOST
    return Told(closest if follows else None, closest, shares, int(telling.sum()))


def _equal(expected: FloatArray, recorded: FloatArray) -> BoolArray:
    with np.errstate(invalid="ignore"):
        return np.abs(expected - recorded) <= ABSOLUTE + RELATIVE * np.abs(expected)


def _steps_that_fit(hits: IntArray, telling: IntArray) -> BoolArray:
    """[steps with telling advantages], in their order, whether nearly all are equal."""
    there = telling > 0
    return hits[there] >= _FITS * telling[there]
