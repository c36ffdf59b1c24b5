"""What two or more runs were configured to do differently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

OF_EVERY_START = frozenset(("created", "started", "attempt", "name"))
"""Settings that differ between any two starts, and say nothing about how a run was set up."""


def differences(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Settings that differ between runs: by path, joined by dots, the value of each run that has it.

    settings: by run the content of its run-*.json. 1 and 1.0 are the same, 1 and true are not; a setting
    that is not there is not the same as null. Those of every start are left out.
    """
    flat = {run: dict(flat_settings(content)) for run, content in settings.items()}
    differing: dict[str, dict[str, Any]] = {}
    for key in sorted({key for values in flat.values() for key in values} - OF_EVERY_START):
        recorded = {run: values[key] for run, values in flat.items() if key in values}
        if are_different(recorded.values()) or len(recorded) < len(flat):
            differing[key] = recorded
    return differing


def are_different(values: Iterable[Any]) -> bool:
    """Whether the values of a setting are not all the same."""
    typed = (
        (isinstance(value, bool), repr(float(value) if isinstance(value, int | float) else value))
        for value in values
    )
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
