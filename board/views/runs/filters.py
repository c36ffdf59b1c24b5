"""Filters of the table of runs: by state, worst finding and format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from board.analysis.run_summary import RunSummary
from board.components.run_table import FilterGroup, FilterOption, RunRow
from board.views.shared import state

_STATES: Final = {
    "live": "live",
    "ended": "ended",
    "stale": "stale",
    "unchanged": "unchanged",
    "waiting": "not indexed yet",
    "error": "can't be read",
}
_SEVERITIES: Final = ("severe", "warning", "lead", "none")


def filter_groups(
    rows: Sequence[RunRow], summaries: Sequence[RunSummary | None]
) -> list[FilterGroup]:
    """What rows can be filtered by, with how many there are of each."""
    states = Counter(_state(row) for row in rows)
    findings = Counter(filter(None, map(_severity, summaries)))
    formats = Counter(str(row.cells["format"].get("text")) for row in rows)

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


def _severity(summary: RunSummary | None) -> str:
    if summary is None:
        return ""
    return "none" if summary.finding is None else summary.finding[0]


def passes(row: RunRow, summary: RunSummary | None) -> bool:
    """Whether a row has one of the chosen values in each group of filters."""
    values = {
        "runs_state": _state(row),
        "runs_finding": _severity(summary),
        "runs_format": str(row.cells["format"].get("text")),
    }
    return all(not state.get(name) or value in state.get(name) for name, value in values.items())
