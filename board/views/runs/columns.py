"""The columns of the table of runs: the usual ones, and settings that differ between the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from board.charts.palette import colour
from board.components.run_table import RunColumn
from board.core.metrics.definitions import rollout_metric
from board.core.metrics.recent import WINDOW
from board.core.run_differences import OF_EVERY_START, are_different, names_a_run, said_once
from board.views.runs.headings import cut_names, signs_for
from board.views.runs.names import OTHER_NAMES, id_of, is_setting, path_of, typed_names
from board.views.shared.text import one_line

_LAST_STEPS: Final = f"last {WINDOW} steps, mean"
_ON_REQUEST: Final = frozenset(("problems",))
"""Columns of what another column says too."""
_LEAST_SETTING, _MOST_SETTING = 34, 140
_SIGN, _HEAD_SIGN, _WORD_SIGN = 7.0, 6.0, 7.0
"""Pixels: of a column of settings, and of a sign of a value, of a head and of a word."""
_MOST_VISIBLE: Final = 3
"""More make the table wider than a window of 1,440 pixels."""
_ABSENT: Final = object()
_LEAST_SHARE: Final = 0.5
"""Of the runs with settings, those that record a setting before it is a column of its own accord."""
_ABOUT_THE_MACHINE: Final = ("versions.", "tokenizer.", "world_size", "start_step", "digits")
_FIRST: Final = (
    *("learning_rate", "lr", "beta", "kl_coef", "kl_weight", "temperature", "loss_type"),
    *("num_generations", "group_size", "epsilon", "clip", "model", "seed"),
)
"""Names that a reader of such a table looks for, in this order."""


class Columns(NamedTuple):
    """by_id: all that there are, in their order. visible: ids of those that are drawn. settings: paths of
    the settings among these.
    """

    by_id: Mapping[str, RunColumn]
    visible: Sequence[str]
    settings: Sequence[str]


def choose_columns(
    runs: Sequence[Mapping[str, Any]],
    formats: Collection[str],
    wanted: Sequence[str],
    sort: str,
    *,
    dark: bool,
) -> Columns:
    """The columns of runs with these settings and formats.

    wanted: ids of those that somebody chose; where there are none, the usual ones, and settings that
    most runs record and that differ. sort: id of the one that is sorted by, which is always visible.
    """
    differ = differing(runs)
    asked = [path_of(column) for column in wanted if is_setting(column)]
    others = [path for path in asked if path not in differ and any(path in run for run in runs)]
    names = typed_names(
        short_names([*differ, *others]), dict.fromkeys(path for run in runs for path in run)
    )
    columns = _all_columns(names, dark=dark)
    words = [len(word) for name in formats for word in name.split()]
    width = int(min(max(words, default=0) * _WORD_SIGN, _MOST_SETTING))
    columns["format"] = replace(columns["format"], width=width)
    visible = {name for name in columns if name in wanted}
    if visible:  # what somebody chose is there however narrow the table is
        columns = {name: replace(column, roomy=False) for name, column in columns.items()}
    else:
        usual = {*map(id_of, visible_by_default(differ, runs))}
        visible = columns.keys() - ({*map(id_of, names), *_ON_REQUEST} - usual)
    visible |= {"name", sort} & columns.keys()
    settings = [path for path in names if id_of(path) in visible]
    for path in settings:
        head = columns[id_of(path)].label
        width = _width(head, [setting_text(run[path]) for run in runs if path in run])
        columns[id_of(path)] = replace(
            columns[id_of(path)],
            width=width,
            group="settings that differ",
            of=len(differ),
            spare=not wanted,
        )
    return Columns(columns, [name for name in columns if name in visible], settings)


def _all_columns(names: Mapping[str, str], *, dark: bool) -> dict[str, RunColumn]:
    """All columns by id, in their order. names: of settings, by path."""
    kl, cut = rollout_metric("k3_mean"), rollout_metric("is_truncated")
    mean = f"Mean over the last {WINDOW} steps"
    line = "the line is all steps"
    reward = f"{mean}, and its change from the {WINDOW} before where there are so many; {line}"
    finding = (
        "Of the rules that need the index alone; Findings checks tokens and texts too. Below it "
    )
    finding += "how many lines were not used, and values left out"
    usual = (
        RunColumn("name", "run", "Path below the folder", 200, "name"),
        RunColumn("format", "format", "What wrote the log", 52, "text", roomy=True),
        RunColumn("steps", "steps", "Steps that the log holds", 36, roomy=True),
        RunColumn("rollouts", "rollouts", "Rollouts that are shown, of all splits", 52, roomy=True),
        _line_column("reward", "reward", reward, 132, colour("reward", dark=dark)),
        _line_column("kl", kl.label, f"{mean}; {line}. {kl.formula}", 108, colour("kl", dark=dark)),
        RunColumn("truncated", "truncated", f"{mean}: {cut.formula}", 52, "number", _LAST_STEPS),
        RunColumn("finding", "worst finding", finding, 112, "chip"),
        RunColumn("problems", "problems", "Lines not used, and values left out", 54),
    )
    heads = cut_names({path: one_line(name, 200) for path, name in names.items()})
    own = [
        RunColumn(id_of(path), head, one_line(path, 200), _LEAST_SETTING)
        for path, head in heads.items()
    ]
    when = "When a file of the run changed last; a filter has it in hours"
    changed = RunColumn("changed", "changed", when, 56, "age")
    return {column.name: column for column in (*usual, *own, changed)}


def _line_column(name: str, label: str, about: str, width: int, ink: str) -> RunColumn:
    return RunColumn(name, label, about, width, "line", _LAST_STEPS, ink)


def _width(name: str, texts: Sequence[str]) -> int:
    """Pixels for the longest value, and for the head in two lines."""
    values = max(map(len, texts), default=0) * _SIGN
    head = (signs_for(name) + 1) * _HEAD_SIGN
    return int(min(max(values, head, _LEAST_SETTING), _MOST_SETTING))


def differing(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Paths of settings that are not the same in all runs that record them: those first that runs are
    most often told apart by, then those that most runs record.
    """
    recorded = [settings for settings in runs if settings]
    values: dict[str, list[Any]] = {}
    for settings in recorded:
        for path, value in settings.items():
            if path not in OF_EVERY_START:
                values.setdefault(path, []).append(value)
    differing = [path for path, own in values.items() if are_different(own)]
    return sorted(differing, key=lambda path: (*prominence(path), -len(values[path]), path))


def prominence(path: str) -> tuple[bool, int]:
    """Sort key under which settings that are looked for come first, and those of the machine last."""
    name = path.rpartition(".")[2]
    known = _FIRST.index(name) if name in _FIRST else len(_FIRST)
    return path.startswith(_ABOUT_THE_MACHINE), known


def is_looked_for(path: str) -> bool:
    """Whether a setting has one of the names that a reader of such a table looks for."""
    return path.rpartition(".")[2] in _FIRST


def visible_by_default(paths: Sequence[str], runs: Collection[Mapping[str, Any]]) -> list[str]:
    """Those of the differing settings that are columns unless others are chosen."""
    least = _LEAST_SHARE * sum(1 for settings in runs if settings)
    usual = (
        path for path in paths if not (path.startswith(_ABOUT_THE_MACHINE) or names_a_run(path))
    )
    common = [path for path in usual if sum(path in settings for settings in runs) >= least]
    values = {path: [settings.get(path, _ABSENT) for settings in runs] for path in common}
    return said_once(values)[:_MOST_VISIBLE]


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """By path the last part of it, or all of it where two end alike or another column is called so."""
    ends = {path: path.rpartition(".")[2] for path in paths}
    counts = Counter(end.casefold() for end in ends.values())
    counts.update(OTHER_NAMES)
    return {
        path: end
        if counts[end.casefold()] == 1
        else id_of(path)
        if path.casefold() in OTHER_NAMES
        else path
        for path, end in ends.items()
    }


def setting_text(value: Any) -> str:
    """A value as configs have it: 3e-6, true, dapo."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e+")
    return "null" if value is None else str(value)
