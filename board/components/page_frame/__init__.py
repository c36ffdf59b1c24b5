"""What every page adds in the browser: Enter opens as O does, and the menu of runs has a tooltip."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from streamlit.components.v2 import component

_COMPONENT: Final = component(
    "rollout_board_page_frame",
    html="<i></i>",
    js=(Path(__file__).parent / "page_frame.js").read_text(encoding="utf-8"),
)


def page_frame(*, menu: str, key: str) -> None:
    """Draws nothing. menu: the key of a menu whose tooltip is the whole name that is chosen in it."""
    _COMPONENT(key=key, data={"menu": menu})
