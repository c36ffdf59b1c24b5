"""Are the advantages a log holds those that its rewards give? Recomputed by each convention in use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import nextafter
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.groups import Groups
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


def _batch_scaled(rewards: FloatArray, groups: Groups) -> FloatArray:
    """By the spread of all rewards of the step, not of the group's."""
    member = (groups.of_row >= 0) & np.isfinite(rewards)
    steps, of_group = np.unique(groups.steps, return_inverse=True)
    of_row = of_group[groups.of_row[member]]
    values, count = rewards[member], len(steps)
    n = np.bincount(of_row, minlength=count)
    mean = np.bincount(of_row, weights=values, minlength=count) / np.maximum(n, 1)
    squares = np.bincount(of_row, weights=(values - mean[of_row]) ** 2, minlength=count)
    spread = np.full(len(rewards), np.nan)
    spread[member] = np.sqrt(squares / np.where(n > 1, n - 1, np.nan))[of_row]
    return _mean_only(rewards, groups) / (spread + EPSILON)


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
            "batch_std",
            "Mean of the group, standard deviation of the step",
            "(r - mean) / (std of all rewards of the step + 1e-4)",
            "arXiv 2508.08221; TRL scale_rewards='batch'",
            _batch_scaled,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class AdvantageFit:
    """recorded, expected: [n]; expected is by `convention` (None: no convention fits, and it is of the
    closest one, `closest`). differs: [n] True where both are known and not equal. shares: by
    convention, the share of steps that it fits. compared: advantages by which that was told.
    """

    convention: str | None
    closest: str
    expected: FloatArray
    differs: BoolArray
    shares: Mapping[str, float]
    compared: int


def fit_advantages(rewards: FloatArray, advantages: FloatArray, groups: Groups) -> AdvantageFit:
    """Which convention the recorded advantages follow, and where they do not.

    rewards, advantages: [n], NaN where not recorded; groups: of the same n rollouts. A convention fits
    a step when 9 of 10 of its advantages are equal, and the run when it fits more than half of the
    steps, or else the first 10. Rewards at their group's mean tell conventions apart as little as zeros
    do, so they count only for `differs`. Of a long run 200 steps, evenly spread, tell the convention.
    """
    chosen = _some_steps(groups)
    shares: dict[str, float] = {}
    known: dict[str, float] = {}
    some = np.flatnonzero((groups.of_row >= 0) & chosen[groups.of_row])
    few = replace(groups, of_row=groups.of_row[some])
    apart = _moments(rewards[some], few)[0]
    telling = np.isfinite(apart) & np.isfinite(advantages[some]) & (np.abs(apart) > ABSOLUTE)
    for name, convention in CONVENTIONS.items():
        with np.errstate(invalid="ignore", divide="ignore"):
            values = convention.compute(rewards[some], few)
        fits = _steps_that_fit(_equal(values, advantages[some]), telling, few)
        shares[name] = float(fits.mean()) if len(fits) else float("nan")
        if len(fits):
            begins = len(fits) >= _FIRST and bool(fits[:_FIRST].all())
            known[name] = max(shares[name], nextafter(_MOST, 1.0) if begins else 0.0)
    closest = max(known, key=lambda name: known[name]) if known else next(iter(CONVENTIONS))
    with np.errstate(invalid="ignore", divide="ignore"):
        values = CONVENTIONS[closest].compute(rewards, groups)
    compared = np.isfinite(values) & np.isfinite(advantages)
    return AdvantageFit(
        closest if known.get(closest, 0.0) > _MOST else None,
        closest,
        values,
        compared & ~_equal(values, advantages),
        shares,
        int(telling.sum()),
    )


def _some_steps(groups: Groups) -> BoolArray:
    """[groups] those of at most _STEPS steps, evenly spread."""
    steps = np.unique(groups.steps)
    places = np.linspace(0, len(steps) - 1, min(len(steps), _STEPS)).round().astype(np.int64)
    return np.isin(groups.steps, steps[places])


def _equal(expected: FloatArray, recorded: FloatArray) -> BoolArray:
    with np.errstate(invalid="ignore"):
        return np.abs(expected - recorded) <= ABSOLUTE + RELATIVE * np.abs(expected)


def _steps_that_fit(equal: BoolArray, telling: BoolArray, groups: Groups) -> BoolArray:
    """[steps with telling advantages], in their order, whether nearly all are equal."""
    steps, of_group = np.unique(groups.steps, return_inverse=True)
    of_row = of_group[groups.of_row[telling]]
    n = np.bincount(of_row, minlength=len(steps))
    hits = np.bincount(of_row[equal[telling]], minlength=len(steps))
    told = n > 0
    return hits[told] >= _FITS * n[told]
