"""The page that benchmarks/reader.py measures: one rollout, shown in one of several ways.

`?variant=board|heatmap|styler&tokens=N`; `variant=text` has N characters, `variant=turns` N turns. The
button shows another rollout of the same size. Heat map and table are the ways of RLLoggingBoard: a
plotly heat map with the tokens as text, and a styled table with a column per token.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from board.components.reader import Chosen, reader
from board.components.reader.frame import Frame
from board.components.token_data import TokenContent
from board.core.metrics.definitions import token_metric
from board.core.texts.conversation import conversation_of

METRICS = (
    *("k1", "k3", "logprobs", "ref_logprobs", "entropy", "values", "importance_ratio"),
    *("mismatch_ratio", "prob_delta", "advantages"),
)
WORDS = ("The", " sum", " of", " two", " is", " 12", ",", " so", " we", " carry", ".", "\n")


def response(count: int, number: int) -> tuple[list[str], dict[str, np.ndarray]]:
    """Tokens and ten metrics of them, made by rule; only their shape means anything."""
    index = np.arange(count) + 7 * number
    tokens = [f"#{number}", *(WORDS[(i * 7 + i // 12) % 12] for i in index[1:])]
    waves = {
        name: np.sin(index * (0.37 + rank)) * np.cos(index * 0.011) ** 3
        for rank, name in enumerate(METRICS)
    }
    return tokens, waves


def show_board(tokens: list[str], metrics: dict[str, np.ndarray], number: int) -> None:
    specs = {name: token_metric(name) for name in metrics}
    draw(TokenContent(tokens, metrics, specs), Frame(), number)


def draw(content: TokenContent, frame: Frame, number: int) -> None:
    reader(
        content,
        frame,
        key="tokens",
        signature=str(number),
        chosen=Chosen(heat=True),
        step_spans=dict,
        height=700,
    )


def show_text(size: int, number: int) -> None:
    """One response of `size` characters."""
    words = "".join(WORDS)
    text = f"#{number} " + (words * (size // len(words) + 1))[:size]
    show_turns_of([], {"prompt": "Add.", "response": text}, number)


def show_turns(size: int, number: int) -> None:
    """A conversation of `size` turns: an assistant that calls a tool again and again."""
    words = "".join(WORDS)
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"#{number} Add."}]
    for turn in range(size - 1):
        call = {"name": "add", "arguments": f'{{"a": {turn}, "b": 2}}'}
        message = f"<think>{words * 12}</think>I add."
        calls = [{"id": str(turn), "function": call}]
        messages += [
            {"role": "assistant", "content": message, "tool_calls": calls},
            {"role": "tool", "tool_call_id": str(turn), "content": words * 40},
        ]
    show_turns_of(messages, {}, number)


def show_turns_of(messages: list[dict[str, Any]], texts: dict[str, str], number: int) -> None:
    draw(TokenContent([], {}), Frame(turns=conversation_of(messages, texts)), number)


def show_heatmap(tokens: list[str], metrics: dict[str, np.ndarray], number: int) -> None:
    figure = go.Figure(
        go.Heatmap(
            z=np.stack(list(metrics.values())),
            text=[tokens] * len(metrics),
            y=list(metrics),
            texttemplate="%{text}",
        )
    )
    st.plotly_chart(figure, key=f"heatmap {number}")


def show_styler(tokens: list[str], metrics: dict[str, np.ndarray], number: int) -> None:
    columns = [f"{token} {i}" for i, token in enumerate(tokens)]
    frame = pd.DataFrame(np.stack(list(metrics.values())), index=list(metrics), columns=columns)
    pd.set_option("styler.render.max_elements", 10**9)
    colour = "background-color: rgb({:.0f} 120 120)"
    styled = frame.style.map(lambda x: colour.format(127 + 127 * math.tanh(cast("float", x))))
    st.dataframe(styled, key=f"table {number}")


st.set_page_config(layout="wide")
st.session_state.setdefault("number", 0)
if st.button("another"):
    st.session_state["number"] += 1
variant = st.query_params.get("variant", "board")
size = int(st.query_params.get("tokens", 32_000))
if variant in ("text", "turns"):
    {"text": show_text, "turns": show_turns}[variant](size, st.session_state["number"])
else:
    visible = response(size, st.session_state["number"])
    show = {"board": show_board, "heatmap": show_heatmap, "styler": show_styler}[variant]
    show(*visible, st.session_state["number"])
st.text(f"round {st.session_state['number']}")
