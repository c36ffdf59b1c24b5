"""Answers of rollouts as pages show several of them: a button that opens the rollout, and its text."""

from __future__ import annotations

from typing import Final

import numpy as np
import streamlit as st

from board.errors import BoardError
from board.query.open_run import Run
from board.query.prompts import PromptRollouts
from board.views.shared import cache, state
from board.views.shared.text import number, plain

_TEXT_PIXELS: Final = 190
_LINE_PIXELS: Final = 24


def answer(run: Run, step: int, index: int, label: str, *, width: int, note: str = "") -> None:
    """A button that opens a rollout of a run, and below it what the rollout answered.

    width: characters that fit in a line. note: words between the two.
    """
    with st.container(gap=None):
        if st.button(
            plain(label),
            key=f"answer_{run.info.name}_{step}_{index}",
            type="tertiary",
            help="Open the rollout",
        ):
            state.go("rollouts", run=run.info.name, step=step, index=index, token=None)
        if note:
            st.caption(plain(note))
    try:
        opened = cache.rollout(run, step, index, str(state.get("tokenizer")))
    except BoardError as error:
        st.caption(plain(error, 200))
        return
    if opened.response_text:
        text_box(opened.response_text, width=width)
    else:
        is_empty = "response" in opened.record.texts
        st.caption(
            "The response is empty." if is_empty else "No text of this response is recorded."
        )


def answer_label(step: int, index: int, reward: float | None) -> str:
    """The words on the button of an answer, where those of several steps are shown."""
    return f"step {step} · rollout {index} · reward {number(reward)}"


def best_first(rollouts: PromptRollouts, step: int) -> list[int]:
    """Places of a prompt's rollouts of a step by their reward, those without one last."""
    places = np.flatnonzero(rollouts.steps == step)
    rewards = rollouts.rewards[places]
    order = np.argsort(np.where(np.isfinite(rewards), -rewards, np.inf), kind="stable")
    return places[order].tolist()


def text_box(text: str, *, width: int, most_pixels: int = _TEXT_PIXELS) -> None:
    """A text of a log as it is, in a box that scrolls where the text is long."""
    lines = sum(1 + len(line) // width for line in text.split("\n"))
    height = "content" if _LINE_PIXELS * lines < most_pixels else most_pixels
    st.code(text, language=None, wrap_lines=True, height=height)
