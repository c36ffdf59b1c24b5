"""The line of the chosen step on every curve, drawn beside the figures.

Streamlit mounts a clickable figure anew whenever it changes; a marker inside the figures would redraw
all curves at each step change and undo the reader's zoom. Where a figure has to change, because its run
grew, it is given the zoom that the reader left it with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import plotly.graph_objects as go
import streamlit as st
from streamlit.components.v2 import component

_COMPONENT = component(
    "rollout_board_step_marker",
    js=(Path(__file__).parent / "step_marker.js").read_text(encoding="utf-8"),
)
_PLOTS: Final = '[class*="st-key-{prefix}"] .js-plotly-plot'


_KEY: Final = "step_marker"
_GIVEN: Final = "_zooms_given"


def zoomed(figure: go.Figure, key: str, version: str) -> go.Figure:
    """The figure of a chart with that key, zoomed as the reader left it before `version` of the run.

    Within a version it stays the same whatever the reader does, so that it is not mounted anew.
    """
    given: dict[str, tuple[str, Mapping[str, Any]]] = st.session_state.setdefault(_GIVEN, {})
    if key not in given or given[key][0] != version:
        given[key] = (version, _zooms().get(key, {}) if key in given else {})
    zoom = given[key][1]
    if not zoom:
        return figure
    changed = go.Figure(figure)
    if "x" in zoom:
        changed.update_xaxes(range=zoom["x"])
    if "y" in zoom:
        changed.update_yaxes(range=zoom["y"])
    return changed


def _zooms() -> Mapping[str, Mapping[str, Any]]:
    state = st.session_state.get(_KEY)
    return (state.get("zooms") if isinstance(state, Mapping) else None) or {}


def step_marker(step: int, *, key_prefix: str) -> None:
    """Marks `step` on the x axis of every plotly chart on the page whose key begins with a prefix.

    It draws nothing of its own, so where it stands does not matter.
    """
    _COMPONENT(
        key=_KEY,
        default={"zooms": {}},
        on_zooms_change=lambda: None,
        data={"step": step, "charts": _PLOTS.format(prefix=key_prefix)},
        height=1,
    )
