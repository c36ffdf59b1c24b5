"""A page with nothing but the token view, for the browser test. `?case=` picks what it shows."""

from __future__ import annotations

import streamlit as st
from token_view_cases import SPECS, content_of, linked, step_spans

from board.components.token_view import token_view

st.set_page_config(layout="wide")
st.session_state["runs"] = st.session_state.get("runs", 0) + 1
wish = st.session_state.setdefault(
    "wish",
    {
        "case": st.query_params.get("case", "hostile"),
        "metric": st.query_params.get("metric"),
        "pinned": int(st.query_params.get("pinned", -1)),
    },
)


def pair() -> None:
    for side, column in zip(("left", "right"), st.columns(2), strict=True):
        with column:
            token_view(**linked(side), key=side, signature=side, specs=SPECS, height=400)


def single() -> None:
    if st.button("ask for another rollout"):
        wish.update(case="2000", pinned=-1)
    if st.button("ask for entropy and token 7"):
        wish.update(metric="entropy", pinned=7)
    event = token_view(
        **{"specs": SPECS, **content_of(wish["case"])},
        key="tokens",
        signature=wish["case"],
        metric=wish["metric"],
        pinned=wish["pinned"],
        spans_over_step=step_spans,
        heat="heat" in st.query_params,
        height=480,
    )
    st.text(
        f"pinned={event.pinned} metric={event.metric} over={event.over} runs={st.session_state.runs}"
    )


if wish["case"] == "pair":
    pair()
else:
    single()
