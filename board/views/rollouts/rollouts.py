"""Rollouts: the list of a step or of the run, and beside it the open rollout; words, winners, labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import plotly.graph_objects as go
import streamlit as st

from board.charts import step_charts
from board.components.rollout_list import Address
from board.export.file_names import file_of
from board.query.open_run import Run
from board.query.outlines import is_outline
from board.query.rollouts import Sorting, frame
from board.views.frame import sidebar
from board.views.labels import labels
from board.views.rollouts import (
    filter_field,
    reader,
    rollout_list,
    share_over_steps,
    winners,
    words,
)
from board.views.rollouts.filter_field import Listed
from board.views.shared import page_export, page_parts, saved_views, state, step_choice, tables
from board.views.shared.rollout_files import Chosen
from board.views.shared.text import distinct_options

_SCOPES: Final = {"step": "This step", "last": "Last 10 steps", "run": "Whole run"}
_CHARTS: Final[Mapping[str, tuple[str, Callable[..., go.Figure | None]]]] = {
    "reward": ("Reward by rollout", step_charts.reward_by_rollout),
    "gap": ("Gap to the reference", step_charts.gap_to_reference),
    "distribution": ("Distribution of the reward", step_charts.reward_distribution),
}
_CHART_COLUMNS: Final = ("step", "index", "reward", "ref_reward", "reward_gap", "group_id", "env")
_LAYOUT: Final = Path(__file__).with_suffix(".css")


def _choose_columns(run: Run) -> None:
    offered = [c for c in run.columns if c not in rollout_list.HIDDEN]
    state.keep("rollouts_columns", offered)
    with st.popover("Columns", icon=":material/view_column:"):
        st.multiselect(
            "Columns shown",
            offered,
            **state.bound("rollouts_columns"),
            format_func=distinct_options(offered, tables.headings_of(run).__getitem__),
            placeholder="the usual ones",
            help="Empty: the usual columns, as many as fit.",
        )


def _offer_export(run: Run, listed: Listed) -> None:
    """The listed rollouts in their order; and the open one, beside that it is compared with."""
    chosen = Chosen("As listed", "listed", listed.run, listed.count, rollout_list.sort_of(run))
    at = _find_opened(run, listed)
    if at is None:
        page_export.offer(file_of(listed.run, "rollouts"), None, listed=chosen)
        return
    file = file_of(run, f"rollout{at.index}", step=at.step)
    page_export.offer(file, reader.page_of(run, at.step, at.index), listed=chosen)


def _find_opened(run: Run, listed: Listed) -> Address | None:
    """The open rollout; after a change of the step the first one of the list there."""
    if step_choice.opens_first() and listed.count:
        step = int(state.get("step"))
        addresses = rollout_list.page_of(run, listed).addresses
        first = next((one.index for one in addresses if one.step == step), None)
        state.put(index=first)
    at = rollout_list.opened()
    if at is None or 0 <= at.index < sidebar.whole().counts.get(at.step, 0):
        return at
    state.ensure("index", [None], None)
    return None


def _show_list(run: Run, listed: Listed) -> None:
    at = _find_opened(run, listed)
    st.html(_LAYOUT)
    with st.container(key="rollouts_work", horizontal=True):
        with st.container(key="rollouts_list"):
            page = rollout_list.page_of(run, listed)
            if listed.count:
                rollout_list.show(run, page, prefix=reader.ahead_prefix(run))
            else:
                st.info("No rollout passes the filter.", icon=":material/filter_alt_off:")
                st.button("Clear the filter", on_click=filter_field.clear)
        if at is not None:
            with st.container(key="rollouts_reader"):
                reader.show(run, at.step, at.index)
    if at is None:
        share_over_steps.show(run, listed)
        _show_charts(run, listed)
    else:
        reader.send_neighbours(run, page, at)


def _show_charts(run: Run, listed: Listed) -> None:
    """One chart at a time: each costs the browser a fifth of a second at a step change."""
    if "reward" not in run.columns or not listed.count:
        return
    is_step = state.get("rollouts_scope") == "step"
    columns = [c for c in _CHART_COLUMNS if c in run.columns] if is_step else ["reward"]
    rows = frame(listed.run, columns, Sorting())
    if rows["reward"].isna().all():
        st.caption("No reward is recorded of these rollouts.")
        return
    # Of several steps: the other charts are over the index within one.
    offered = [*_CHARTS] if is_step else ["distribution"]
    if is_step and "reward_gap" not in rows:
        offered.remove("gap")
    with st.container(border=True):
        if is_step:
            state.ensure("rollouts_chart", offered, offered[0])
            titles = {name: title for name, (title, _) in _CHARTS.items()}
            title, draw = _CHARTS[page_parts.segments("Chart", "rollouts_chart", titles, offered)]
        else:
            title, draw = _CHARTS[offered[0]]
            st.markdown(f"**{title}**")
        figure = draw(rows, dark=page_parts.dark())
        if figure is None:
            st.caption(f"{title}: not recorded for these rollouts.")
            return
        page_parts.draw_figure(figure, f"step_{title}", _open)


def _open(index: int) -> None:
    state.go("rollouts", index=index, token=None, zoom=None)


def _render() -> None:
    run = sidebar.current()
    view = state.get("rollouts_view")
    title = page_parts.header(run, page="rollouts")
    if view != "list" and is_outline(run):
        page_parts.say_reading("This part")
        return
    if view == "labels":
        labels.show(sidebar.narrowed(), title)
        return
    if view != "list":
        (words if view == "words" else winners).show(sidebar.narrowed())
        return
    with title:
        page_parts.segments(
            "Rollouts of", "rollouts_scope", _SCOPES, on_change=state.put, kwargs={"page": 0}
        )
        _choose_columns(run)
        saved_views.offer("rollouts", run.info)
    listed = rollout_list.listed(run)
    _offer_export(run, listed)
    _show_list(run, listed)


_render()
