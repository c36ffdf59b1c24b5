"""Keys of the pages: the same ones everywhere, for the next item, the one before and opening it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import streamlit as st

_STEPS: Final = ("← →", "the step before, the next one")


def told(keys: Sequence[tuple[str, str]] = ()) -> str:
    """What the keys of a page do, as the Markdown of its help."""
    return "  \n".join(f"`{key}` {words}" for key, words in (_STEPS, *keys))


def moves(what: str) -> tuple[str, str]:
    """A line of a page's help: J and K go from one to the next."""
    return "J K", f"the next {what}, the one before"


def through(what: str, items: Sequence[Any], chosen: Any, choose: Callable[[Any], None]) -> None:
    """Buttons to the item before and the next one, with the keys K and J.

    chosen: one of items; else both lead to the first. choose: called with an item, before the page is
    drawn anew.
    """
    place = items.index(chosen) if chosen in items else None
    moves = (
        ("Previous", "chevron_left", "K", 0 if place is None else place - 1),
        ("Next", "chevron_right", "J", 0 if place is None else place + 1),
    )
    for word, icon, key, target in moves:
        there = 0 <= target < len(items)
        st.button(
            "",
            icon=f":material/{icon}:",
            help=f"{word} {what}",
            key=f"through_{icon}",
            shortcut=key,
            disabled=not there,
            on_click=choose if there else None,
            args=(items[target],) if there else None,
        )


def opens(what: str, *, disabled: bool = False) -> bool:
    """A button with the key O; true in the run of the script in which it was pressed."""
    return st.button(
        "Open",
        icon=":material/open_in_new:",
        help=f"Opens {what}",
        key="opens",
        shortcut="O",
        disabled=disabled,
    )
