"""Tiles with a number, its change and a line of its last values: a row of them is one element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from streamlit.components.v2 import component

from board.components import read_files

Tone = Literal["good", "bad", "change", "none"]
"""good, bad: a change in a direction that most runs want, or not; change: one that is neither; none: no
change to speak of."""

_FOLDER: Final = Path(__file__).parent
_COMPONENT = component(
    "rollout_board_tiles",
    html='<div class="tiles" role="list"></div>',
    css=read_files(_FOLDER, "tiles.css"),
    js=read_files(_FOLDER, "tiles.js"),
    isolate_styles=True,
)


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile, all in words. history: finite values from left to right. ink: CSS colour of their line.

    note: stands muted behind the change. help: shown while the pointer rests on the tile.
    """

    label: str
    unit: str
    value: str
    change: str = ""
    note: str = ""
    tone: Tone = "none"
    history: Sequence[float] = ()
    ink: str = "currentColor"
    help: str = ""


def tiles(row: Sequence[Tile], *, key: str) -> None:
    """Draws tiles beside each other, and below each other where the page is narrow."""
    _COMPONENT(key=key, data={"tiles": [asdict(tile) for tile in row]}, height="content")
