"""What pages look like in common: their header, and charts that open a step when clicked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.charts.layout import PLOTLY_CONFIG
from board.charts.light import LightCurve
from board.components.curve_grid import Card
from board.core.metrics.definitions import rollout_metric
from board.errors import BoardError
from board.query import splits
from board.query.open_run import Run, reader_titles
from board.views.shared import cache, run_settings, state, step_choice
from board.views.shared.text import one_line, plain


def run(page: st.Page) -> None:
    """Runs a page; what it refuses to do becomes a message, never a traceback."""
    try:
        page.run()
    except BoardError as error:
        st.error(plain(error, 600), icon=":material/error:")
    except RecursionError:  # a parser takes a thousand arrays within each other
        st.error("What the log holds here is nested too deep to be shown.", icon=":material/error:")


def dark() -> bool:
    """Whether the page is shown in a dark theme."""
    theme = st.context.theme
    return bool(theme and theme.type == "dark")


def header(run: Run, *, aside: str = "") -> DeltaGenerator:
    """The run's name with its settings, its format, and which part of it is shown.

    aside: words at the right, muted. The row is returned for controls at its right.
    """
    step = state.get("step")
    row = st.container(key="title", horizontal=True, vertical_alignment="center", gap="small")
    with row:
        st.subheader(plain(run.info.name, 200), anchor=False, width="content")
        run_settings.panel(run)
        st.badge(plain(reader_titles(run.info)), color="violet")
        step_choice.in_title(run)
        _split_badge(run)
        for name in run.envs:
            st.badge(plain(f"env {name}", 40), icon=":material/public:", color="green")
        if step is not None and "complete" in run.steps:
            of_step = run.steps[run.steps["step"] == step]
            if len(of_step) and of_step["complete"].iloc[0] is False:
                text = f"step not ended yet{_missing(run.missing_ranks.get(step, ()))}"
                st.badge(text, icon=":material/hourglass_top:", color="orange")
        if aside:
            st.space("stretch")
            st.caption(plain(aside), width="content")
    return row


def _split_badge(run: Run) -> None:
    """Of which split numbers are, where the log has several, or one that is not of training."""
    if run.split is not None:
        st.badge(plain(f"split {run.split}", 40), icon=":material/call_split:", color="green")
        return
    held = cache.split_counts(run)
    if len(held) > 1 and state.get("split") == splits.ALL:
        st.badge("all splits mixed", icon=":material/call_merge:", color="orange")
    if len(held) == 1 and not any(map(splits.is_training, held)):
        name = next(iter(held))
        st.badge(plain(f"split {name}", 40), icon=":material/call_split:", color="green")


def has_step(run: Run) -> bool:
    """Whether the chosen step has a rollout of the chosen environments; says so where it has none."""
    step = int(state.get("step"))
    if run.counts.get(step):
        return True
    st.info(f"No rollout of these environments is at step {step}.", icon=":material/public_off:")
    for other in sorted(run.counts, key=lambda there: abs(there - step))[:1]:
        st.button(
            f"To step {other}",
            icon=":material/arrow_forward:",
            on_click=state.put,
            kwargs={"step": other, "index": None, "token": None, "zoom": None},
        )
    return False


def _missing(ranks: tuple[int, ...]) -> str:
    named = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
    return f" by rank {named}" if ranks else ""


def chart_key(key: str) -> str:
    """The key of a chart. Another run is another chart to Streamlit: a selection is of one only."""
    return f"{key}_{state.get('run')}"


def clickable(figure: go.Figure, *, key: str, field: str, on_pick: Callable[[int], object]) -> None:
    """Draws a figure; a click on a point calls `on_pick` with the whole number in its `field`."""
    event: Any = st.plotly_chart(
        figure,
        key=chart_key(key),
        theme=None,
        on_select="rerun",
        selection_mode="points",
        config=dict(PLOTLY_CONFIG),
    )
    points = event.selection.points
    picked = points[0].get(field) if points else None
    if isinstance(picked, list):
        picked = picked[0] if picked else None
    if isinstance(picked, int | float):
        on_pick(int(picked))


def picked_row(frame: pd.DataFrame, columns: Mapping[str, Any], *, key: str) -> int | None:
    """Draws a table of a few rows; the place of the row that was clicked, None where none was."""
    event: Any = st.dataframe(
        frame,
        key=key,
        hide_index=True,
        row_height=36,
        placeholder="–",
        on_select="rerun",
        selection_mode="single-cell",
        column_config=dict(columns),
    )
    cells = event.selection.cells
    return int(cells[0][0]) if cells else None


def card(
    column: str,
    drawn: LightCurve,
    click: str,
    notes: Sequence[str] = (),
    title: str = "",
    *,
    columns: Sequence[str] = (),
    unit: str = "",
) -> Card:
    """A metric's chart with its label, unit and formula; click: what a click on it does. columns: all
    that are drawn, where there are others besides. unit: other words behind the title.
    """
    metric = rollout_metric(column)
    told = [
        f"{one_line(one.label)}: {one_line(one.formula, 400)}"
        for one in map(rollout_metric, columns or (column,))
        if one.formula
    ]
    source = [one_line(metric.source, 200)] if metric.source else []
    return Card(
        column,
        title or one_line(metric.label),
        drawn.chart,
        unit
        or ("" if metric.unit == "share" or metric.unit in metric.label else one_line(metric.unit)),
        [*told, *source, click],
        [*notes, *drawn.notes],
    )


def not_recorded(columns: Collection[str], needs: Iterable[str]) -> str:
    """What of `needs` a run lacks, as one line; empty where it has all."""
    lacking = [name for name in needs if name not in columns]
    return f"Not recorded in this run: {', '.join(lacking)}." if lacking else ""


def smoothing() -> float:
    """A menu for the smoothing of curves, s in 0..0.99: one for all pages that draw them.

    It begins at none: a spike is what the curves are looked at for, and an average hides it.
    """
    chosen = float(state.get("smooth"))
    with st.popover(f"Smoothing: {chosen:g}" if chosen else "Smoothing: off", key="menu_smooth"):
        st.slider(
            "Smoothing",
            0.0,
            0.99,
            step=0.01,
            key="smooth",
            width=220,
            help="Exponential moving average: each step keeps this share of the one before. The "
            "recorded values stay visible, faint. All pages share it.",
            persist_state="session",
        )
    return float(state.get("smooth"))
