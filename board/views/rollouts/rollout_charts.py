"""Charts of the rollouts that the list holds, below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from board.charts import step_charts
from board.charts.layout import notes_of
from board.query.open_run import Run
from board.query.rollouts import Sorting, frame
from board.views.rollouts.rollout_list import Listed
from board.views.shared import page_parts, state
from board.views.shared.text import plain

_CHARTS: Final[Mapping[str, tuple[str, Callable[..., go.Figure | None]]]] = {
    "reward": ("Reward by rollout", step_charts.reward_by_rollout),
    "gap": ("Gap to the reference", step_charts.gap_to_reference),
    "distribution": ("Distribution of the reward", step_charts.reward_distribution),
}
_COLUMNS: Final = ("step", "index", "reward", "ref_reward", "reward_gap", "group_id", "env")
_ACROSS_STEPS: Final = ("distribution",)
"""Charts of rollouts of several steps: the others are drawn over the index within one."""


def show(run: Run, listed: Listed) -> None:
    """One chart at a time: each costs the browser a fifth of a second at a step change."""
    if "reward" not in run.columns or not len(listed):
        return
    is_step = state.get("scope") == "step"
    columns = [c for c in _COLUMNS if c in run.columns] if is_step else ["reward"]
    rows = frame(listed.selection, columns, Sorting())
    if rows["reward"].isna().all():
        st.caption("No reward is recorded of these rollouts.")
        return
    offered = [
        name
        for name in (_CHARTS if is_step else _ACROSS_STEPS)
        if name != "gap" or "reward_gap" in rows
    ]
    name = state.get("chart") if state.get("chart") in offered else offered[0]
    with st.container(border=True):
        if len(offered) > 1:
            state.ensure("chart", offered, offered[0])
            st.segmented_control(
                "Chart",
                offered,
                key="chart",
                required=True,
                format_func=lambda one: _CHARTS[one][0],
                label_visibility="collapsed",
                persist_state="session",
            )
        else:
            st.markdown(f"**{_CHARTS[name][0]}**")
        _draw(name, rows)


def _draw(name: str, rows: pd.DataFrame) -> None:
    title, draw = _CHARTS[name]
    figure = draw(rows, dark=page_parts.dark())
    if figure is None:
        st.caption(f"{title}: not recorded for these rollouts.")
        return
    page_parts.clickable(figure, key=f"step_{title}", field="customdata", on_pick=_open)
    for note in notes_of(figure):
        st.caption(plain(note))


def _open(index: int) -> None:
    state.go("rollouts", index=index, token=None, zoom=None)
