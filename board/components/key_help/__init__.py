"""A `?` button, and the key `?`, that show what the keys of a page do.

It opens in the browser at once, while a page is still being computed too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from streamlit.components.v2 import component

_FOLDER: Final = Path(__file__).parent
_COMPONENT = component(
    "rollout_board_key_help",
    html=(_FOLDER / "key_help.html").read_text(encoding="utf-8"),
    css=(_FOLDER / "key_help.css").read_text(encoding="utf-8"),
    js=(_FOLDER / "key_help.js").read_text(encoding="utf-8"),
    isolate_styles=True,
)


def key_help(sections: Mapping[str, Sequence[tuple[str, str]]], *, key: str) -> None:
    """Draws the button. sections: heading -> (keys separated by spaces, what they do).

    key: letters, digits and hyphens; Streamlit takes nothing else for sure.
    """
    _COMPONENT(key=key, data={"sections": [[*one] for one in sections.items()]}, height="content")
