"""Links to the pages, above each of them: every link holds what is chosen, as any other link does.

Streamlit's own navigation opens a page without a query, which the page then fills in: two entries of
the browser's history for one click, and Back leads to the first of them, the page one is on.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.views import _state


class Navigation:
    """The row of links. It is drawn before its page, and anew where the page chose something else."""

    def __init__(self, pages: Sequence[st.Page]) -> None:
        self._pages = pages
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
