"""Step: what contributes to a metric at the step, or the groups of its rollouts."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.views.frame import sidebar
from board.views.shared import page_parts, state
from board.views.step import contributions, groups

_PARTS: Final = {"contributions": "Contributions", "groups": "Groups"}


def _render() -> None:
    run = sidebar.narrowed()
    is_groups = state.get("part") == "groups"
    page_parts.header(run)
    st.segmented_control(
        "Part of the page",
        list(_PARTS),
        key="part",
        required=True,
        format_func=lambda name: _PARTS[name],
        label_visibility="collapsed",
        persist_state="session",
    )
    if not page_parts.has_step(run):
        return
    (groups if is_groups else contributions).show(run)


_render()
