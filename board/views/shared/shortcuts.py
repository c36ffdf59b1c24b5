"""What keys do, and buttons that have them. A key means the same on every page: `shared.pages` lists what
each one has. It has its effect once, whenever it is pressed: the browser keeps it until the page that it
was pressed for can take it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import streamlit as st

from board.components.page_frame import PageKeys
from board.views.shared import browser_url, state
from board.views.shared.pages import Page, keys_of

_NAMES: Final = {
    "←": "ArrowLeft",
    "→": "ArrowRight",
    "↑": "ArrowUp",
    "↓": "ArrowDown",
    "Esc": "Escape",
    "Space": " ",
    "Shift+w": "W",
    "Shift+d": "D",
}
"""What browsers call keys that the help names otherwise."""
_SERVER_KEYS: Final = ("j", "k", "o", "Enter", "s", "ArrowLeft", "ArrowRight")
"""Keys that pages answer here, where no script of theirs takes them."""
_ACTIONS: Final = "_key_actions"
_PRESSED: Final = "_key_pressed"
_RECEIVED: Final = "_received_keys"
_RUNS: Final = "_script_runs"
_MOST_RECEIVED: Final = 200
_MOST_AT_ONCE: Final = 50


@dataclass(slots=True)
class _Actions:
    """What the keys of a page do, by key. is_complete: whether all of the page was drawn."""

    page: str
    of_key: dict[str, Callable[[], None]] = field(default_factory=dict[str, Callable[[], None]])
    is_complete: bool = False


def begin(page: Page, labels: Mapping[str, str]) -> PageKeys:
    """Called before a page is drawn: what the browser is told of its keys. labels: ids of labels that
    were dealt with, and why they could not be stored, "" for those that were.
    """
    st.session_state[_ACTIONS] = _Actions(page.name)
    st.session_state[_RUNS] = st.session_state.get(_RUNS, 0) + 1
    listed = " ".join(keys for rows in keys_of(page).values() for keys, _ in rows).split()
    digits = map(str, range(1, 10)) if "…" in listed else ()
    offered = dict.fromkeys((*(_NAMES.get(key, key) for key in listed), *digits))
    return PageKeys(
        page=page.name,
        parameters=[*state.CHOICES],
        run=st.session_state[_RUNS],
        offered=[*offered],
        server_keys=[key for key in _SERVER_KEYS if key in offered],
        received=[*st.session_state.get(_RECEIVED, ()), *browser_url.received(), *labels],
        refused={name: why for name, why in labels.items() if why},
    )


def end() -> None:
    """Called when all of the page is drawn: only now it is known which keys it has."""
    st.session_state[_ACTIONS].is_complete = True
    st.session_state.pop(_PRESSED, None)


def receive(sent: Any) -> None:
    """Does what keys do that the browser sent, which may be anything, before the page is drawn again:
    each once, however often it is sent. Those of a page that was left do nothing; those of a page that
    was not drawn to its end wait, and are sent again.
    """
    actions: _Actions | None = st.session_state.get(_ACTIONS)
    received: list[str] = st.session_state.setdefault(_RECEIVED, [])
    for entry in (sent if isinstance(sent, list) else [])[:_MOST_AT_ONCE]:
        if not isinstance(entry, Mapping) or str(entry.get("id")) in received or actions is None:
            continue
        if entry.get("page") == actions.page:
            if not actions.is_complete:
                break
            act = actions.of_key.get(str(entry.get("key")))
            if act is not None:
                act()
        received.append(str(entry.get("id"))[:40])
    del received[:-_MOST_RECEIVED]


def on_key(key: str, act: Callable[[], None]) -> None:
    """What a key does on the page that is being drawn, before it is drawn again."""
    actions: _Actions = st.session_state.setdefault(_ACTIONS, _Actions(""))
    actions.of_key[key] = act


@dataclass(slots=True)
class _Walk:
    """A way through items by keys, several of which may come at once. at: the place in it, or -1."""

    items: Sequence[Any]
    at: int
    choose: Callable[[Any], None]

    def go(self, by: int) -> None:
        """To the item so many places on, if there is one; to the first one from none."""
        to = self.at + by if self.at >= 0 else 0
        if 0 <= to < len(self.items):
            self.at = to
            self.choose(self.items[to])


def walk(
    keys: tuple[str, str], items: Sequence[Any], at: int, choose: Callable[[Any], None]
) -> None:
    """Two keys, to the item before and after the place `at`; choose: as of `through`."""
    way = _Walk([*items], at, choose)
    for key, by in zip(keys, (-1, 1), strict=True):
        on_key(key, partial(way.go, by))


def through(what: str, items: Sequence[Any], chosen: Any, choose: Callable[[Any], None]) -> None:
    """Buttons to the previous and the next item, with the keys K and J; to the first one where `chosen`
    is none of them. choose: called with an item before the page is drawn again.
    """
    at = items.index(chosen) if chosen in items else -1
    back, on = (at - 1, at + 1) if at >= 0 else (0, 0)
    move("through", "chevron_left", f"Previous {what} (K)", items, back, choose)
    move("through", "chevron_right", f"Next {what} (J)", items, on, choose)
    walk(("k", "j"), items, at, choose)


def move(
    key: str,
    icon: str,
    words: str,
    items: Sequence[Any],
    place: int,
    choose: Callable[[Any], None],
) -> None:
    """A button that chooses the item at a place, if there is one. key: of a row of such buttons."""
    exists = 0 <= place < len(items)
    st.button(
        "",
        icon=f":material/{icon}:",
        help=words,
        key=f"{key}_{icon}",
        disabled=not exists,
        on_click=choose,
        args=(items[place] if exists else None,),
    )


def opens(what: str) -> bool:
    """A button with the keys O and Enter; true in the run of the script in which it was pressed."""
    icon, words = ":material/open_in_new:", f"Opens {what} (O)"
    return opening(st.button("Open", icon=icon, help=words, key="opens"))


def opening(is_clicked: bool) -> bool:
    """Whether what a button opens is to be opened: by a click, or by the keys O and Enter."""

    def press() -> None:
        st.session_state[_PRESSED] = True

    on_key("o", press)
    on_key("Enter", press)
    return bool(st.session_state.pop(_PRESSED, False)) or is_clicked
