"""The dashboard's script: page configuration, navigation, sidebar and page. `server.py` serves it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from board.components.page_frame import key_help, page_frame, page_menu
from board.query.open_run import Run
from board.query.outlines import is_outline
from board.views.frame import sidebar
from board.views.rollouts import labels
from board.views.shared import (
    browser_url,
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
    if run is None or is_outline(run):
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
    """Takes labels, changes of the URL and keys that the browser sent, before the page is drawn again."""
    labels.receive(sent.get("labels"))
    browser_url.receive(sent.get("urls"), page.title.lower(), state.take_changes)
    shortcuts.receive(sent.get("keys"))


class Navigation:
    """The row of links above a page, drawn before it. Those that say something else after it are drawn
    again in their place: a row that goes and comes back would flicker whenever a live page runs.

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
            with st.container(key="page_menu"):
                page_menu(current.title, key="page-menu")
            self._row = st.container(key="pages", horizontal=True, gap=None)
            with st.container(key="key_help"):
                key_help(pages.keys_of(about), key=f"keys-{current.title}")
                page_frame(keys, menu="run", key="page-frame", on_sent=receive)
        self._drawn: list[tuple[DeltaGenerator, object]] = []

    def draw(self, run: Run | None = None) -> None:
        """Links with what is chosen now. run: the one that is shown."""
        query = state.encoded(**({} if run else sidebar.linked()))
        has_several = len(sidebar.neighbours()) > 1
        before, self._drawn = self._drawn, []
        for place, page in enumerate(page for page in PAGES if page != RUNS or has_several):
            label, explained = page_label(page, run)
            look = {"label": label, "help": explained, "query_params": query}
            link, drawn = before[place] if before else (self._row, None)
            if look != drawn:
                link = link.page_link(page, width="content", **look)
            self._drawn.append((link, look))


page = st.navigation(PAGES, position="hidden")
st.set_page_config(
    page_title="Rollout Board",
    page_icon=str(FOLDER / "icon.png"),
    layout="wide",
    # The list and the reader need the width.
    initial_sidebar_state="collapsed" if page.title == "Rollouts" else 272,
    menu_items={"About": "Rollout Board: rollout logs of RL training, from a curve to its tokens."},
)
state.pull(page.title.lower())
if page == OVERVIEW and not state.get("run") and len(sidebar.discovered()) > 1:
    st.switch_page(RUNS, query_params=state.encoded())  # what `/` opens where no link names a run
page_export.begin_page()
navigation = Navigation(page)
folder = sidebar.find_runs()
exported = None
if page == RUNS and folder:
    page_parts.run(page)
    navigation.draw()
elif folder and sidebar.open_run(folder):
    navigation.draw(sidebar.whole())
    page_parts.run(page, sidebar.whole())
    exported = sidebar.narrowed()
    navigation.draw(sidebar.whole())
    if state.get("live") and not is_outline(sidebar.whole()):
        with st.sidebar:
            known_findings.announce_severe(sidebar.current())
else:
    navigation.draw()
step_choice.remember()
shortcuts.end()
sidebar.choose_folder()
state.show_notices()
state.push()
# Last: it waits for files that are being made.
page_export.draw(exported)
