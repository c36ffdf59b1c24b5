"""Which rows of the table of runs are shown: by state, worst finding and format, by words, or by an
expression over what stands in the table.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from board.analysis.run_summary import RunSummary
from board.components.run_table import FilterGroup, FilterOption, RunColumn, RunRow
from board.core.column_names import Meanings
from board.errors import ExpressionError
from board.query.run_filter import SaidAs, matching
from board.views.runs.columns import setting_text
from board.views.runs.names import id_of, meanings_in, name_of, path_of
from board.views.runs.rows import FINDING_SIGNS
from board.views.shared import state
from board.views.shared.text import one_line

_STATES: Final = {
    "live": "live",
    "ended": "ended",
    "stale": "stale",
    "unchanged": "unchanged",
    "waiting": "not indexed yet",
    "error": "can't be read",
}
_SEVERITIES: Final = ("severe", "warning", "lead", "none")
_SIGN: Final = re.compile(
    r"[<>]|==|!=|(?:^|\s)=|=(?:\s|$)|\b(?:contains|missing|in)\b\s*[(\"']", re.IGNORECASE
)
"""What no name of a run has, but an expression."""
_MAY_BE: Final = re.compile(r"\S\s+contains\s+\S|(?:^|[\s(])[^\W\d][\w.]*=\S", re.IGNORECASE)
"""What words can have too."""
_UNKNOWN: Final[Mapping[str, Any]] = dict.fromkeys(
    ("reward", "kl", "truncated", "steps", "rollouts", "problems", "finding", "severity")
)
_PLAIN: Final = re.compile(r"[^\W\d][\w.]*")
_HOUR_SECONDS: Final = 3600.0
_ASSIGNED: Final = re.compile(r"[^=]+=[^=]+")
"""A word that may be a name of a run, and may be an expression."""


def filter_groups(
    rows: Sequence[RunRow], summaries: Sequence[RunSummary | None]
) -> list[FilterGroup]:
    """What rows can be filtered by, with how many there are of each."""
    states = Counter(_state(row) for row in rows)
    findings = Counter(filter(None, map(_severity, summaries)))
    formats = Counter(map(_format, rows))

    def group(
        parameter: str, title: str, counts: Counter[str], words: Mapping[str, str], *, marked: bool
    ) -> FilterGroup:
        chosen: list[str] = state.get(parameter)
        options = [
            FilterOption(value, label, counts[value], value in chosen, value if marked else "")
            for value, label in words.items()
            if counts[value] or value in chosen
        ]
        return FilterGroup(parameter, title, options)

    named = {name: name for name, _ in formats.most_common()}
    return [
        group("runs_state", "State", states, _STATES, marked=True),
        group(
            "runs_finding",
            "Worst finding",
            findings,
            {name: name for name in _SEVERITIES},
            marked=True,
        ),
        group("runs_format", "Format", formats, named, marked=False),
    ]


def _state(row: RunRow) -> str:
    return "waiting" if row.state == "reading" else row.state


def _format(row: RunRow) -> str:
    return str(row.cells["format"].get("text"))


def _note(row: RunRow) -> str:
    return str(row.cells.get("note", {}).get("text", ""))


def _severity(summary: RunSummary | None) -> str:
    if summary is None:
        return ""
    return "none" if summary.worst is None else summary.worst.severity


def passing(
    places: Sequence[int], rows: Sequence[RunRow], summaries: Sequence[RunSummary | None]
) -> list[int]:
    """Those of the places whose rows have one of the chosen values in each group of filters."""
    states, findings, formats = (
        state.get(f"runs_{name}") for name in ("state", "finding", "format")
    )
    return [
        n
        for n in places
        if (not states or _state(rows[n]) in states)
        and (not findings or _severity(summaries[n]) in findings)
        and (not formats or _format(rows[n]) in formats)
    ]


class Searched(NamedTuple):
    """Places of the rows that are found, and why the text can't be read, where it can't."""

    places: list[int]
    refused: str = ""


def search(
    rows: Sequence[RunRow],
    summaries: Sequence[RunSummary | None],
    text: str,
    columns: Mapping[str, RunColumn],
) -> Searched:
    """The rows that a text means: all words in name, format, note and settings, or an expression that
    holds.

    A word with a = inside, as names of runs have it, is a word unless the text can be read as a filter.
    columns: by id, whose heads are names too.
    """
    words = text.lower().split()
    has_sign = _SIGN.search(text) is not None
    may_be = has_sign or _MAY_BE.search(text) is not None
    if not may_be and not any(map(_ASSIGNED.fullmatch, words)):
        return Searched(_with_words(rows, summaries, words))
    try:
        values = _values(rows, summaries)
        return Searched(matching(values, text, _meanings(values, columns), _said(rows)))
    except ExpressionError as error:
        with_words = [] if has_sign else _with_words(rows, summaries, words)
        if with_words or not may_be:
            return Searched(with_words)
        return Searched([*range(len(rows))], f"This filter can't be read: {error}")


def _with_words(
    rows: Sequence[RunRow], summaries: Sequence[RunSummary | None], words: Sequence[str]
) -> list[int]:
    texts = map(_searched_text, rows, summaries)
    return [n for n, own in enumerate(texts) if all(word in own for word in words)]


def _searched_text(row: RunRow, summary: RunSummary | None) -> str:
    parts = [row.name, _format(row), _note(row)]
    if summary is not None:
        parts += [f"{path}={setting_text(value)}" for path, value in summary.settings.items()]
    return "\n".join(parts).lower()


def example(columns: Sequence[RunColumn], summaries: Sequence[RunSummary | None]) -> str:
    """A filter that can be read, over one of the columns' settings where it is a number."""
    for column in columns:
        path = path_of(column.name)
        values = (one.settings.get(path) for one in summaries if one is not None)
        number = next((value for value in values if _is_number(value)), None)
        if path != column.name and number is not None and _PLAIN.fullmatch(path):
            name = column.label if _PLAIN.fullmatch(column.label) else path
            return f"reward > 0.4 and {name} = {setting_text(number)}"
    return "reward > 0.4 and steps > 10"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _values(
    rows: Sequence[RunRow], summaries: Sequence[RunSummary | None]
) -> list[Mapping[str, Any]]:
    """By name what expressions are about: what has a column or a filter, and settings by path, or by the
    id of their column where the path is such a name.
    """
    now = time.time()
    values: list[Mapping[str, Any]] = []
    for row, summary in zip(rows, summaries, strict=True):
        age = max(now - row.cells["changed"].get("at", now), 0.0)
        own = {"name": row.name, "state": _state(row), "format": _format(row)}
        own |= {"note": _note(row), "changed": age / _HOUR_SECONDS}
        own |= _UNKNOWN if summary is None else _known(summary)
        settings = {} if summary is None else summary.settings
        values.append({**own, **{name_of(id_of(path)): settings[path] for path in settings}})
    return values


def _known(summary: RunSummary) -> dict[str, Any]:
    means = {"reward": summary.reward, "kl": summary.kl, "truncated": summary.truncated}
    worst = summary.worst
    return {
        **{name: None if mean is None else mean.mean for name, mean in means.items()},
        "steps": summary.steps,
        "rollouts": summary.rollouts,
        "problems": summary.lost + summary.partial,
        "finding": "none" if worst is None else one_line(worst.title, FINDING_SIGNS),
        "severity": _severity(summary),
    }


def _said(rows: Sequence[RunRow]) -> SaidAs:
    """What the filters and cells say of a value, in any case."""
    return {
        "state": {label.casefold(): ("state", value) for value, label in _STATES.items()},
        "finding": {name: ("severity", name) for name in _SEVERITIES},
        "severity": {name: ("severity", name) for name in _SEVERITIES},
        "format": {name.casefold(): ("format", name) for name in map(_format, rows)},
        "problems": {"none": ("problems", "0")},
    }


def _meanings(values: Sequence[Mapping[str, Any]], columns: Mapping[str, RunColumn]) -> Meanings:
    """What heads of the table mean, and other names of what the rows have."""
    names = dict.fromkeys(name for row in values for name in row)
    heads: dict[str, list[str]] = {}
    for column in columns.values():
        if (name := name_of(column.name)) in names:
            heads.setdefault(column.label, []).append(name)
    return meanings_in(names, heads)
