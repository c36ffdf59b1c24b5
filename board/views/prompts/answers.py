"""What was answered to one prompt: whole at some steps or at a chosen one, and a list of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
import streamlit as st

from board.query.open_run import Run
from board.query.prompts import PromptRollouts
from board.views.shared import shortcuts, state, step_choice, tables
from board.views.shared.page_parts import answer_to_prompt, best_first
from board.views.shared.text import visible_token

_ACROSS: Final = 3
_MOST_ANSWERS: Final = 12
"""Answers of a step that are read and drawn at once."""
_LINE_CHARACTERS: Final = 34
_MOST_OPTIONS: Final = 400
"""Streamlit sends every entry of a menu with the page and makes an element of it in the browser."""
_NEWEST: Final = 64
"""Responses in the list: each step they are of is read for them."""
_PREVIEW_CHARACTERS: Final = 160
_TYPED: Final = "_pstep_typed"
_NO_STEP: Final = "first, middle, last"
_STEP_HELP: Final = (
    "Three steps: the first, middle and last at which the prompt was seen, with the best and the worst "
    "answer of each. One step: all of its answers."
)


def show(run: Run, rollouts: PromptRollouts) -> None:
    """The answers of the chosen step, a dozen at a time; else the best and the worst of three steps."""
    seen = np.unique(rollouts.steps)
    step = _choose_step(seen.tolist())
    if step is None:
        places = np.linspace(0, len(seen) - 1, min(_ACROSS, len(seen))).round().astype(int)
        columns = st.columns(_ACROSS, gap="small")
        for column, one in zip(columns, seen[places].tolist(), strict=False):
            with column:
                order = best_first(rollouts, one)
                for place in dict.fromkeys((order[0], order[-1])):
                    answer_to_prompt(run, rollouts, place, width=_LINE_CHARACTERS)
        return
    order = best_first(rollouts, step)
    starts = list(range(0, len(order), _MOST_ANSWERS))
    page = min(int(state.get("prompts_first")) // _MOST_ANSWERS, len(starts) - 1)
    places = order[starts[page] :][:_MOST_ANSWERS]
    with st.grid(_ACROSS, gap="small"):
        for place in places:
            with st.container():
                answer_to_prompt(run, rollouts, place, width=_LINE_CHARACTERS)
    if len(starts) > 1:
        first = starts[page] + 1
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            words = f"{first:,} to {first + len(places) - 1:,} of {len(order):,}"
            st.caption(words, width="content")
            back, on = page - 1, page + 1
            shortcuts.move("answers", "arrow_back", "Previous answers", starts, back, _begin_at)
            shortcuts.move("answers", "arrow_forward", "Next answers", starts, on, _begin_at)


def _choose_step(seen: list[int]) -> int | None:
    """A step at which the prompt was seen; None: the first, the middle and the last of them."""
    chosen: int | None = state.ensure("prompts_step", [None, *seen], None)
    place = -1 if chosen is None else seen.index(chosen)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Answers :gray[best first · click to open]", width="content")
        st.space("stretch")
        if len(seen) > _MOST_OPTIONS:
            _type_step(seen, chosen)
        else:
            st.selectbox(
                "Answers at step",
                [None, *seen],
                **state.bound("prompts_step"),
                width=230,
                # None is no choice to Streamlit, which shows the placeholder.
                placeholder=_NO_STEP,
                format_func=lambda step: _NO_STEP if step is None else f"step {step}, all of them",
                help=_STEP_HELP,
                on_change=state.put,
                kwargs={"prompts_first": 0},
            )
        shortcuts.move("answers", "chevron_left", "Previous step", seen, place - 1, _go_to_step)
        shortcuts.move("answers", "chevron_right", "Next step", seen, place + 1, _go_to_step)
    return chosen


def _type_step(seen: list[int], chosen: int | None) -> None:
    # A field of its own: what is typed may be no step at which the prompt was seen.
    state.put(prompts_step=chosen)
    st.session_state[_TYPED] = chosen

    def use_typed() -> None:
        wanted: int | None = st.session_state[_TYPED]
        if wanted is not None:
            wanted = step_choice.nearest(seen, wanted, wanted if chosen is None else chosen)
        _go_to_step(wanted)

    st.number_input(
        "Answers at step",
        value=None,
        step=1,
        key=_TYPED,
        width=230,
        placeholder=_NO_STEP,
        help=f"{_STEP_HELP} The prompt was seen at {len(seen):,} steps, {seen[0]} to {seen[-1]}. Type a "
        "step; the nearest one is shown.",
        on_change=use_typed,
    )


def _begin_at(first: int) -> None:
    state.put(prompts_first=first)


def _go_to_step(step: int | None) -> None:
    state.put(prompts_step=step, prompts_first=0)


def list_responses(run: Run, key: int, rollouts: PromptRollouts, length: str | None) -> None:
    """The prompt's newest rollouts as the index has them; a click opens one."""
    newest = range(len(rollouts.steps))[::-1][:_NEWEST]
    is_cut = len(newest) < len(rollouts.steps)
    words = f"the newest {len(newest):,} of {len(rollouts.steps):,}" if is_cut else "newest first"
    frame = pd.DataFrame(
        {
            "step": rollouts.steps[newest],
            "rollout": rollouts.indices[newest],
            "reward": rollouts.rewards[newest],
            "characters" if length == "response_chars" else "tokens": rollouts.lengths[newest],
            "response": _previews(run, rollouts, newest),
        }
    ).dropna(axis="columns", how="all")
    st.markdown(f"#### Every response :gray[{words} · click to open]")
    row = tables.draw(
        frame,
        {
            "step": st.column_config.NumberColumn("step", format="%d", width=70),
            "rollout": st.column_config.NumberColumn("rollout", format="%d", width=75),
            "reward": st.column_config.NumberColumn("reward", format="%.4g", width=90),
            "response": st.column_config.TextColumn("response (start)"),
        },
        key=f"responses_{run.info.name}_{run.version}_{key}",
        most_pixels=300,
        placeholder="not recorded",
    )
    if row is not None:
        step, index = int(frame["step"].iloc[row]), int(frame["rollout"].iloc[row])
        state.go("rollouts", step=step, index=index, token=None)


def _previews(run: Run, rollouts: PromptRollouts, places: Sequence[int]) -> list[str | None]:
    """How some responses begin; None where the log holds no text."""
    texts: dict[tuple[int, int], object] = {}
    for step in np.unique(rollouts.steps[places]).tolist():
        rows = run.frame(("response",), (step, step))
        if "response" in rows:
            texts |= {(step, i): text for i, text in rows[["index", "response"]].to_numpy()}
    responses = (texts.get((int(rollouts.steps[i]), int(rollouts.indices[i]))) for i in places)
    return [
        visible_token(text, _PREVIEW_CHARACTERS) if isinstance(text, str) else None
        for text in responses
    ]
