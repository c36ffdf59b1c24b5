"""What two or more runs were configured to do differently, and where they ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from board.core.arrays import FloatArray

OF_EVERY_START = frozenset(("created", "started", "attempt", "name"))
"""Settings that differ between any two starts, and say nothing about how a run was set up."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not the same in all runs. key: path joined by dots. values: by run; a run
    that does not have it is absent, which is not the same as null.
    """

    key: str
    values: Mapping[str, Any]


def differences(settings: Mapping[str, Mapping[str, Any]]) -> list[Difference]:
    """Settings that differ between runs, by their path; lists count as one value.

    settings: by run the content of its run-*.json. 1 and 1.0 are the same, 1 and true are not.
    """
    flat = {run: dict(flat_settings(content)) for run, content in settings.items()}
    keys = dict.fromkeys(key for values in flat.values() for key in values)
    differences: list[Difference] = []
    for key in sorted(keys):
        recorded = {run: values[key] for run, values in flat.items() if key in values}
        if are_different(recorded.values()) or len(recorded) < len(flat):
            differences.append(Difference(key, recorded))
    return differences


def are_different(values: Iterable[Any]) -> bool:
    """Whether the values of a setting are not all the same."""
    typed = ((isinstance(value, bool), repr(_plain(value))) for value in values)
    first = next(typed, None)
    return any(other != first for other in typed)


def flat_settings(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by its path, joined by dots; lists and empty mappings are one value."""
    for key, value in content.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat_settings(cast("Mapping[str, Any]", value), f"{path}.")
        else:
            yield path, value


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, int | float) else value


@dataclass(frozen=True, slots=True)
class Final:
    """Mean of a metric over the last steps that have it, and its standard error over these steps."""

    mean: float
    error: float
    steps: int
    last_step: int | None


def final(steps: Sequence[int], values: FloatArray, last: int = 10) -> Final:
    """Where a curve ended. steps, values: [S]; NaN where not recorded is left out."""
    places = np.flatnonzero(np.isfinite(values))[-last:]
    if not len(places):
        return Final(float("nan"), float("nan"), 0, None)
    recorded = values[places]
    count = len(recorded)
    error = float(recorded.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
    return Final(float(recorded.mean()), error, count, int(steps[int(places[-1])]))
