"""A curve of the user's own: an expression over the columns of the rollouts."""

from __future__ import annotations

import streamlit as st

from board.charts.curves import CurveOptions
from board.components.curve_grid import Card, curve_grid
from board.errors import BoardError
from board.store.run import Run
from board.views import _cached_looks, _page, _state
from board.views._text import one_line, plain

FORM = (
    "Columns of the table of rollouts, numbers, 'texts', + - * / // % **, comparisons, in, and, or, "
    "not, abs, log, exp, sqrt, min, max, contains, missing, col('odd name'). A comparison is 1 or 0, "
    "so that its mean is a share. What is not recorded stays missing."
)


def show(run: Run, options: CurveOptions) -> None:
    """The field, and the curve of what stands in it."""
    st.text_input(
        "Own curve",
        key="own",
        placeholder="an expression, e.g. rewards.correct - 0.1 * is_truncated",
        icon=":material/function:",
        help=plain(FORM, 500),
        persist_state="session",
    )
    text = str(_state.get("own")).strip()
    if not text:
        return
    try:
        drawn = _cached_looks.own_curve(run, text, options, dark=_page.dark())
    except BoardError as error:
        st.error(plain(error, 400), icon=":material/function:")
        return
    card = Card("own", one_line(text, 100), drawn.chart, notes=drawn.notes)
    picked = curve_grid([card], step=_state.get("step"), key=_page.chart_key("curve_own"))
    if picked:
        _open_step(picked.step)


def _open_step(step: int) -> None:
    _state.go("rollouts", step=step, index=0, token=None, scope="step")
