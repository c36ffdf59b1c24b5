"""What every page adds in the browser: help on its keys, Enter that opens as O does, and a tooltip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from board.components import declare, read_files

_FRAME = declare(__file__, "page_frame", "<i></i>", css=())
_PAGE_MENU = declare(__file__, "page_menu", read_files(__file__, ["page_menu.html"]))
_KEY_HELP = declare(__file__, "key_help", read_files(__file__, ["key_help.html"]))


def key_help(sections: Mapping[str, Sequence[tuple[str, str]]], *, key: str) -> None:
    """A button, and the key `?`. sections: heading -> (keys separated by spaces, what they do)."""
    _KEY_HELP(key=key, data={"sections": [[*one] for one in sections.items()]}, height="content")


def page_menu(page: str, *, key: str) -> None:
    """A button with the open page's name that shows the links to all pages, for narrow windows."""
    _PAGE_MENU(key=key, data={"page": page}, height="content")


def page_frame(*, menu: str, key: str) -> None:
    """Draws nothing. menu: the key of a menu whose tooltip is the whole name that is chosen in it."""
    _FRAME(key=key, data={"menu": menu})
