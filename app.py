"""The dashboard: page configuration and navigation, nothing else. Started by `rollout-board`."""

from pathlib import Path

import streamlit as st

from board.views import _page, _sidebar, _state

VIEWS = Path(__file__).parent / "board" / "views"

st.set_page_config(
    page_title="Rollout Board",
    page_icon=str(VIEWS / "icon.png"),
    layout="wide",
    initial_sidebar_state=290,
)
page = st.navigation(
    {
        "": [
            st.Page(
                VIEWS / "overview.py", title="Overview", icon=":material/monitoring:", default=True
            ),
            st.Page(VIEWS / "findings.py", title="Findings", icon=":material/flag:"),
            st.Page(VIEWS / "spike.py", title="Spike", icon=":material/troubleshoot:"),
            st.Page(VIEWS / "rollouts.py", title="Rollouts", icon=":material/table_rows:"),
            st.Page(VIEWS / "rollout.py", title="Rollout", icon=":material/gradient:"),
            st.Page(VIEWS / "health.py", title="Log health", icon=":material/health_and_safety:"),
        ],
        "Look closer": [
            st.Page(VIEWS / "groups.py", title="Groups", icon=":material/grid_on:"),
            st.Page(VIEWS / "prompts.py", title="Prompts", icon=":material/chat:"),
            st.Page(VIEWS / "environments.py", title="Environments", icon=":material/public:"),
            st.Page(VIEWS / "mismatch.py", title="Mismatch", icon=":material/compare_arrows:"),
            st.Page(VIEWS / "words.py", title="Words", icon=":material/match_word:"),
            st.Page(VIEWS / "compare.py", title="Compare runs", icon=":material/difference:"),
        ],
    },
    position="top",
)
_state.pull()
notices = st.container()
if _sidebar.render():
    _page.run(page)
_state.show_notices(notices)
_state.push()
