"""What two or more runs were configured to do differently."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from board.core.column_names import ends_of

OF_EVERY_START: Final = frozenset(("created", "started", "attempt", "name"))
_NAMES_A_RUN: Final = re.compile(
    r"""(^|\.)(
        ((run|experiment|exp|trial|job)_?(name|id)) | (wandb|swanlab|mlflow)[._](run_)?(name|id)
        | ((output|out|save|log|logging|result|work|run|experiment|exp)s?_?(dir|directory|path|folder))
        | ((checkpoint|ckpt)s?_?(dir|directory|folder)) | default_local_dir
        | timestamp | date(time)? | ((start|begin|end|launch)_?(time|date)) | created_at | started_at
    )$""",
    re.IGNORECASE | re.VERBOSE,
)
_ABSENT: Final = object()


@lru_cache(maxsize=1 << 14)
def names_a_run(path: str) -> bool:
    """Whether a setting, by its path, names a run, its folder or its time: that differs between any two
    starts, and says nothing about how a run was set up.
    """
    return path in OF_EVERY_START or _NAMES_A_RUN.search(path) is not None


def differences(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Settings that differ between runs: by path, joined by dots, the value of each run that has it.

    settings: by run the content of its run-*.json. 1 and 1.0 are the same, 1 and true are not; a setting
    that is not there is not the same as null. What names a run is left out, and what another one says.
    """
    flat = {run: dict(flat_settings(content)) for run, content in settings.items()}
    differing: dict[str, dict[str, Any]] = {}
    for key in sorted({key for values in flat.values() for key in values}):
        if names_a_run(key):
            continue
        recorded = {run: values[key] for run, values in flat.items() if key in values}
        if are_different(recorded.values()) or len(recorded) < len(flat):
            differing[key] = recorded
    values = {
        key: [recorded.get(run, _ABSENT) for run in flat] for key, recorded in differing.items()
    }
    return {key: differing[key] for key in said_once(values)}


def said_once(values: Mapping[str, Sequence[Any]]) -> list[str]:
    """The paths of settings but for those that end with another of them and have its values in all runs:
    config.temperature beside temperature.

    values: by path those of each run.
    """
    typed = {path: [*map(_typed, own)] for path, own in values.items()}
    return [
        path for path, own in typed.items() if all(typed.get(end) != own for end in ends_of(path))
    ]


def are_different(values: Iterable[Any]) -> bool:
    """Whether the values of a setting are not all the same."""
    typed = map(_typed, values)
    first = next(typed, None)
    return any(other != first for other in typed)


def _typed(value: Any) -> tuple[bool, str]:
    """What equal values share: 1 and 1.0 do, 1 and true do not."""
    is_number = isinstance(value, int | float)
    return isinstance(value, bool), repr(float(value) if is_number else value)


def flat_settings(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting by its path, joined by dots; lists and empty mappings are one value."""
    for key, value in content.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flat_settings(cast("Mapping[str, Any]", value), f"{path}.")
        else:
            yield path, value
