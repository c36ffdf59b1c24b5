"""Step: what contributes to a metric at the step, or the groups of its rollouts."""

from __future__ import annotations

from typing import Final

import streamlit as st

from board.views import _contributions, _page, _sidebar, _state, _step_groups

_PARTS: Final = {"contributions": "Contributions", "groups": "Groups"}


def _render() -> None:
    run = _sidebar.narrowed()
    is_groups = _state.get("part") == "groups"
    _page.header(run)
    st.segmented_control(
        "Part of the page",
        list(_PARTS),
        key="part",
        required=True,
        format_func=lambda name: _PARTS[name],
        label_visibility="collapsed",
        persist_state="session",
    )
    if not _page.has_step(run):
        return
    (_step_groups if is_groups else _contributions).show(run)


_render()
