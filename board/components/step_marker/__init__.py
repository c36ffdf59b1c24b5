"""The line of the chosen step on every curve, drawn beside the figures.

Streamlit mounts a clickable figure anew whenever it changes; a marker inside the figures would redraw
all curves at each step change and undo the reader's zoom.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streamlit.components.v2 import component

_COMPONENT = component(
    "rollout_board_step_marker",
    js=(Path(__file__).parent / "step_marker.js").read_text(encoding="utf-8"),
)
_PLOTS: Final = '[class*="st-key-{prefix}"] .js-plotly-plot'


def step_marker(step: int, *, key_prefix: str) -> None:
    """Marks `step` on the x axis of every plotly chart on the page whose key begins with a prefix.

    It draws nothing of its own, so where it stands does not matter.
    """
    _COMPONENT(
        key="step_marker",
        data={"step": step, "charts": _PLOTS.format(prefix=key_prefix)},
        height=1,
    )
