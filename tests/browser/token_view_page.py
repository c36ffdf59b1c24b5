"""A page with nothing but the token view, for the browser test. `?case=` picks what it shows."""

from __future__ import annotations

import streamlit as st
from token_view_cases import SPECS, content_of

from board.components.token_view import token_view

st.set_page_config(layout="wide")
case = st.query_params.get("case", "hostile")
st.session_state["runs"] = st.session_state.get("runs", 0) + 1
event = token_view(
    **content_of(case),
    key="tokens",
    signature=case,
    specs=SPECS,
    metric=st.query_params.get("metric"),
    pinned=int(st.query_params.get("pinned", -1)),
    height=480,
)
st.text(f"pinned={event.pinned} metric={event.metric} runs={st.session_state['runs']}")
