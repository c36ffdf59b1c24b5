"""Bars of shares of one whole, each with a tick at what it is compared with: a chart of a few rows.

Plotly draws the same after reading a script of 4.7 MB, which takes longer than the rest of the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from board.components import declare

_COMPONENT = declare(
    "share_bars",
    Path(__file__).parent,
    '<div class="bars" role="list"></div>',
    css=["share_bars.css"],
    js=["share_bars.js"],
)


def share_bars(bars: Mapping[str, Any], *, key: str) -> None:
    """Draws the rows from top to bottom. bars: what `board.charts.step_charts.shares_chart` returns."""
    _COMPONENT(key=key, data=dict(bars), height="content")
