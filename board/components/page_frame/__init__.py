"""What every page adds in the browser: help on its keys, Enter that opens as O does, and a tooltip.

The help is a `?` button, and the key `?`. It opens at once, while a page is still being computed too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from streamlit.components.v2 import component

from board.components import read_files

_FOLDER: Final = Path(__file__).parent
_FRAME: Final = component(
    "rollout_board_page_frame", html="<i></i>", js=read_files(_FOLDER, "page_frame.js")
)
_KEY_HELP: Final = component(
    "rollout_board_key_help",
    html=read_files(_FOLDER, "key_help.html"),
    css=read_files(_FOLDER, "key_help.css"),
    js=read_files(_FOLDER, "key_help.js"),
    isolate_styles=True,
)


def key_help(sections: Mapping[str, Sequence[tuple[str, str]]], *, key: str) -> None:
    """Draws the button. sections: heading -> (keys separated by spaces, what they do).

    key: letters, digits and hyphens; Streamlit takes nothing else for sure.
    """
    _KEY_HELP(key=key, data={"sections": [[*one] for one in sections.items()]}, height="content")


def page_frame(*, menu: str, key: str) -> None:
    """Draws nothing. menu: the key of a menu whose tooltip is the whole name that is chosen in it."""
    _FRAME(key=key, data={"menu": menu})
