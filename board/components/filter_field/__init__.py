"""The filter field: one line in the language of filters, with colours, completion and saved filters.

It marks what can't be read in its place, and applies on Enter. The browser stores the last filters and
those with a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import streamlit as st

from board.components import declare, read_files

_SCRIPTS: Final = ("language", "completion", "saved", "filter_field")


@dataclass(frozen=True, slots=True)
class Offered:
    """A column that is completed. insert: how it is written; about: what it holds; is_text: whether it
    is compared with texts; values: those that are completed after it; others: what else means it, first
    the words above it in the list.
    """

    name: str
    insert: str
    about: str
    is_text: bool
    values: Sequence[str] = ()
    others: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """What can't be read: characters start to end of the text, and what may be meant instead."""

    reason: str
    start: int
    end: int
    instead: str = ""


@dataclass(frozen=True, slots=True)
class FilterContent:
    """count: how many rollouts `text` leaves, in words. sought: what is searched for in texts, "" where
    it is an expression. placeholder: a filter as an example. focus: whether the key `/` leads here.
    """

    text: str
    columns: Sequence[Offered]
    count: str
    sought: str
    placeholder: str
    refused: Refused | None = None
    focus: bool = True


_COMPONENT = declare(
    __file__,
    "filter_field",
    read_files(__file__, ["filter_field.html"]),
    js=("../elements.js", "../keys.js", *(f"js/{name}.js" for name in _SCRIPTS)),
)


def filter_field(content: FilterContent, *, key: str, on_apply: Callable[[str], None]) -> None:
    """Draws the field; on_apply is called with the text before the next run of the page."""

    def apply() -> None:
        reported: Mapping[str, Any] = st.session_state.get(key) or {}
        if isinstance(reported.get("applied"), str):
            on_apply(reported["applied"])

    _COMPONENT(key=key, data=asdict(content), on_applied_change=apply)
