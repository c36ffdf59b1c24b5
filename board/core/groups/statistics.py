"""Groups of rollouts of one prompt: who was solved, who gives a gradient, and whether advantages fit.

Rewards are numbers of rollouts, NaN where a rollout failed or was not scored; groups may be of unequal
size. A group belongs to one step: an id that comes again at another step is another group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import nextafter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray, IntArray, divided
from board.core.metrics.definitions import REWARD_PART, reward_parts
from board.core.sampling import evenly_spaced

RIGHT_PARTS: Final = ("correct", "accuracy", "acc", "correctness", "is_correct", "solved", "answer")
"""Names of reward parts that say whether an answer is right, the likeliest first."""


class Outcome(IntEnum):
    """What a group's rewards say. All but MIXED are zero-std groups: their rewards give no gradient, only
    other terms of the loss do, such as KL.

    MIXED: they differ. ALL_RIGHT, ALL_WRONG, OTHER: all equal, at the best, at the worst, or at another
    reward. TOO_FEW_SCORED: fewer than two are scored, so that there is nothing to compare.
    """

    MIXED = 0
    ALL_RIGHT = 1
    ALL_WRONG = 2
    OTHER = 3
    TOO_FEW_SCORED = 4


@dataclass(frozen=True, slots=True)
class Groups:
    """One entry per group, ordered by step and then by the group's code; arrays [groups].

    steps, codes: whose group it is. size: rollouts; scored: those with a reward. right: those that are
    right, NaN where that is not recorded of any. outcomes: of Outcome.
    """

    steps: IntArray
    codes: IntArray
    size: IntArray
    scored: IntArray
    right: FloatArray
    graded: IntArray
    outcomes: npt.NDArray[np.int8]
    mean: FloatArray

    @property
    def solve_rate(self) -> FloatArray:
        """[groups] share of the graded rollouts that are right; NaN where none is graded."""
        return divided(self.right, self.graded)


def outcomes_of(
    scored: IntArray, equal: BoolArray, graded: IntArray, right: FloatArray
) -> npt.NDArray[np.int8]:
    """[groups] of Outcome. equal: whether there are two scores or more and all are the same."""
    outcomes = np.full(len(scored), Outcome.MIXED, np.int8)
    outcomes[equal] = Outcome.OTHER
    outcomes[equal & (right == graded)] = Outcome.ALL_RIGHT
    outcomes[equal & (right == 0)] = Outcome.ALL_WRONG
    outcomes[scored < 2] = Outcome.TOO_FEW_SCORED
    return outcomes


@dataclass(frozen=True, slots=True)
class StepGroups:
    """Arrays [steps]; shares are of the groups with 2 or more scores, NaN where a step has none.

    groups: of 2 or more scores. zero_std: share whose rewards are all equal, the sum of all_right,
    all_wrong and other. solve_rate: mean over groups. effective: rollouts in the other groups; rollouts:
    all.
    """

    steps: IntArray
    groups: IntArray
    zero_std: FloatArray
    all_right: FloatArray
    all_wrong: FloatArray
    other: FloatArray
    solve_rate: FloatArray
    effective: IntArray
    rollouts: IntArray


def by_step(groups: Groups) -> StepGroups:
    """The groups of each step. zero_std is TRL's frac_reward_zero_std; dropping such groups is DAPO's
    dynamic sampling (arXiv 2503.14476, section 3.2).
    """
    steps, of_group = np.unique(groups.steps, return_inverse=True)

    def total(mask: BoolArray, weights: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        own = None if weights is None else weights[mask]
        return np.bincount(of_group[mask], weights=own, minlength=len(steps))

    compared = total(groups.outcomes != Outcome.TOO_FEW_SCORED)
    right, wrong, other = (
        divided(total(groups.outcomes == outcome), compared)
        for outcome in (Outcome.ALL_RIGHT, Outcome.ALL_WRONG, Outcome.OTHER)
    )
    rates = groups.solve_rate
    graded = np.isfinite(rates)
    return StepGroups(
        steps,
        compared,
        right + wrong + other,
        right,
        wrong,
        other,
        divided(total(graded, rates), total(graded)),
        total(groups.outcomes == Outcome.MIXED, groups.scored).astype(np.int64),
        total(groups.size >= 0, groups.size).astype(np.int64),
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """A step's groups as rows. codes: [groups]. rows: [groups, widest] place of each rollout among
    those given, -1 where a group is smaller; values: the same shape, NaN there and where missing.
    """

    codes: IntArray
    rows: IntArray
    values: FloatArray


def grid(codes: IntArray, values: FloatArray) -> Grid:
    """Groups x rollouts in the order in which they come; codes, values: [n] of one step's rollouts."""
    rows = np.flatnonzero(codes >= 0)
    unique, first, inverse = np.unique(codes[rows], return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))[inverse]
    order = np.argsort(place, kind="stable")
    size = np.bincount(place, minlength=len(unique))
    cells = np.full((len(unique), int(size.max(initial=0))), -1, np.int64)
    column = np.arange(len(rows)) - np.repeat(np.cumsum(size) - size, size)
    cells[place[order], column] = rows[order]
    padded = np.append(values.astype(np.float64), np.nan)
    return Grid(unique[np.argsort(first)], cells, padded[cells])


def correctness_column(columns: Iterable[str]) -> str | None:
    """Which column is of the reward part that says that an answer is right; None where none does."""
    parts = reversed(reward_parts(columns))
    named = {part.removeprefix(REWARD_PART).lower(): part for part in parts}
    return next((named[name] for name in RIGHT_PARTS if name in named), None)


EPSILON: Final = 1e-4
"""Added to the standard deviation: TRL's value; verl has 1e-6, which no tolerance here can tell."""
RELATIVE: Final = 0.01
ABSOLUTE: Final = 2e-3
"""Recorded and recomputed advantages count as equal within ABSOLUTE + RELATIVE * |recomputed|: logs
carry 4 or 5 digits, and epsilons differ."""
_FITS: Final = 0.9
"""A convention fits a step when at least this share of its advantages is equal."""
_STEPS: Final = 200
"""Steps, evenly spread, by which the convention is recognized."""
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


CONVENTIONS: Final[Mapping[str, Convention]] = {
    c.name: c
    for c in (
        Convention(
            "grpo",
            "GRPO, mean and standard deviation of the group",
            "(r - mean) / (std + 1e-4), n - 1 in std's denominator",
            "DeepSeekMath, arXiv 2402.03300; TRL scale_rewards='group'; verl grpo",
        ),
        Convention(
            "dr_grpo",
            "Dr. GRPO, mean of the group only",
            "r - mean",
            "Dr. GRPO, arXiv 2503.20783; TRL scale_rewards='none'; prime-rl",
        ),
        Convention(
            "rloo",
            "RLOO, mean of the others",
            "(r - mean) * n / (n - 1) = r - mean of the group's other rewards",
            "Ahmadian et al. 2024, arXiv 2402.14740",
        ),
        Convention(
            "grpo_population",
            "GRPO, standard deviation over n",
            "(r - mean) / (std + 1e-4), n in std's denominator",
            "DeepSeekMath, arXiv 2402.03300, with numpy's default std",
        ),
        Convention(
            "batch_std",
            "Mean of the group, standard deviation of the step",
            "(r - mean) / (std of all rewards of the step + 1e-4)",
            "arXiv 2508.08221; TRL scale_rewards='batch'",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class FitCounts:
    """How the advantages of each step with groups fit; arrays [steps].

    informative: advantages in which conventions differ. hits: by convention how many of these
    it gives; differs: how many of all known ones it does not give; furthest: by how much the one that
    is furthest from what it gives is so, NaN where none is known. of_reward, of_group: correlation of the
    advantages with the rewards, and with the rewards less their group's mean; NaN where one is constant.
    """

    steps: IntArray
    informative: IntArray
    hits: Mapping[str, IntArray]
    differs: Mapping[str, IntArray]
    furthest: Mapping[str, FloatArray]
    of_reward: FloatArray
    of_group: FloatArray


@dataclass(frozen=True, slots=True)
class AdvantageFit:
    """convention: that the run follows, None where none fits; closest: the one that fits best. shares:
    by convention, the share of steps that it fits. compared: advantages that were compared.
    """

    convention: str | None
    closest: str
    shares: Mapping[str, float]
    compared: int


def deciding_steps(steps: Sequence[int]) -> list[int]:
    """The steps, of those with groups, that decide which convention a run follows: 200 evenly spaced."""
    return [steps[place] for place in evenly_spaced(len(steps), _STEPS)]


def fitted_convention(counts: FitCounts) -> AdvantageFit:
    """Which convention the recorded advantages follow.

    A convention fits a step when 9 of 10 of its informative advantages are equal, and the run when it
    fits more than half of the deciding steps, or else the first 10.
    """
    places = evenly_spaced(len(counts.steps), _STEPS)
    informative = counts.informative[places]
    shares: dict[str, float] = {}
    known: dict[str, float] = {}
    for name, hits in counts.hits.items():
        fits = (hits[places] >= _FITS * informative)[informative > 0]
        shares[name] = float(fits.mean()) if len(fits) else float("nan")
        if len(fits):
            begins = len(fits) >= _FIRST and bool(fits[:_FIRST].all())
            known[name] = max(shares[name], nextafter(_MOST, 1.0) if begins else 0.0)
    closest = max(known, key=lambda name: known[name]) if known else next(iter(CONVENTIONS))
    follows = known.get(closest, 0.0) > _MOST
    return AdvantageFit(closest if follows else None, closest, shares, int(informative.sum()))
