"""Bars of shares of one whole, each with a tick at what it is compared with: a chart of a few rows.

Plotly draws the same after reading a script of 4.7 MB, which takes longer than the rest of the page.
Names go onto the page as text nodes only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from streamlit.components.v2 import component

_FOLDER: Final = Path(__file__).parent
_COMPONENT = component(
    "rollout_board_share_bars",
    html='<div class="bars" role="list"></div>',
    css=(_FOLDER / "share_bars.css").read_text(encoding="utf-8"),
    js=(_FOLDER / "share_bars.js").read_text(encoding="utf-8"),
    isolate_styles=True,
)


def share_bars(bars: Mapping[str, Any], *, key: str) -> None:
    """Draws the rows from top to bottom. bars: a `board.charts.share_charts.ShareBars` as a dict.

    key: letters, digits and hyphens; Streamlit takes nothing else for sure.
    """
    _COMPONENT(key=key, data=dict(bars), height="content")
