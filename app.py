"""The dashboard: page configuration and navigation, nothing else. Started by `rollout-board`."""

from pathlib import Path

import streamlit as st

from board.views import _navigation, _page, _sidebar, _state

VIEWS = Path(__file__).parent / "board" / "views"

st.set_page_config(
    page_title="Rollout Board",
    page_icon=str(VIEWS / "icon.png"),
    layout="wide",
    initial_sidebar_state=290,
)
PAGES = [
    st.Page(VIEWS / f"{name}.py", title=title, default=name == "overview")
    for name, title in (
        ("overview", "Overview"),
        ("findings", "Findings"),
        ("spike", "Spike"),
        ("rollouts", "Rollouts"),
        ("rollout", "Rollout"),
        ("health", "Log health"),
        ("groups", "Groups"),
        ("prompts", "Prompts"),
        ("environments", "Environments"),
        ("mismatch", "Mismatch"),
        ("words", "Words"),
        ("compare", "Compare runs"),
    )
]
page = st.navigation(PAGES, position="hidden")
_state.pull()
navigation = _navigation.Navigation(PAGES)
notices = st.container()
if _sidebar.render():
    navigation.draw()
    _page.run(page)
navigation.draw()
_state.show_notices(notices)
_state.push()
