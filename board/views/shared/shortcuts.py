"""Buttons with keys. A key means the same on every page: `shared.pages` lists what each one has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st


def through(what: str, items: Sequence[Any], chosen: Any, choose: Callable[[Any], None]) -> None:
    """Buttons to the previous and the next item, with the keys K and J; to the first one where `chosen`
    is none of them. choose: called with an item before the page is drawn again.
    """
    back = on = 0
    if chosen in items:
        back, on = items.index(chosen) - 1, items.index(chosen) + 1
    move("through", "chevron_left", f"Previous {what}", items, back, choose, shortcut="K")
    move("through", "chevron_right", f"Next {what}", items, on, choose, shortcut="J")


def move(
    key: str,
    icon: str,
    words: str,
    items: Sequence[Any],
    place: int,
    choose: Callable[[Any], None],
    *,
    shortcut: str | None = None,
) -> None:
    """A button that chooses the item at a place, if there is one. key: of a row of such buttons."""
    exists = 0 <= place < len(items)
    st.button(
        "",
        icon=f":material/{icon}:",
        help=words,
        key=f"{key}_{icon}",
        shortcut=shortcut,
        disabled=not exists,
        on_click=choose,
        args=(items[place] if exists else None,),
    )


def opens(what: str) -> bool:
    """A button with the keys O and Enter; true in the run of the script in which it was pressed."""
    icon, words = ":material/open_in_new:", f"Opens {what}"
    return st.button("Open", icon=icon, help=words, key="opens", shortcut="O")
