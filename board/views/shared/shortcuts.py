"""The keys of the board, those of components' scripts too: what they do on each page, and buttons that
have them. A key means the same on every page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import streamlit as st

_EVERYWHERE: Final = (("← →", "previous or next step"), ("?", "this help"))
_READER: Final = (
    ("[ ]", "previous or next turn"),
    ("n p", "next or previous match of the search, else peak of the metric"),
    ("/", "find in the rollout"),
    ("t", "fold tool output"),
    ("h", "fold thinking"),
    ("w", "wrap lines"),
    ("Shift+w", "monospace or prose"),
    ("1 … 9", "label the rollout, or the selected tokens; again: remove the label"),
    ("Shift+1 … 9", "label the pinned token"),
    ("m", "write a note"),
    ("l u", "show the labels, undo the last one"),
    ("i", "scores, ground truth and the record"),
    ("a", "list all rollouts with the selected text"),
    ("c", "compare with another rollout or text"),
    ("d Shift+d", "next or previous difference of a comparison"),
    ("e", "fold the equal text of a comparison"),
    ("f", "full screen"),
    ("← → ↑ ↓", "move the pinned token"),
    ("Esc", "clear the search, unpin, leave full screen, close the rollout"),
)


def _list(what: str, opened: str = "") -> tuple[tuple[str, str], ...]:
    """J and K through the list of a page, and O or Enter for what `opened` says."""
    moves = (("j k", f"next or previous {what}"),)
    return (*moves, ("o Enter", f"open {opened}")) if opened else moves


_OF_PAGE: Final[Mapping[str, Mapping[str, Sequence[tuple[str, str]]]]] = {
    "Runs": {
        "Runs": (
            *_list("run", "the run"),
            ("x Space", "tick the run, to compare it with others"),
            ("/", "search"),
            ("Esc", "clear the search, or the ticks"),
        ),
    },
    "Findings": {"Findings": _list("finding", "its evidence")},
    "Step": {
        "Contributions": _list("metric", "the token that contributes most"),
        "Groups": _list("group", "the rollout with the best reward"),
    },
    "Rollouts": {
        "List": (
            *_list("rollout", "the selected rollout"),
            ("/", "filter, while no rollout is open"),
        ),
        "Words over the run": (
            ("s", "search the whole run, or stop"),
            ("o Enter", "open the first hit"),
        ),
        "Reader": _READER,
    },
    "Prompts": {"Prompts": _list("prompt", "its best response at its last step")},
    "Mismatch": {"Mismatch": _list("breakdown")},
    "Compare": {"Shared prompts": _list("prompt")},
}


def of_page(title: str) -> dict[str, Sequence[tuple[str, str]]]:
    """The keys of a page by its title, in sections: (keys, what they do)."""
    return {"Everywhere": _EVERYWHERE, **_OF_PAGE.get(title, {})}


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
