"""What pages look like in common: their header, and charts that open a step when clicked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import plotly.graph_objects as go
import streamlit as st

from board.errors import BoardError
from board.store.run import Run, reader_titles
from board.views import _state
from board.views._text import plain

CHART_CONFIG: Final = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["lasso2d", "select2d", "autoScale2d"],
}


def run(page: st.Page) -> None:
    """Runs a page; what it refuses to do becomes a message, never a traceback."""
    try:
        page.run()
    except BoardError as error:
        st.error(plain(error, 600), icon=":material/error:")


def dark() -> bool:
    """Whether the page is shown in a dark theme."""
    theme = st.context.theme
    return bool(theme and theme.type == "dark")


def header(run: Run) -> None:
    """The run's name and what is looked at."""
    step = _state.get("step")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"## {plain(run.info.name, 80)}", width="content")
        st.badge(plain(reader_titles(run.info)), color="violet")
        st.badge(f"step {step}", color="blue")
        if step is not None and "complete" in run.steps:
            row = run.steps[run.steps["step"] == step]
            if len(row) and row["complete"].iloc[0] is False:
                st.badge("step still growing", icon=":material/hourglass_top:", color="orange")


def clickable(figure: go.Figure, *, key: str, on_step: Callable[[int], None]) -> None:
    """Draws a figure over steps; a click on it calls `on_step` with the step clicked."""
    event: Any = st.plotly_chart(
        figure,
        key=f"{key}_{_state.get('run')}_{_state.get('step')}",
        on_select="rerun",
        selection_mode="points",
        config=CHART_CONFIG,
    )
    points = event.selection.points
    if points and isinstance(points[0].get("x"), int | float):
        on_step(int(points[0]["x"]))
