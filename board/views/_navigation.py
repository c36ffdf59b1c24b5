"""Links to the pages, above each of them: every link holds what is chosen, as any other link does.

Streamlit's own navigation opens a page without a query, which the page then fills in: two entries of
the browser's history for one click, and Back leads to the first of them, the page one is on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.views import _state

# Streamlit's margins take a sixth of a laptop's window, which tables need more. The links to pages
# stand in its header, beside what opens the sidebar, where they stay while a page is scrolled; a window
# without room for all of them has them above the page, on as many lines as they need.
_LOOK: Final = """<style>
.stMainBlockContainer { padding-inline: 1.9rem; }
.st-key-pages {
  position: fixed;
  top: 0.5rem;
  z-index: 1000000;
  width: auto;
  max-width: calc(100vw - 27rem);
  margin-left: 1.2rem;
  padding-block: 0.45rem;
  overflow-x: auto;
}
.st-key-pages .stHorizontalBlock { flex-wrap: nowrap; }
@media (max-width: 1239px) {
  .st-key-pages {
    position: static;
    width: 100%;
    max-width: none;
    margin-left: 0;
    padding-block: 0 0.5rem;
    overflow: visible;
  }
  .st-key-pages .stHorizontalBlock { flex-wrap: wrap; row-gap: 0.5rem; }
}
[data-testid="stMetricLabel"] p { white-space: normal; }
</style>"""


class Navigation:
    """The row of links. It is drawn before its page, and anew where the page chose something else."""

    def __init__(self, pages: Sequence[st.Page]) -> None:
        self._pages = pages
        st.html(_LOOK)
        # The key may come once in a run of the script; what stands inside is drawn anew.
        with st.container(key="pages"):
            self._place: DeltaGenerator = st.empty()
        self._query: dict[str, str] | None = None

    def draw(self) -> None:
        """Links with what is chosen now."""
        query = _state.encoded()
        if query == self._query:
            return
        self._query = query
        with self._place.container(horizontal=True, gap=None):
            for page in self._pages:
                st.page_link(page, query_params=query, width="content")
