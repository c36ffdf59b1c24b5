"""What every page adds in the browser: help on its keys, Enter that opens as O does, and a tooltip.

The help is a `?` button, and the key `?`. It opens at once, while a page is still being computed too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from board.components import declare, read_files

_FRAME = declare(__file__, "page_frame", "<i></i>", js=["page_frame.js"])
_HELP_MARKUP: Final = read_files(__file__, ["key_help.html"])
_KEY_HELP = declare(__file__, "key_help", _HELP_MARKUP, css=["key_help.css"], js=["key_help.js"])


def key_help(sections: Mapping[str, Sequence[tuple[str, str]]], *, key: str) -> None:
    """Draws the button. sections: heading -> (keys separated by spaces, what they do)."""
    _KEY_HELP(key=key, data={"sections": [[*one] for one in sections.items()]}, height="content")


def page_frame(*, menu: str, key: str) -> None:
    """Draws nothing. menu: the key of a menu whose tooltip is the whole name that is chosen in it."""
    _FRAME(key=key, data={"menu": menu})
