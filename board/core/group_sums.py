"""Groups boiled down to a few numbers each, so that what is asked of a run need not look at its rollouts.

What is right is known only when the whole run is: the highest value of all. So a group keeps its own
extremes and how many rollouts are at them, and `groups_from` compares those with the run's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from board.core.groups import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Extremes:
    """Of a number, by group: how many are known (finite), the lowest and the highest of them (NaN where
    none is), and how many are equal to these. Arrays [groups].
    """

    known: IntArray
    low: FloatArray
    high: FloatArray
    at_low: IntArray
    at_high: IntArray


@dataclass(frozen=True, slots=True)
class GroupSums:
    """One entry per group of a step, ordered by step and code; of rollouts without a group one per step,
    of code -1, since they count in the run's extremes. Arrays [groups].

    size: rollouts. total: sum of their finite rewards. parts: extremes of other scores, by name.
    """

    steps: IntArray
    codes: IntArray
    size: IntArray
    total: FloatArray
    reward: Extremes
    parts: Mapping[str, Extremes] = field(default_factory=dict[str, Extremes])


def group_order(steps: IntArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Rows ordered by step and code, and where each group begins among them.

    steps: [n] ascending; codes: [n], below 0 for none. Ties stay in their order.
    """
    places = np.arange(len(steps))
    if not len(steps):
        return places, places
    of_step = np.cumsum(np.append(0, np.diff(steps) != 0))
    keys = of_step * (int(codes.max()) + 2) + np.maximum(codes, -1) + 1
    if (np.diff(keys) < 0).any():
        places = np.argsort(keys, kind="stable")
        keys = keys[places]
    return places, np.flatnonzero(np.append(True, np.diff(keys) != 0))


def group_sums(
    steps: IntArray,
    codes: IntArray,
    rewards: FloatArray,
    parts: Mapping[str, FloatArray] | None = None,
) -> GroupSums:
    """The groups of these rollouts. steps: [n] ascending; codes, rewards, parts: as in groups_of."""
    order, starts = group_order(steps, codes)
    first = order[starts]
    total = np.zeros(0)
    if len(starts):
        values = rewards[order]
        total = np.add.reduceat(np.where(np.isfinite(values), values, 0.0), starts)
    return GroupSums(
        steps[first],
        np.maximum(codes[first], -1),
        np.diff(np.append(starts, len(order))),
        total,
        _extremes(rewards, order, starts),
        {name: _extremes(part, order, starts) for name, part in (parts or {}).items()},
    )


def _extremes(values: FloatArray, order: IntArray, starts: IntArray) -> Extremes:
    if not len(starts):
        none = np.zeros(0, np.int64)
        return Extremes(none, np.zeros(0), np.zeros(0), none, none)
    ordered = values[order]
    finite = np.isfinite(ordered)
    known = np.add.reduceat(finite, starts, dtype=np.int64)
    size = np.diff(np.append(starts, len(order)))
    low = np.minimum.reduceat(np.where(finite, ordered, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, ordered, -np.inf), starts)
    return Extremes(
        known,
        np.where(known > 0, low, np.nan),
        np.where(known > 0, high, np.nan),
        np.add.reduceat(ordered == np.repeat(low, size), starts, dtype=np.int64),
        np.add.reduceat(ordered == np.repeat(high, size), starts, dtype=np.int64),
    )


def judged_by_reward(
    reward: Extremes, lowest: float, highest: float
) -> tuple[IntArray, FloatArray]:
    """([groups] judged rollouts, [groups] those that are right): see groups.is_right.

    lowest, highest: reward of the whole run, NaN without one.
    """
    none = np.zeros(len(reward.known), np.int64)
    if not lowest < highest:
        return none, none.astype(np.float64)
    right = np.where(reward.high == highest, reward.at_high, 0)
    wrong = np.where(reward.low == lowest, reward.at_low, 0)
    return right + wrong, right.astype(np.float64)


def judged_by_part(part: Extremes, lowest: float, highest: float) -> tuple[IntArray, FloatArray]:
    """As judged_by_reward, by a part of the reward.

    A part that is the same 0 or less throughout was never earned: nothing is right then.
    """
    if lowest == highest <= 0:
        return part.known, np.zeros(len(part.known))
    return part.known, np.where(part.high == highest, part.at_high, 0).astype(np.float64)
