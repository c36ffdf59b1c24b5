"""Links to the pages, above each of them: every link carries what is chosen, as any other link does.

Streamlit's own navigation opens a page without a query, which the page then fills in: two entries of
the browser's history for one click, and Back leads to the first of them, the current page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.components.key_help import key_help
from board.components.page_frame import page_frame
from board.query.open_run import Run
from board.views.shared import finding_counts, recording_hints, shortcuts, state
from board.views.shared.text import plain

_LOOK: Final = Path(__file__).with_name("frame.css")


class Navigation:
    """The row of links, drawn before its page, and again where the page chose something else."""

    def __init__(self, pages: Sequence[st.Page], current: st.Page) -> None:
        self._pages = pages
        with st.container(key="frame"):
            st.html(_LOOK)
            # A key may be used once in a run of the script: the row is drawn again inside its container.
            with st.container(key="pages"):
                self._place: DeltaGenerator = st.empty()
            with st.container(key="key_help"):
                key_help(shortcuts.of_page(current.title), key=f"keys-{current.title}")
                page_frame(menu="run", key="page-frame")
        self._drawn: tuple[object, ...] = ()

    def draw(self, run: Run | None = None, runs: int = 0) -> None:
        """Links with what is chosen now. run: the one that is shown; runs: how many there are."""
        query = state.encoded()
        links = [(page, *_label(page, run, runs)) for page in self._pages]
        if (query, links) == self._drawn:
            return
        self._drawn = (query, links)
        with self._place.container(horizontal=True, gap=None):
            for page, label, explained in links:
                st.page_link(page, label=label, help=explained, query_params=query, width="content")


def _label(page: st.Page, run: Run | None, runs: int) -> tuple[str, str | None]:
    """A page's name, dimmed where the run holds nothing for it; and what it needs, on hover."""
    title = page.title
    if run is None:
        return title, None
    if title == "Findings":
        return f"{title}{finding_counts.count(run)}", None
    if title == "Compare" and runs < 2:
        return f":gray[{title}]", "There is only one run in this folder."
    if lacking := recording_hints.lacking(title, run):
        explained = plain(f"Not recorded: {lacking}. {recording_hints.how_to_record(title)}", 400)
        return f":gray[{title} :small[not recorded]]", explained
    return title, None
