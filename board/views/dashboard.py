"""The dashboard's script: page configuration, navigation, sidebar and page. `app.py` serves it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from board.components.page_frame import key_help, page_frame
from board.query.open_run import Run
from board.views.frame import sidebar
from board.views.rollouts import labels
from board.views.shared import (
    known_findings,
    page_export,
    page_parts,
    pages,
    shortcuts,
    state,
    step_choice,
)
from board.views.shared.text import plain

FOLDER = Path(__file__).parent
PAGES = [
    st.Page(state.page_file(one.name), title=one.title, default=one.name == "overview")
    for one in pages.PAGES
]
RUNS, OVERVIEW = PAGES[:2]


def page_label(page: st.Page, run: Run | None) -> tuple[str, str | None]:
    """A page's name, dimmed where the run holds nothing for it; and what it needs, on hover."""
    title = page.title
    if run is None:
        return title, None
    if title == "Findings":
        return f"{title}{known_findings.badge(run)}", None
    if title == "Compare" and len(sidebar.neighbours()) < 2:
        return f":gray[{title}]", "There is only one run in this folder."
    if lacking := page_parts.lacking(title, run):
        explained = plain(f"Not recorded: {lacking}. {page_parts.how_to_record(title, run)}", 400)
        # Of the prompts of evaluations without a reward nobody is to think that they are not there.
        words = "not recorded" if lacking != "reward" else "no reward"
        return f":gray[{title} :small[{words}]]", explained
    return title, None


def receive(sent: Mapping[str, Any]) -> None:
    """Takes labels and keys that the browser sent, before the page is drawn again."""
    labels.receive(sent.get("labels"))
    shortcuts.receive(sent.get("keys"))


class Navigation:
    """The row of links above a page, drawn before it, and again where it chose something else.

    Every link carries what is chosen: with Streamlit's own navigation, which opens a page without a
    query, one click is two entries of the browser's history.
    """

    def __init__(self, current: st.Page) -> None:
        about = pages.page_of(current.title.lower())
        keys = shortcuts.begin(about, labels.answered())
        with st.container(key="frame"):
            st.html(FOLDER / "frame" / "frame.css")
            st.html(FOLDER / "frame" / "print.css")
            if page_parts.dark():
                st.html(FOLDER / "frame" / "print_dark.css")
            # A key may be used once in a run of the script: the row is drawn again inside its container.
            with st.container(key="pages"):
                self._row = st.empty()
            with st.container(key="key_help"):
                key_help(pages.keys_of(about), key=f"keys-{current.title}")
                page_frame(keys, menu="run", key="page-frame", on_sent=receive)
        self._drawn: tuple[object, ...] = ()

    def draw(self, run: Run | None = None) -> None:
        """Links with what is chosen now. run: the one that is shown."""
        query = state.encoded(**({} if run else sidebar.linked()))
        has_several = len(sidebar.neighbours()) > 1
        links = [(page, *page_label(page, run)) for page in PAGES if page != RUNS or has_several]
        if (query, links) == self._drawn:
            return
        self._drawn = (query, links)
        with self._row.container(horizontal=True, gap=None):
            for page, label, explained in links:
                st.page_link(page, label=label, help=explained, query_params=query, width="content")


page = st.navigation(PAGES, position="hidden")
st.set_page_config(
    page_title="Rollout Board",
    page_icon=str(FOLDER / "icon.png"),
    layout="wide",
    # The list and the reader need the width.
    initial_sidebar_state="collapsed" if page.title == "Rollouts" else 272,
    menu_items={"About": "Rollout Board: rollout logs of RL training, from a curve to its tokens."},
)
state.pull()
if page == OVERVIEW and not state.get("run") and len(sidebar.discovered()) > 1:
    st.switch_page(RUNS, query_params=state.encoded())  # what `/` opens where no link names a run
navigation = Navigation(page)
folder = sidebar.find_runs()
if page == RUNS and folder:
    page_parts.run(page)
    page_export.draw()
    navigation.draw()
elif folder and sidebar.open_run(folder):
    navigation.draw(sidebar.whole())
    page_parts.run(page)
    page_export.draw(sidebar.narrowed())
    navigation.draw(sidebar.whole())
    if state.get("live"):
        with st.sidebar:
            known_findings.announce_severe(sidebar.current())
else:
    navigation.draw()
step_choice.remember()
shortcuts.end()
sidebar.choose_folder()
state.show_notices()
state.push()
