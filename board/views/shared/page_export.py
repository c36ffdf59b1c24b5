"""What a page shows as one HTML file: each page offers its own, and the title row has the button."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import streamlit as st

from board.errors import BoardError, ChoiceError
from board.export.page_text import Redaction, file_name
from board.export.pages import PageOptions
from board.export.sheet import StaticPage
from board.views.shared import cache, state
from board.views.shared.text import plain

MakePage = Callable[[PageOptions], StaticPage]
_PLACE: Final = "_export_place"
_OFFERED: Final = "_export_offered"
_PATTERN: Final = "_export_redact"
_HELP: Final = (
    "A regular expression. What it matches is removed everywhere on the page, also where it spans "
    "tokens; the page says how many matches there were."
)


def place() -> None:
    """Where the button will be: it is drawn when the page is, which knows then what it shows."""
    st.session_state[_PLACE] = st.empty()
    st.session_state.pop(_OFFERED, None)  # of a page that was left before it was drawn


def offer(name: str, make: MakePage) -> None:
    """What the page has to export: made when somebody asks. name: of the file, without its ending."""
    st.session_state[_OFFERED] = (name, make)


def draw() -> None:
    """The button with what the page offered; nothing on a page that offered nothing."""
    slot = st.session_state.pop(_PLACE, None)
    offered = st.session_state.pop(_OFFERED, None)
    if slot is not None and offered is not None:
        with slot.popover("Export", icon=":material/download:", type="tertiary"):
            st.caption("What this page shows, as one HTML file without scripts.")
            fields(*offered)


def fields(name: str, make: MakePage) -> None:
    """What is to be removed, and the button."""
    pattern = st.text_input(
        "Remove", key=_PATTERN, placeholder="a regular expression, e.g. sk-\\w+", help=_HELP
    )
    try:
        redacted_name = Redaction.of(pattern or None).text(name)
    except ChoiceError as error:
        st.error(plain(error, 300), icon=":material/error:")
        return
    st.download_button(
        "HTML page",
        data=partial(_file, make, pattern or None, str(state.get("tokenizer"))),
        file_name=file_name(redacted_name),
        mime="text/html",
        on_click="ignore",
        key="export_html",
        width="stretch",
    )


def _file(make: MakePage, pattern: str | None, tokenizer: str) -> bytes:
    """The page; what can't be done becomes a page that says so: a download has no other place for it."""
    options = PageOptions(redact=pattern)
    try:
        known = cache.vocabulary(tokenizer) if tokenizer else None
        return make(PageOptions(redact=pattern, vocabulary=known)).html
    except BoardError as error:
        sheet = options.sheet()
        sheet.heading("This page can't be exported", [sheet.line(error, 600)])
        return sheet.page("This page can't be exported", "").html
