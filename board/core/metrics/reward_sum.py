"""A reward that the log does not have, made of its parts: which, and with which weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_FORM: Final = "expected parts of the reward with their weights, such as correct:1,format:0.5"


@dataclass(frozen=True, slots=True)
class RewardSum:
    """The weighted sum of the parts that a rollout has; without any of them it has no reward.

    parts: names, as rewards has them, with weights.
    """

    parts: tuple[tuple[str, float], ...]

    @property
    def words(self) -> str:
        """What the reward is, for `reward is ...`."""
        names = [name for name, _ in self.parts]
        if any(weight != 1 for _, weight in self.parts):
            return " + ".join(
                name if weight == 1 else f"{weight:g} × {name}" for name, weight in self.parts
            )
        return f"the sum of the parts {listed(names)}" if len(names) > 1 else f"the part {names[0]}"


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def reward_from_text(text: str) -> RewardSum | None:
    """`correct,format:0.5` as a choice, without a weight 1; None where it is empty. Commas in names are
    %2C, percent signs %25. Raises ValueError.
    """
    parts: dict[str, float] = {}
    for entry in filter(None, text.split(",")):
        name, separator, weight = entry.rpartition(":")
        try:
            value = float(weight) if separator else 1.0
        except ValueError:  # a name may have a colon
            name, value = entry, 1.0
        name = (name if separator and name else entry).strip()
        if not name or not math.isfinite(value):
            raise ValueError(_FORM)
        parts[name.replace("%2C", ",").replace("%25", "%")] = value
    return RewardSum((*parts.items(),)) if parts else None


def reward_text(reward: RewardSum | None) -> str:
    """The choice as `reward_from_text` reads it."""
    parts = () if reward is None else reward.parts
    return ",".join(
        f"{name.replace('%', '%25').replace(',', '%2C')}:{weight!r}" for name, weight in parts
    )
