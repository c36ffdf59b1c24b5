"""A page with nothing but the token view, for the browser test. `?case=` picks what it shows."""

from __future__ import annotations

import streamlit as st
from token_view_cases import SPECS, content_of

from board.components.token_view import token_view

st.set_page_config(layout="wide")
wish = st.session_state.setdefault(
    "wish",
    {
        "case": st.query_params.get("case", "hostile"),
        "metric": st.query_params.get("metric"),
        "pinned": int(st.query_params.get("pinned", -1)),
    },
)
if st.button("ask for another rollout"):
    wish.update(case="2000", pinned=-1)
if st.button("ask for entropy and token 7"):
    wish.update(metric="entropy", pinned=7)
event = token_view(
    **content_of(wish["case"]),
    key="tokens",
    signature=wish["case"],
    specs=SPECS,
    metric=wish["metric"],
    pinned=wish["pinned"],
    height=480,
)
st.text(f"pinned={event.pinned} metric={event.metric}")
