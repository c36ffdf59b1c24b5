"""Bars of shares of one whole, each with a tick at what it is compared with: a chart of a few rows.

Plotly draws the same after reading a script of 4.7 MB, which takes longer than the rest of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from streamlit.components.v2 import component

from board.components import read_files

_FOLDER: Final = Path(__file__).parent
_COMPONENT = component(
    "rollout_board_share_bars",
    html='<div class="bars" role="list"></div>',
    css=read_files(_FOLDER, "share_bars.css"),
    js=read_files(_FOLDER, "share_bars.js"),
    isolate_styles=True,
)


def share_bars(bars: Mapping[str, Any], *, key: str) -> None:
    """Draws the rows from top to bottom. bars: a `board.charts.step_charts.ShareBars` as a dict.

    key: letters, digits and hyphens; Streamlit takes nothing else for sure.
    """
    _COMPONENT(key=key, data=dict(bars), height="content")
