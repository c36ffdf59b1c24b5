"""The dashboard's script: page configuration and navigation. `app.py` serves it."""

from pathlib import Path

import streamlit as st

from board.views import _alerts, _following, _navigation, _page, _sidebar, _state

VIEWS = Path(__file__).parent

PAGES = [
    st.Page(VIEWS / f"{name}.py", title=name.capitalize(), default=name == "overview")
    for name in ("overview", "findings", "step", "rollouts", "prompts", "mismatch", "compare")
]
page = st.navigation(PAGES, position="hidden")
st.set_page_config(
    page_title="Rollout Board",
    page_icon=str(VIEWS / "icon.png"),
    layout="wide",
    # The list and the reader need the width.
    initial_sidebar_state="collapsed" if page.title == "Rollouts" else 272,
    menu_items={"About": "Rollout Board: rollout logs of RL training, from a curve to its tokens."},
)
_state.pull()
navigation = _navigation.Navigation(PAGES, page)
if _sidebar.render():
    navigation.draw(_sidebar.whole(), len(_sidebar.neighbours()))
    _page.run(page)
    navigation.draw(_sidebar.whole(), len(_sidebar.neighbours()))
    if _state.get("live"):
        with st.sidebar:
            _alerts.watch(_sidebar.current())
else:
    navigation.draw()
_following.remember()
_sidebar.choose_folder()
_state.show_notices()
_state.push()
