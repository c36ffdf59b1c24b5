"""The dashboard's script: page configuration and navigation. `app.py` serves it."""

from pathlib import Path

import streamlit as st

from board.views.frame import alerts, following, navigation, sidebar
from board.views.shared import page_parts, state

PAGES = [
    st.Page(state.page_file(name), title=name.capitalize(), default=name == "overview")
    for name in ("overview", "findings", "step", "rollouts", "prompts", "mismatch", "compare")
]
page = st.navigation(PAGES, position="hidden")
st.set_page_config(
    page_title="Rollout Board",
    page_icon=str(Path(__file__).with_name("icon.png")),
    layout="wide",
    # The list and the reader need the width.
    initial_sidebar_state="collapsed" if page.title == "Rollouts" else 272,
    menu_items={"About": "Rollout Board: rollout logs of RL training, from a curve to its tokens."},
)
state.pull()
bar = navigation.Navigation(PAGES, page)
if sidebar.render():
    bar.draw(sidebar.whole(), len(sidebar.neighbours()))
    page_parts.run(page)
    bar.draw(sidebar.whole(), len(sidebar.neighbours()))
    if state.get("live"):
        with st.sidebar:
            alerts.watch(sidebar.current())
else:
    bar.draw()
following.remember()
sidebar.choose_folder()
state.show_notices()
state.push()
