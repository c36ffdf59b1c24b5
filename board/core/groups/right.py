"""Which rollouts are right: what the log says, else the two values that most rewards have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from board.core.metrics.definitions import REWARD_PART

_LEAST_JUDGED: Final = 0.5
"""The two most frequent rewards are those of at least this share of the rollouts, and the second of at
least this share of those that have not the first, or none is judged."""
_LEAST_COUNT: Final = 3
_LEAST_SHARE: Final = 0.01
"""A higher value stands for right if it is no exception: so many rollouts have it, and at least this
share of those that have the higher of the two most frequent."""


@dataclass(frozen=True, slots=True)
class RightRule:
    """column: whose value is the score: a part of the reward, or the reward. Right is a score of
    right_from or more, wrong one of wrong_to or less, what lies between is not judged; NaN where nothing
    can be judged. is_set: by a person.
    """

    column: str
    right_from: float
    wrong_to: float
    is_set: bool = False

    @property
    def text(self) -> str:
        """The rule in a sentence."""
        name = self.column.removeprefix(REWARD_PART)
        if math.isnan(self.right_from):
            return f"no {name} says what is right: set from which value on it is"
        if math.isinf(self.right_from):
            return f"no rollout is right: no {name} is above 0"
        words = f"right means {name} ≥ {self.right_from:g}"
        if self.is_set:
            return f"{words}, as set"
        if math.nextafter(self.right_from, -math.inf) == self.wrong_to:
            return f"{words}, wrong means less"
        return f"{words}, wrong means {name} ≤ {self.wrong_to:g}"


def right_rule(
    column: str, counts: Mapping[float, int], scored: int, threshold: float | None = None
) -> RightRule:
    """Which scores are right, of all rollouts that are compared with one another.

    counts: how many rollouts have each of the most frequent scores; scored: how many have any. threshold:
    from which on a score is right, as a person set it.

    Of a part that says whether an answer is right (one of RIGHT_PARTS), 1 is right where any rollout has
    it, and all else wrong. Else right is the higher and wrong the lower of the two most frequent scores,
    so that no single odd reward decides; unless a still higher one, at more than half of their distance,
    is no exception: of rewards -1 (50 %), 0 (40 %) and 1 (10 %) it is 1 that is right. Of continuous
    rewards, of which the two are less than half, and of equal ones nothing is judged.
    """
    if threshold is not None:
        return RightRule(column, threshold, math.nextafter(threshold, -math.inf), is_set=True)
    is_part = column.startswith(REWARD_PART)
    values = [value for value in counts if counts[value]]
    if is_part and values:
        right_from = _right_of_part(counts, values)
        return RightRule(column, right_from, math.nextafter(right_from, -math.inf))
    if len(values) < 2:
        return RightRule(column, math.nan, math.nan)
    low, high = _modes(counts)
    first, second = sorted((counts[low], counts[high]), reverse=True)
    if first + second < _LEAST_JUDGED * scored or second < _LEAST_JUDGED * (scored - first):
        return RightRule(column, math.nan, math.nan)
    wrong_to, right_from = _raised(counts, low, high)
    return RightRule(column, right_from, wrong_to)


def _right_of_part(counts: Mapping[float, int], values: list[float]) -> float:
    if 1.0 in values:
        return 1.0
    if len(values) == 1:
        return values[0] if values[0] > 0 else math.inf
    return _raised(counts, *_modes(counts))[1]


def _modes(counts: Mapping[float, int]) -> tuple[float, float]:
    """The two most frequent values, ascending; of as frequent ones those nearest to the ends."""
    middle = (min(counts) + max(counts)) / 2
    likeliest = sorted(counts, key=lambda value: (-counts[value], -abs(value - middle), value))
    low, high = sorted(likeliest[:2])
    return low, high


def _raised(counts: Mapping[float, int], low: float, high: float) -> tuple[float, float]:
    while True:
        least = max(_LEAST_SHARE * counts[high], _LEAST_COUNT)
        beyond = [v for v in counts if v > high + (high - low) / 2 and counts[v] >= least]
        if not beyond:
            return low, high
        low, high = high, max(beyond, key=lambda value: (counts[value], value))
