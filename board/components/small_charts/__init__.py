"""Charts of a few values: tiles with a line of a metric's last values, such a line alone, bars of shares.

Plotly and Streamlit's own charts load a library of megabytes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from board.components import declare

Tone = Literal["good", "bad", "change", "none"]
"""good, bad: a change as most runs want it, or not; change: neither; none: no change to speak of."""

_LIST: Final = '<div class="{}" role="list"></div>'
_TILES = declare(
    __file__, "tiles", _LIST.format("tiles"), js=["../elements.js", "placed.js", "tiles.js"]
)
_SHARE_BARS = declare(
    __file__, "share_bars", _LIST.format("bars"), js=["../elements.js", "share_bars.js"]
)
_SPARKLINE = declare(
    __file__,
    "sparkline",
    '<svg viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true">'
    '<path fill="currentColor" fill-opacity="0.14"/>'
    '<path fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" '
    'vector-effect="non-scaling-stroke"/></svg>',
    js=["placed.js", "sparkline.js"],
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
    """Draws shares of one whole, with ticks at what they are compared with. bars: of `shares_chart`."""
    _SHARE_BARS(key=key, data=dict(bars), height="content")
