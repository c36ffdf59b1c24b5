"""Settings as columns of the table of runs: which of them differ, and what they are called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from board.core.run_differences import OF_EVERY_START, are_different

_MOST_SHOWN: Final = 4
_LEAST_SHARE: Final = 0.5
"""Of the runs with settings, those that record a setting before it is a column of its own accord."""
_ABOUT_THE_MACHINE: Final = ("versions.", "tokenizer.", "world_size", "start_step", "digits")
_FIRST: Final = (
    *("learning_rate", "lr", "beta", "kl_coef", "kl_weight", "temperature", "loss_type"),
    *("num_generations", "group_size", "epsilon", "clip", "model", "seed"),
)
"""Names that a reader of such a table looks for, in this order."""

Settings = Mapping[str, Any]


def differing(runs: Iterable[Settings]) -> list[str]:
    """Paths of settings that are not the same in all runs that record them: those first that runs are
    most often told apart by, then those that most runs record.
    """
    recorded = [settings for settings in runs if settings]
    values: dict[str, list[Any]] = {}
    for settings in recorded:
        for path, value in settings.items():
            if path not in OF_EVERY_START:
                values.setdefault(path, []).append(value)
    found = [path for path, own in values.items() if are_different(own)]
    return sorted(found, key=lambda path: (*prominence(path), -len(values[path]), path))


def prominence(path: str) -> tuple[bool, int]:
    """Sort key under which settings that are looked for come first, and those of the machine last."""
    name = path.rpartition(".")[2]
    known = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    return path.startswith(_ABOUT_THE_MACHINE), known


def shown_by_default(paths: Sequence[str], runs: Collection[Settings]) -> list[str]:
    """Those of the differing settings that are columns unless others are chosen."""
    least = _LEAST_SHARE * sum(1 for settings in runs if settings)
    usual = [path for path in paths if not path.startswith(_ABOUT_THE_MACHINE)]
    common = [path for path in usual if sum(path in settings for settings in runs) >= least]
    return common[:_MOST_SHOWN]


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """By path the last part of it, or all of it where two end alike."""
    known = [*paths]
    ends = [path.rpartition(".")[2] for path in known]
    return {
        path: end if ends.count(end) == 1 else path for path, end in zip(known, ends, strict=True)
    }


def setting_text(value: Any) -> str:
    """A value as configs have it: 3e-6, true, dapo."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e+")
    return "null" if value is None else str(value)
