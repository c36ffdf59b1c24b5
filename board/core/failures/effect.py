"""What failed rollouts did to training: scores, baselines and advantages with them and without.

A failure of infrastructure that is scored (mostly 0) enters the mean of its group as if the policy had
earned it: the advantages of the others rise, and the update has a part that no answer of the model made.
The example by hand is of NeMo-Gym's pull request 3351: rewards 1, 3, 2 and, failed, 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import BoolArray, FloatArray, IntArray, divided
from board.core.groups.solve_rates import pass_at_k_by_step
from board.core.groups.statistics import EPSILON, Groups, by_step, outcomes_of

_ROUNDING: Final = 1e-9
"""Advantages that are as near as this to each other, or this share of them, are the same."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Means of some rollouts; NaN where none of them has what is averaged.

    reward: over scored rollouts. solve_rate: mean over groups of the share of graded rollouts that are
    right; where no rollout is in a group, of all of them. pass_at: by k the mean of pass@k over groups
    with k or more graded rollouts. zero_std: of the groups of 2 or more scores, the share whose scores
    are all equal.
    """

    reward: float
    solve_rate: float
    pass_at: Mapping[int, float]
    zero_std: float


@dataclass(frozen=True, slots=True)
class Effect:
    """What the failed ones of n rollouts did.

    trained: scores of all rollouts; without: of those that did not fail. advantages: [n] as trained, of
    all scored rollouts; valid_advantages: [n] where failed ones are in no group; both NaN where a rollout
    has none. A survivor is a scored rollout of a group that did not fail.

    groups: how many; changed: in which a survivor has another advantage without the failed ones;
    only_failed: in which every rollout failed; alone: of the changed, those with one survivor, which has
    nothing to be compared with. baseline_shift: mean over the changed of |mean reward of all scored - of
    the survivors|. moved: mean of |advantage - valid advantage| over those survivors of the changed that
    have both, `compared` of them; too_large: how many of these have a larger |advantage| as trained.
    weight_share: sum of |advantage| over the failed rollouts, of that over all, as trained. NaN where
    there is nothing to average.
    """

    trained: Scores
    without: Scores
    advantages: FloatArray
    valid_advantages: FloatArray
    groups: int
    changed: int
    only_failed: int
    alone: int
    baseline_shift: float
    moved: float
    too_large: int
    compared: int
    weight_share: float


def effect_of(
    codes: IntArray,
    rewards: FloatArray,
    failed: BoolArray,
    right: FloatArray,
    *,
    convention: str,
    ks: Sequence[int] = (1,),
    steps: IntArray | None = None,
) -> Effect:
    """What failed rollouts did to scores and advantages.

    codes: [n] group of each rollout, -1 for none; groups of several steps have codes of their own.
    rewards: [n] as training had them, NaN where not scored. failed: [n] whether infrastructure failed.
    right: [n] 1 or 0, NaN where not graded. convention: of CONVENTIONS; steps: [n], which only
    "batch_std" asks for; None: all rollouts are of one step. Raises KeyError for another convention and
    ValueError for a k below 1.
    """
    rewards = np.where(np.isfinite(rewards), rewards, np.nan)
    valid_rewards = np.where(failed, np.nan, rewards)
    advantages = expected_advantages(codes, rewards, convention, steps)
    valid = expected_advantages(codes, valid_rewards, convention, steps)
    is_grouped = codes >= 0
    survives = is_grouped & np.isfinite(valid_rewards)
    same = np.isclose(advantages, valid, rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True)
    changed = is_grouped & (_total(codes, survives & ~same) > 0)
    compared = survives & changed & np.isfinite(advantages) & np.isfinite(valid)
    larger = compared & ~same & (np.abs(advantages) > np.abs(valid))
    shift = np.abs(_group_means(codes, rewards) - _group_means(codes, valid_rewards))
    _, first = np.unique(codes[changed], return_index=True)
    return Effect(
        _scores(codes, rewards, right, ks),
        _scores(codes[~failed], rewards[~failed], right[~failed], ks),
        advantages,
        valid,
        _group_count(codes, is_grouped),
        len(first),
        _group_count(codes, is_grouped & (_total(codes, ~failed) == 0)),
        _group_count(codes, changed & (_total(codes, survives) == 1)),
        _mean(shift[changed][first]),
        _mean(np.abs(advantages - valid)[compared]),
        int(larger.sum()),
        int(compared.sum()),
        _share(np.abs(advantages), failed),
    )


def expected_advantages(
    codes: IntArray, rewards: FloatArray, convention: str, steps: IntArray | None = None
) -> FloatArray:
    """[n] advantages that a convention makes of rewards; NaN without a reward or a group, and where it
    has none of a group of one score. Arguments as of effect_of.
    """
    factor = _FACTORS[convention]
    apart = rewards - _group_means(codes, rewards)
    if convention == "batch_std":
        steps = np.zeros_like(codes) if steps is None else steps
        of_step, grouped = np.unique(steps, return_inverse=True)[1], np.isfinite(apart)
        own = np.where(grouped, rewards, np.nan)
        apart_of_step = own - _group_means(of_step, own)
        return apart * factor(of_step, apart_of_step)
    return apart * factor(codes, apart)


def _std(codes: IntArray, apart: FloatArray, fewer: int) -> FloatArray:
    """[n] standard deviation of the group, over its scores less `fewer`; apart: from its mean."""
    return np.sqrt(divided(_total(codes, apart**2), _size(codes, apart) - fewer))


_FACTORS: Final[Mapping[str, Callable[[IntArray, FloatArray], FloatArray]]] = {
    "grpo": lambda codes, apart: 1 / (_std(codes, apart, 1) + EPSILON),
    "dr_grpo": lambda codes, apart: np.ones(len(codes)),
    "rloo": lambda codes, apart: divided(_size(codes, apart), _size(codes, apart) - 1),
    "grpo_population": lambda codes, apart: 1 / (_std(codes, apart, 0) + EPSILON),
    "batch_std": lambda codes, apart: 1 / (_std(codes, apart, 1) + EPSILON),
}
"""By convention what `reward - mean of the group` is multiplied by, as FACTORS of board.query.advantages;
apart: [n] reward - mean of the group, of "batch_std" of the step, whose codes are given then.
"""


def _total(codes: IntArray, values: npt.NDArray[Any]) -> FloatArray:
    """[n] sum of the values, without NaN, over the group of each rollout; 0 without a group."""
    inside = codes >= 0
    sums = np.bincount(codes[inside], np.nan_to_num(values[inside].astype(np.float64)))
    result = np.zeros(len(codes))
    result[inside] = sums[codes[inside]]
    return result


def _size(codes: IntArray, values: FloatArray) -> FloatArray:
    """[n] how many of the group of each rollout have a value."""
    return _total(codes, np.isfinite(values))


def _group_means(codes: IntArray, rewards: FloatArray) -> FloatArray:
    """[n] mean reward of the group of each rollout; NaN without a group or a score in it."""
    return divided(_total(codes, rewards), _size(codes, rewards))


def _group_count(codes: IntArray, rows: BoolArray) -> int:
    """Groups that have any of the rows."""
    return len(np.unique(codes[rows]))


def _scores(codes: IntArray, rewards: FloatArray, right: FloatArray, ks: Sequence[int]) -> Scores:
    # Where no rollout is in a group each is an answer of its own: a solve rate is their share then.
    own = codes if (codes >= 0).any() else np.arange(len(codes))
    groups = _groups(own, rewards, right)
    of_step = by_step(groups)
    pass_at = {k: _mean(pass_at_k_by_step(groups, k).mean) for k in ks}
    zero_std, solve_rate = _mean(of_step.zero_std), _mean(of_step.solve_rate)
    return Scores(_mean(rewards), solve_rate, pass_at, zero_std)


def _groups(codes: IntArray, rewards: FloatArray, right: FloatArray) -> Groups:
    """The groups as those of one step."""
    inside = codes >= 0
    rewards, right = rewards[inside], right[inside]
    unique, row, of_row = np.unique(codes[inside], return_index=True, return_inverse=True)
    scored, graded = _size(of_row, rewards)[row], _size(of_row, right)[row]
    known = np.flatnonzero(np.isfinite(rewards))
    firsts = np.full(len(unique), np.nan)
    firsts[of_row[known][::-1]] = rewards[known[::-1]]
    differs = np.isfinite(rewards) & (rewards != firsts[of_row])
    equal = (scored >= 2) & (_total(of_row, differs)[row] == 0)
    solved = np.where(graded > 0, _total(of_row, right)[row], np.nan)
    return Groups(
        np.zeros_like(unique),
        unique,
        _total(of_row, np.ones(len(of_row)))[row].astype(np.int64),
        scored.astype(np.int64),
        solved,
        graded.astype(np.int64),
        outcomes_of(scored.astype(np.int64), equal, graded.astype(np.int64), solved),
        _group_means(of_row, rewards)[row],
    )


def _mean(values: FloatArray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _share(weights: FloatArray, failed: BoolArray) -> float:
    total = float(np.nansum(weights))
    # Sums of the same numbers in another order may differ in their last digit.
    part = min(float(np.nansum(weights[failed])), total)
    return part / total if total > 0 else float("nan")
