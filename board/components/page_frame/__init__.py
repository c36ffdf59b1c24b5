"""What every page adds in the browser: its keys and help on them, the way of labels to the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from board.components import declare, read_files

_FRAME = declare(
    __file__,
    "page_frame",
    "<i></i>",
    css=(),
    js=(
        "../keys.js",
        "../outbox.js",
        "../url.js",
        "../rerun.js",
        "panels.js",
        "page_frame.js",
    ),
)
_PAGE_MENU = declare(__file__, "page_menu", read_files(__file__, ["page_menu.html"]))
_KEY_HELP = declare(
    __file__, "key_help", read_files(__file__, ["key_help.html"]), js=("../keys.js", "key_help.js")
)


@dataclass(frozen=True, slots=True)
class PageKeys:
    """What a page says of its keys.

    page: its name. parameters: names in its URL, in order. run: the number of its run of the script in
    this session. offered: names of keys, as browsers have them, that it lists. server_keys: those of them
    that are sent where no script of the page takes them. received: ids of keys, labels and changes of the
    URL that the server has dealt with.
    refused: the labels among them that could not be stored, with why.
    """

    page: str
    parameters: Sequence[str]
    run: int
    offered: Sequence[str]
    server_keys: Sequence[str]
    received: Sequence[str]
    refused: Mapping[str, str]


def key_help(sections: Mapping[str, Sequence[tuple[str, str]]], *, key: str) -> None:
    """A button, and the key `?`. sections: heading -> (keys separated by spaces, what they do)."""
    _KEY_HELP(key=key, data={"sections": [[*one] for one in sections.items()]}, height="content")


def page_menu(page: str, *, key: str) -> None:
    """A button with the open page's name that shows the links to all pages, for narrow windows."""
    _PAGE_MENU(key=key, data={"page": page}, height="content")


def page_frame(
    keys: PageKeys, *, menu: str, key: str, on_sent: Callable[[Mapping[str, Any]], None]
) -> None:
    """Draws nothing. menu: the key of a menu whose tooltip is the whole name that is chosen in it.

    on_sent: called before the next run of the page with what the browser sent, not trusted: labels, each
    with id, run, kind, value, author, step and index, and first and last of a span; keys, each with id,
    key and page; and urls, what scripts of a page have changed in its URL, each with id, page
    and changes.
    """

    def take_sent() -> None:
        reported: Mapping[str, Any] = st.session_state.get(key) or {}
        sent: Any = reported.get("sent")
        if isinstance(sent, Mapping):
            on_sent(sent)

    data = {
        "menu": menu,
        "page": keys.page,
        "parameters": [*keys.parameters],
        "run": keys.run,
        "offered": [*keys.offered],
        "serverKeys": [*keys.server_keys],
        "received": [*keys.received],
        "refused": dict(keys.refused),
    }
    _FRAME(key=key, data=data, on_sent_change=take_sent)
