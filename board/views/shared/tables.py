"""Tables and cards of numbers, drawn alike on all pages: headings, formats, the table of problems."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal, TypeVar

import numpy as np
import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from board.core.metrics.definitions import rollout_metric
from board.core.metrics.headings import heading as heading
from board.core.metrics.headings import narrow_headings
from board.core.metrics.shares import ROUNDING_NOISE, in_percent
from board.core.problems import Problem
from board.index.discovery.format_detection import LEFT_OUT
from board.query.open_run import Run
from board.query.predicate import names_for
from board.views.shared.text import counted, plain

PERCENT: Final = "%g %%"
"""Format of a column of shares."""
_SMALLEST_FIXED: Final = 1e-3
"""Below it a fixed number of digits is mostly zeros."""
_ROW_PIXELS: Final = 36
_MOST_PIXELS: Final = 13 * _ROW_PIXELS + 3
"""Of a table of which nothing else is said."""
_LATE_SECONDS: Final = 0.5
"""Nobody reacts so soon to rows that changed by themselves: a click was aimed at those before."""
Target = TypeVar("Target")

_EFFECTS: Final = {"lost": "not shown", "partial": "shown, value left out", "note": "shown"}
_PROBLEM_WIDTHS: Final = {
    "effect": 150,
    "where (first)": 270,
    "field": 90,
    "what was found": 285,
    "what was expected, or what to do": 240,
    "lines": 60,
}
"""Pixels of the columns of problems; together a page of 1440."""
_MOST_HEAD_PIXELS: Final = 320
"""Of a longer head, such as the name of a run, the tooltip has the rest."""
_LINE_HEIGHT: Final = 21
_WRAPPED_HEIGHT: Final = 66  # Streamlit wraps in rows of more than 64 pixels alone
_CHARACTER_WIDTH: Final = 6.4
_MOST_LINES: Final = 6


def definition(name: str) -> str:
    """The metric, its formula, and its name in filters. To be escaped as `text` says."""
    metric = rollout_metric(name)
    unit = f", in {metric.unit}" if metric.unit not in ("", "share") else ""
    formula = f" {metric.formula}" if metric.formula else ""
    return f"{metric.label}{unit}.{formula} In filters: {name}."


def headings_of(run: Run) -> dict[str, str]:
    """The words above the columns of rollouts, as filters over the run read them."""
    return narrow_headings(names_for(run.columns))


def width(name: str) -> int:
    """Pixels that the heading takes."""
    return max(60, _head_pixels(heading(name)))


def _head_pixels(head: str) -> int:
    return 6 * len(head) + 17


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, and how it is shown.

    values: [rows]. format: of numbers; PERCENT for shares, of which 1 is 100 %; empty for texts. label:
    by default the column's name. is_bar: shares of one whole have bars. line: values are sequences, drawn
    as small charts between these ends.
    """

    values: Any
    format: str = ""
    label: str | None = None
    width: int | None = None
    help: str | None = None
    alignment: Literal["left", "center", "right"] | None = None
    is_bar: bool = False
    line: tuple[float, float] | None = None

    def config(self, drawn: pd.Series[Any]) -> Any:
        """Streamlit's configuration of it. drawn: the values as the table has them."""
        head = str(drawn.name) if self.label is None else self.label
        pixels, least = self.width, _head_pixels(head)
        look = {
            "label": self.label,
            # Streamlit cuts a head that has no room.
            "width": pixels if pixels is None else max(pixels, min(least, _MOST_HEAD_PIXELS)),
            "help": plain(head, 400)
            if self.help is None and least > _MOST_HEAD_PIXELS
            else self.help,
        }
        if self.line is not None:
            return st.column_config.LineChartColumn(**look, y_min=self.line[0], y_max=self.line[1])
        if not self.format:
            return st.column_config.TextColumn(**look, alignment=self.alignment)
        if not self.is_bar or (drawn < 0).any():  # where signs differ they are no shares
            return st.column_config.NumberColumn(**look, format=self.format)
        ends = {"min_value": 0, "max_value": float(max(drawn.max(), 1e-9))}
        return st.column_config.ProgressColumn(**look, **ends, format=self.format)


def metric_column(name: str, values: pd.Series[Any]) -> Column:
    """A column of means of a metric: shares in percent, others with four significant digits, and an
    exponent where the largest value is tiny.
    """
    sizes = np.abs(pd.to_numeric(values, errors="coerce").to_numpy(np.float64, na_value=np.nan))
    largest = np.max(sizes, initial=0, where=np.isfinite(sizes))
    number_format = "%.2e" if 0 < largest < _SMALLEST_FIXED else "%.4g"
    is_share = rollout_metric(name).unit == "share"
    look = PERCENT if is_share else number_format
    return Column(values, look, heading(name), width(name), plain(definition(name), 600))


def rate_column(rates: Iterable[float | None], scope: str) -> Column:
    """A column of rates of false discoveries. scope: what they are over."""
    texts = [
        None if rate is None or rate != rate else "<0.001" if rate < 0.001 else f"{rate:.3f}"
        for rate in rates
    ]
    words = (
        f"The least rate of false discoveries at which this one counts, over {scope} (Benjamini and "
        "Hochberg 1995)."
    )
    return Column(texts, "", "false discovery rate", 140, words, "right")


def draw(columns: Mapping[str, Column], **options: Any) -> int | None:
    """Draws a table without columns of nothing but missing values and empty texts. Rounding noise is 0.
    options: of `draw_frame`; returns the same.
    """
    frame = pd.DataFrame({name: column.values for name, column in columns.items()})
    for name in frame.select_dtypes("float"):
        frame[name] = frame[name].mask(frame[name].abs() < ROUNDING_NOISE, 0.0)
    for name, column in columns.items():
        if column.format == PERCENT:
            frame[name] = frame[name].astype(float).map(in_percent, na_action="ignore")
    says = frame.notna() & frame.map(lambda value: not isinstance(value, str) or value != "")
    frame = frame.loc[:, says.any()]
    settings = {str(name): columns[str(name)].config(values) for name, values in frame.items()}
    return draw_frame(frame, settings, **options)


@dataclass(slots=True)
class _Targets:
    """What the rows of a table lead to, since when, and what they led to before. clicked: by a click that
    is still to be answered.
    """

    now: Sequence[Any]
    since: float
    before: Sequence[Any] = ()
    clicked: Any = None


def pick(
    columns: Mapping[str, Column], targets: Sequence[Target], *, key: str, **options: Any
) -> Target | None:
    """Draws a table and returns what the row that was clicked leads to; None where none was. targets: of
    the rows. options: of `draw_frame`.

    With one key for whatever rows it has, the table of a page that is live does not blink, and a click is
    on the rows that were shown, not on those that are drawn meanwhile.
    """
    name = f"_targets_{key}"
    targets = [*targets]
    known = st.session_state.get(name)
    if known is None:
        known = st.session_state[name] = _Targets(targets, -math.inf, targets)
    elif known.now != targets:
        known.before, known.now, known.since = known.now, targets, time.monotonic()
    row = draw(columns, key=key, on_select=partial(_note_pick, key, name), **options)
    target, known.clicked = known.clicked, None
    return None if row is None else target


def _note_pick(key: str, name: str) -> None:
    cells, known = st.session_state[key].selection.cells, st.session_state[name]
    seen = known.before if time.monotonic() < known.since + _LATE_SECONDS else known.now
    row = cells[0][0] if cells else len(seen)
    known.clicked = seen[row] if row < len(seen) else None


def draw_frame(
    frame: pd.DataFrame | Styler,
    settings: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
    most_pixels: int = _MOST_PIXELS,
    placeholder: str = "–",
    on_select: Callable[[], None] | Literal["rerun"] = "rerun",
) -> int | None:
    """Draws a table as high as its rows; the position of the row that was clicked, None where none was.
    settings: of Streamlit, by column. key: where rows can be clicked. most_pixels: above that it scrolls.
    on_select: called when a row is clicked, before the page is drawn again.
    """
    height = _ROW_PIXELS * (len(frame.index) + 1) + 3
    event: Any = st.dataframe(
        frame,
        key=key,
        on_select=on_select if key else "ignore",
        selection_mode="single-cell",
        height=min(height, most_pixels),
        hide_index=True,
        row_height=_ROW_PIXELS,
        placeholder=placeholder,
        column_config=dict(settings or {}),
    )
    cells = event.selection.cells if key else []
    return int(cells[0][0]) if cells else None


def cards(entries: Iterable[tuple[str, str, str, str]]) -> None:
    """Cards in a row: of each its label, its value, a line of words below, and its help."""
    entries = [*entries]
    with st.grid(max(len(entries), 4), min_column_width=170, gap="small"):
        for label, value, words, explained in entries:
            with st.container(border=True, height="stretch"):
                st.metric(label, value, help=plain(explained, 600))
                if words:
                    st.caption(plain(words))


def problem_table(problems: Iterable[Problem], *, of_whole_files: bool = False) -> None:
    """Draws one row for each kind of problem, however many files have it, without empty columns; with
    `of_whole_files`, of which none is used, without effect and number of lines.
    """
    rows: list[dict[str, Any]] = []
    for one, files in _by_kind(problems):
        effect = "not used" if one.is_of_file else _EFFECTS[one.severity]
        effect = "left out" if one.reason.startswith(LEFT_OUT) else effect
        where = f"{one.where} and {counted(files - 1, 'more file')}" if files > 1 else one.where
        cells = effect, where, one.field, one.reason, one.hint or None, one.count
        rows.append(dict(zip(_PROBLEM_WIDTHS, cells, strict=True)))
    frame = pd.DataFrame(rows).dropna(axis="columns", how="all")
    if of_whole_files:
        frame = frame.drop(columns=["effect", "lines"])
    lines = max(
        1 + int(len(str(row[name])) * _CHARACTER_WIDTH // (width - 16))
        for row in rows
        for name, width in _PROBLEM_WIDTHS.items()
    )
    height = _LINE_HEIGHT * min(lines, _MOST_LINES) + 16
    height = max(height, _WRAPPED_HEIGHT) if lines > 1 else height
    text, number = st.column_config.TextColumn, st.column_config.NumberColumn
    st.dataframe(
        frame,
        hide_index=True,
        placeholder="–",
        row_height=height,
        height=min(height * len(rows) + 40, 640),
        column_config={
            name: number(width=width, format="localized") if name == "lines" else text(width=width)
            for name, width in _PROBLEM_WIDTHS.items()
            if name in frame
        },
    )


def _by_kind(problems: Iterable[Problem]) -> list[tuple[Problem, int]]:
    """The first problem of each kind with the lines of all files, and how many files have it."""
    kinds: dict[tuple[object, ...], list[Problem]] = {}
    for problem in problems:
        # A whole file is one problem of its own: its name is what matters.
        file = problem.path if problem.line is None else ""
        kind = (problem.severity, problem.field, problem.reason, problem.hint, file)
        kinds.setdefault(kind, []).append(problem)
    return [
        (replace(same[0], count=sum(one.count for one in same)), len({one.path for one in same}))
        for same in kinds.values()
    ]
