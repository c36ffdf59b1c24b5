"""A curve of the user's own: an expression over the columns of the rollouts."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from board.charts.curves import CurveOptions
from board.components.curve_grid import Card, Mark, curve_grid
from board.errors import BoardError
from board.query.open_run import Run
from board.views.shared import cache, curve_marks, page_parts, state
from board.views.shared.text import one_line, plain

FORM = (
    "An expression over the rollouts, averaged by step: columns, numbers, + - * / // % **, comparisons, "
    'contains "a text", in (a, b), and, or, not, abs, log, exp, sqrt, min, max, missing, '
    'col("odd name"). A comparison is 1 or 0, so its mean is a share. Texts are whole. Missing values '
    "stay missing."
)


def show(run: Run, options: CurveOptions, marks: Sequence[Mark]) -> None:
    """The field, and the curve of what stands in it."""
    st.text_input(
        "Own curve",
        key="own",
        placeholder="an expression, e.g. rewards.correct - 0.1 * is_truncated",
        icon=":material/function:",
        help=plain(FORM, 500),
        persist_state="session",
    )
    text = str(state.get("own")).strip()
    if not text:
        return
    try:
        drawn = cache.own_curve(run, text, options, dark=page_parts.dark())
    except BoardError as error:
        st.error(plain(error, 400), icon=":material/function:")
        return
    card = Card("own", one_line(text, 100), drawn.chart, notes=drawn.notes)
    picked = curve_grid(
        [card], step=state.get("step"), key=page_parts.chart_key("curve_own"), marks=marks
    )
    if picked and picked.mark:
        curve_marks.open_mark(picked.mark)
    if picked:
        _open_step(picked.step)


def _open_step(step: int) -> None:
    state.go("rollouts", step=step, index=None, token=None, scope="step")
