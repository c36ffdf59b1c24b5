"""A reward that is an object: what a reward function returned by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

_TOTALS: Final = ("score", "reward")


def named_rewards(reward: Mapping[str, Any]) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Its parts that are numbers or null, its total (its score or reward; None: it has none), and what
    else it holds.
    """
    known = [reward[key] for key in _TOTALS if _is_number(reward.get(key))]
    rest = {k: v for k, v in reward.items() if k not in _TOTALS}
    parts = {key: value for key, value in rest.items() if value is None or _is_number(value)}
    others = {key: value for key, value in rest.items() if key not in parts}
    return parts, known[0] if known else None, others


def is_unscored(value: object) -> bool:
    """Whether a part of a reward was not scored."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_number(value: object) -> bool:
    """Whether it is a number, or one written as text."""
    if not isinstance(value, str):
        return isinstance(value, int | float)
    try:
        float(value)
    except ValueError:
        return False
    return True
