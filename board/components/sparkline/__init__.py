"""A small line of a metric's last values, for a card.

Streamlit's own loads and runs a library of charts first, which takes longer than the rest of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from streamlit.components.v2 import component

from board.components import read_files

Tone = Literal["green", "red", "gray"]

_FOLDER: Final = Path(__file__).parent
_PICTURE: Final = (
    '<svg viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true">'
    '<path fill="currentColor" fill-opacity="0.14"/>'
    '<path fill="none" stroke="currentColor" stroke-width="2" stroke-linejoin="round" '
    'vector-effect="non-scaling-stroke"/></svg>'
)
_COMPONENT = component(
    "rollout_board_sparkline",
    html=_PICTURE,
    css="svg { display: block; width: 100%; height: 46px; }",
    js=read_files(_FOLDER, "sparkline.js"),
    isolate_styles=True,
)


def sparkline(values: Sequence[float], *, tone: Tone, key: str) -> None:
    """Draws at least two finite values from left to right, smallest at the bottom.

    key: letters, digits and hyphens; Streamlit takes nothing else for sure.
    """
    _COMPONENT(key=key, data={"values": list(values), "tone": tone}, height=46)
