"""A page with nothing but the reader, for the browser test. `?case=` picks what it shows."""

import streamlit as st
from reader_cases import content_of, step_spans

from board.components.reader import Chosen, reader
from board.components.reader.frame import Frame

st.set_page_config(layout="wide")
st.session_state["runs"] = st.session_state.get("runs", 0) + 1
wish = st.session_state.setdefault(
    "wish",
    {
        "case": st.query_params.get("case", "hostile"),
        "metric": st.query_params.get("metric"),
        "pinned": int(st.query_params.get("pinned", -1)),
        "heat": "heat" in st.query_params,
    },
)


if st.button("ask for another rollout"):
    wish.update(case="2000", pinned=-1)
if st.button("ask for entropy and token 7"):
    wish.update(metric="entropy", pinned=7)
if st.button("ask for masks, strip and zoom"):
    wish.update(masks=(("tis", (1.5,)), ("is_masked", ())), strip="mismatch_ratio", zoom=(50, 99))
visible = reader(
    content_of(wish["case"]),
    Frame(),
    key="tokens",
    signature=wish["case"],
    chosen=Chosen(**{name: value for name, value in wish.items() if name != "case"}),
    step_spans=step_spans,
    height=620,
)
st.text(
    f"pinned={visible.pinned} metric={visible.metric} over={visible.over} strip={visible.strip} "
    f"masks={visible.masks} zoom={visible.zoom} runs={st.session_state.runs}"
)
