"""Runs side by side: where their settings differ, and how far their metrics came."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from board.core.kl import FloatArray

_OF_EVERY_START: Final = frozenset(("created", "started", "attempt", "start_step"))
"""Differ between any two starts, and say nothing about how a run was set up."""


def flat(settings: Mapping[str, Any]) -> dict[str, str]:
    """Nested settings as one level: {"config": {"lr": 1}} -> {"config.lr": "1"}; values as JSON."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            inner = flat(cast("Mapping[str, Any]", value))
            found |= {f"{key}.{name}": told for name, told in inner.items()}
        else:
            found[str(key)] = json.dumps(value, ensure_ascii=False, default=str)
    return found


def differences(settings: Sequence[Mapping[str, Any]]) -> dict[str, list[str | None]]:
    """By setting that is not the same in all runs, its value in each; None where a run has none.

    What only tells one start from another (time, attempt) is left out.
    """
    sides = [flat(one) for one in settings]
    names = dict.fromkeys(name for side in sides for name in side if name not in _OF_EVERY_START)
    values = {name: [side.get(name) for side in sides] for name in names}
    return {name: row for name, row in values.items() if len(set(row)) > 1}


@dataclass(frozen=True, slots=True)
class Ending:
    """mean: over the last `steps` recorded steps, NaN without any. last: the step of the newest."""

    mean: float
    steps: int
    last: int | None


def ending(steps: np.ndarray[Any, np.dtype[np.int64]], values: FloatArray, window: int) -> Ending:
    """How a curve ends. steps, values: [S], NaN where not recorded; window: steps at most."""
    known = np.flatnonzero(np.isfinite(values))[-window:]
    if not len(known):
        return Ending(float("nan"), 0, None)
    return Ending(float(values[known].mean()), len(known), int(steps[known[-1]]))
