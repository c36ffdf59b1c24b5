"""What a log holds that could not be used, as a table whose texts are read whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import pandas as pd
import streamlit as st

from board.core.problems import Problem, Severity
from board.views.shared.text import counted

_EFFECTS: Final[Mapping[Severity, str]] = {
    "lost": "not shown",
    "partial": "shown, value left out",
    "note": "shown",
}
# Texts wrap in rows of more than one line; together the widths are a page of 1440 pixels.
_LINE: Final = 21
# Streamlit wraps in rows of more than 64 pixels alone.
_WRAPPED: Final = 66
_LETTERS: Final = 6.4
_MOST_LINES: Final = 6
_WIDTHS: Final = {
    "effect": 150,
    "where (first)": 270,
    "field": 90,
    "what was found": 285,
    "what was expected, or what to do": 240,
    "lines": 60,
}


def table(problems: Iterable[Problem], *, of_whole_files: bool = False) -> None:
    """Draws one row for each kind of problem, however many files have it, without empty columns.

    of_whole_files: none of the files is used, so effect and number of lines say nothing.
    """
    rows: list[dict[str, Any]] = [
        {
            "effect": "not used" if problem.is_of_file else _EFFECTS[problem.severity],
            "where (first)": _where(problem, files),
            "field": problem.field,
            "what was found": problem.reason,
            "what was expected, or what to do": problem.hint or None,
            "lines": problem.count,
        }
        for problem, files in of_kinds(problems)
    ]
    frame = pd.DataFrame(rows).dropna(axis="columns", how="all")
    if of_whole_files:
        frame = frame.drop(columns=["effect", "lines"])
    tall = max(_lines(row[name], name) for row in rows for name in _WIDTHS)
    height = _LINE * min(tall, _MOST_LINES) + 16
    height = max(height, _WRAPPED) if tall > 1 else height
    st.dataframe(
        frame,
        hide_index=True,
        placeholder="–",
        row_height=height,
        height=min(height * len(rows) + 40, 640),
        column_config={
            name: st.column_config.TextColumn(width=width)
            if name != "lines"
            else st.column_config.NumberColumn(width=width, format="localized")
            for name, width in _WIDTHS.items()
            if name in frame
        },
    )


def of_kinds(problems: Iterable[Problem]) -> list[tuple[Problem, int]]:
    """The first problem of each kind with the lines of all files, and how many files have it."""
    kinds: dict[tuple[object, ...], list[Problem]] = {}
    for problem in problems:
        # A whole file is one problem of its own: its name is what matters.
        own = problem.path if problem.line is None else ""
        kind = (problem.severity, problem.field, problem.reason, problem.hint, own)
        kinds.setdefault(kind, []).append(problem)
    return [
        (replace(same[0], count=sum(one.count for one in same)), len({one.path for one in same}))
        for same in kinds.values()
    ]


def _where(problem: Problem, files: int) -> str:
    others = f" and {counted(files - 1, 'more file')}" if files > 1 else ""
    return f"{problem.where}{others}"


def _lines(value: object, name: str) -> int:
    """Lines that a text takes in its column, about."""
    return 1 + int(len(str(value)) * _LETTERS // (_WIDTHS[name] - 16))
