"""Groups made of all rollouts at once: what SQL is compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from board.core.groups.statistics import Groups, IntArray, outcomes_of
from board.core.metrics.kl import FloatArray


@dataclass(frozen=True)
class PlainGroups(Groups):
    """of_row: [rollouts] the group of each rollout, -1 where it has none."""

    of_row: IntArray


def groups_of(
    steps: IntArray,
    codes: IntArray,
    rewards: FloatArray,
    right: FloatArray | None = None,
) -> PlainGroups:
    """The groups of a run or of a step.

    steps, codes: [n] step and group of each rollout; a code below 0 is no group. rewards: [n], NaN
    where not scored. right: [n] 1 where the rollout is right, 0 where not, NaN where not judged; by
    default `is_right(rewards)`. All-right and all-wrong are told by `right`; where rewards are all
    equal and only some rollouts are right, the outcome is OTHER. Equality is exact, where TRL's
    frac_reward_zero_std lets the standard deviation be up to 1e-8 (torch.isclose, trl@f2cd577).
    Raises ValueError on unequal lengths.
    """
    judged = is_right(rewards) if right is None else right
    if not len(steps) == len(codes) == len(rewards) == len(judged):
        raise ValueError("steps, codes, rewards and right are of unequal length")
    rows = np.flatnonzero(codes >= 0)
    of_row = np.full(len(steps), -1, np.int64)
    if not len(rows):
        none = np.zeros(0, np.int64)
        return PlainGroups(
            none, none, none, none, np.zeros(0), none, none.astype(np.int8), np.zeros(0), of_row
        )
    everyone = len(rows) == len(steps)
    keys = steps if everyone else steps[rows]
    keys = (keys - keys.min()) * (codes.max() + 1) + (codes if everyone else codes[rows])
    if (np.diff(keys) >= 0).all():
        order, ordered = rows, keys
    else:
        places = np.argsort(keys, kind="stable")
        order, ordered = rows[places], keys[places]
    starts = np.flatnonzero(np.concatenate(([True], np.diff(ordered) != 0)))
    size = np.diff(np.append(starts, len(order)))
    of_row[order] = np.repeat(np.arange(len(starts)), size)
    return _summed(steps, codes, rewards, judged, order, starts, size, of_row)


def _summed(
    steps: IntArray,
    codes: IntArray,
    rewards: FloatArray,
    right: FloatArray,
    order: IntArray,
    starts: IntArray,
    size: IntArray,
    of_row: IntArray,
) -> PlainGroups:
    values, judged = rewards[order], right[order]
    known, is_judged = np.isfinite(values), np.isfinite(judged)
    scored = np.add.reduceat(known, starts, dtype=np.int64)
    total = np.add.reduceat(np.where(known, values, 0.0), starts)
    lowest = np.minimum.reduceat(np.where(known, values, np.inf), starts)
    highest = np.maximum.reduceat(np.where(known, values, -np.inf), starts)
    of_judged = np.add.reduceat(is_judged, starts, dtype=np.int64)
    solved = np.add.reduceat(np.where(is_judged, judged, 0.0), starts)
    solved = np.where(of_judged > 0, solved, np.nan)
    outcomes = outcomes_of(scored, (scored >= 2) & (lowest == highest), of_judged, solved)
    first = order[starts]
    mean = _divided(total, scored)
    return PlainGroups(
        steps[first], codes[first], size, scored, solved, of_judged, outcomes, mean, of_row
    )


def is_right(rewards: FloatArray) -> FloatArray:
    """[n] 1 for the highest reward of all, 0 for the lowest, NaN in between and where not scored.

    What can be told of right and wrong where no part of the reward says so. Where all rewards are
    equal nothing can be told.
    """
    known = np.isfinite(rewards)
    found = np.full(len(rewards), np.nan)
    if known.any() and rewards[known].min() < rewards[known].max():
        found[rewards == rewards[known].max()] = 1.0
        found[rewards == rewards[known].min()] = 0.0
    return found


def _divided(total: np.ndarray, count: np.ndarray) -> FloatArray:
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
