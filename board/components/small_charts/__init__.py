"""Charts of a few values: tiles with a line of a metric's last values, such a line alone, bars of shares.

Plotly and Streamlit's own charts load and run a library of megabytes first, which takes longer than the
rest of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from board.components import declare

Tone = Literal["good", "bad", "change", "none"]
"""good, bad: a change in a direction that most runs want, or not; change: one that is neither; none: no
change to speak of."""

_TILES = declare(
    __file__,
    "tiles",
    '<div class="tiles" role="list"></div>',
    css=["tiles.css"],
    js=["../elements.js", "placed.js", "tiles.js"],
)
_SPARKLINE = declare(
    __file__,
    "sparkline",
    '<svg viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true">'
    '<path fill="currentColor" fill-opacity="0.14"/>'
    '<path fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" '
    'vector-effect="non-scaling-stroke"/></svg>',
    css=["sparkline.css"],
    js=["placed.js", "sparkline.js"],
)
_SHARE_BARS = declare(
    __file__,
    "share_bars",
    '<div class="bars" role="list"></div>',
    css=["share_bars.css"],
    js=["../elements.js", "share_bars.js"],
)


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile, all in words. history: finite values from left to right. ink: CSS colour of their line.

    error: muted, behind the value; note: behind the change. help: the tooltip of the tile.
    """

    label: str
    unit: str
    value: str
    error: str = ""
    change: str = ""
    note: str = ""
    tone: Tone = "none"
    history: Sequence[float] = ()
    ink: str = "currentColor"
    help: str = ""


def tiles(row: Sequence[Tile], *, key: str) -> None:
    """Draws tiles beside each other, and below each other where the page is narrow."""
    _TILES(key=key, data={"tiles": [asdict(tile) for tile in row]}, height="content")


def sparkline(values: Sequence[float], *, key: str) -> None:
    """Draws at least two finite values from left to right, smallest at the bottom."""
    _SPARKLINE(key=key, data={"values": list(values)}, height=46)


def share_bars(bars: Mapping[str, Any], *, key: str) -> None:
    """Draws shares of one whole from top to bottom, each with a tick at what it is compared with.

    bars: what `board.charts.step_charts.shares_chart` returns.
    """
    _SHARE_BARS(key=key, data=dict(bars), height="content")
