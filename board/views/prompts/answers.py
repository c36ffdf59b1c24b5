"""What was answered to one prompt: whole at some steps or at a chosen one, and a list of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.core.groups.statistics import IntArray
from board.errors import BoardError
from board.query.open_run import Run
from board.query.prompts import PromptRollouts
from board.views.shared import cache, state, step_choice
from board.views.shared.text import number, piece_shown, plain

_BESIDE: Final = 3
# Answers of a step that are read and shown at once.
_MOST_WHOLE: Final = 12
_TEXT_HEIGHT: Final = 190
_CUT: Final = 160
_MOST_LISTED: Final = 400
"""Streamlit sends every entry of a menu with the page and makes an element of it in the browser."""
_TYPED: Final = "_pstep_typed"
_NO_STEP: Final = "first, middle, last"
_WHICH: Final = (
    "Three steps: the first, middle and last at which the prompt was seen, with the best and the worst "
    "answer of each. One step: all of its answers."
)
# Responses that are listed: each step they are of is read for them.
_NEWEST: Final = 64


def show(run: Run, key: int, own: PromptRollouts, length: str | None) -> None:
    """The answers at the chosen step, or the best and the worst of three; then the list.

    length: the column of their lengths; None: the log has none.
    """
    step = _choose_step(np.unique(own.steps).tolist())
    if step is None:
        _some(run, own)
    else:
        _of_step(run, own, step)
    _every_response(run, key, own, length)


def _choose_step(seen: list[int]) -> int | None:
    """A step at which the prompt was seen; None: the first, the middle and the last of them."""
    chosen: int | None = state.ensure("pstep", [None, *seen], None)
    place = -1 if chosen is None else seen.index(chosen)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.markdown("#### Answers :gray[best first · click to open]", width="content")
        st.space("stretch")
        if len(seen) > _MOST_LISTED:
            _type(seen, chosen)
        else:
            _list(seen)
        _move("chevron_left", "Previous step", "pstep", seen, place - 1)
        _move("chevron_right", "Next step", "pstep", seen, place + 1)
    return chosen


def _list(seen: list[int]) -> None:
    st.selectbox(
        "Answers at step",
        [None, *seen],
        key="pstep",
        width=230,
        # None is no choice to Streamlit: what it stands for is told in its place.
        placeholder=_NO_STEP,
        format_func=lambda step: _NO_STEP if step is None else f"step {step}, all of them",
        help=_WHICH,
        on_change=state.put,
        kwargs={"pfrom": 0},
        persist_state="session",
    )


def _type(seen: list[int], chosen: int | None) -> None:
    # A field of its own: what is typed may be no step at which the prompt was seen.
    state.put(pstep=chosen)
    st.session_state[_TYPED] = chosen
    st.number_input(
        "Answers at step",
        value=None,
        step=1,
        key=_TYPED,
        width=230,
        placeholder=_NO_STEP,
        help=f"{_WHICH} The prompt was seen at {len(seen):,} steps, {seen[0]} to {seen[-1]}. Type a "
        "step; the nearest one is shown.",
        on_change=_take_typed,
        args=(seen, chosen),
    )


def _take_typed(seen: Sequence[int], before: int | None) -> None:
    wanted: int | None = st.session_state[_TYPED]
    if wanted is not None:
        wanted = step_choice.nearest(seen, wanted, wanted if before is None else before)
    state.put(pstep=wanted, pfrom=0)


def _move(icon: str, words: str, name: str, places: Sequence[int], to: int) -> None:
    there = 0 <= to < len(places)
    st.button(
        "",
        icon=f":material/{icon}:",
        help=words,
        key=f"move_{name}_{icon}",
        disabled=not there,
        on_click=state.put,
        kwargs={"pfrom": 0, name: places[to] if there else None},
    )


def _best_first(own: PromptRollouts, step: int) -> IntArray:
    """Places of the rollouts of a step, those without a reward last."""
    places = np.flatnonzero(own.steps == step)
    rewards = own.rewards[places]
    order = np.argsort(np.where(np.isfinite(rewards), -rewards, np.inf), kind="stable")
    return places[order]


def _some(run: Run, own: PromptRollouts) -> None:
    """What was answered at the first, the middle and the last step: the best and the worst of each."""
    seen = np.unique(own.steps)
    count = min(_BESIDE, len(seen))
    chosen = seen[np.unique(np.linspace(0, len(seen) - 1, count).round().astype(int))]
    for column, step in zip(st.columns(_BESIDE, gap="small"), chosen.tolist(), strict=False):
        with column:
            order = _best_first(own, step)
            for place in dict.fromkeys((int(order[0]), int(order[-1]))):
                _response(run, own, place)


def _of_step(run: Run, own: PromptRollouts, step: int) -> None:
    """Every answer of one step, a dozen at a time."""
    order = _best_first(own, step)
    starts = list(range(0, len(order), _MOST_WHOLE))
    page = min(int(state.get("pfrom")) // _MOST_WHOLE, len(starts) - 1)
    shown = order[starts[page] : starts[page] + _MOST_WHOLE].tolist()
    for left in range(0, len(shown), _BESIDE):
        row = shown[left : left + _BESIDE]
        for column, place in zip(st.columns(_BESIDE, gap="small"), row, strict=False):
            with column:
                _response(run, own, place)
    if len(starts) > 1:
        first = starts[page] + 1
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(
                f"{first:,} to {first + len(shown) - 1:,} of {len(order):,}", width="content"
            )
            _move("arrow_back", "Previous answers", "pfrom", starts, page - 1)
            _move("arrow_forward", "Next answers", "pfrom", starts, page + 1)


def _every_response(run: Run, key: int, own: PromptRollouts, length: str | None) -> None:
    """Its newest rollouts as the index keeps them; a click opens one."""
    newest = range(len(own.steps))[::-1][:_NEWEST]
    cut = len(newest) < len(own.steps)
    told = f"the newest {len(newest):,} of {len(own.steps):,}" if cut else "newest first"
    frame = pd.DataFrame(
        {
            "step": own.steps[newest],
            "index": own.indices[newest],
            "reward": own.rewards[newest],
            "characters" if length == "response_chars" else "tokens": own.lengths[newest],
            "response": _beginnings(run, own, newest),
        }
    ).dropna(axis="columns", how="all")
    st.markdown(f"#### Every response :gray[{told} · click to open]")
    event: Any = st.dataframe(
        frame.rename(columns={"index": "rollout"}),
        key=f"responses_{run.info.name}_{run.version}_{key}",
        hide_index=True,
        height=min(36 * (len(frame) + 1) + 3, 300),
        row_height=36,
        on_select="rerun",
        selection_mode="single-cell",
        placeholder="not recorded",
        column_config={
            "step": st.column_config.NumberColumn("step", format="%d", width=70),
            "rollout": st.column_config.NumberColumn("rollout", format="%d", width=75),
            "reward": st.column_config.NumberColumn("reward", format="%.4g", width=90),
            "response": st.column_config.TextColumn("response (start)"),
        },
    )
    if event.selection.cells:
        row = frame.iloc[int(event.selection.cells[0][0])]
        state.go("rollouts", step=int(row["step"]), index=int(row["index"]), token=None)


def _beginnings(run: Run, own: PromptRollouts, places: Sequence[int]) -> list[str | None]:
    """How some responses begin; None where the log holds no text."""
    rows: dict[int, Mapping[int, object]] = {}
    for step in dict.fromkeys(own.steps[places].tolist()):
        found = run.rows_of(step, ("response",))
        rows[step] = (
            dict(zip(found["index"], found["response"], strict=True)) if "response" in found else {}
        )
    told = (rows.get(int(own.steps[i]), {}).get(int(own.indices[i])) for i in places)
    return [piece_shown(text, _CUT) if isinstance(text, str) else None for text in told]


def _response(run: Run, own: PromptRollouts, place: int) -> None:
    step, index = int(own.steps[place]), int(own.indices[place])
    reward = float(own.rewards[place])
    label = plain(f"step {step} · rollout {index} · reward {number(reward)}")
    if st.button(label, key=f"open_{step}_{index}", type="tertiary", help="Open the rollout"):
        state.go("rollouts", step=step, index=index, token=None)
    try:
        opened = cache.rollout(run, step, index, str(state.get("tokenizer")))
    except BoardError as error:
        st.caption(plain(error, 200))
        return
    text = opened.record.texts.get("response") or "".join(opened.tokens)
    if text:
        lines = sum(1 + len(line) // 34 for line in text.split("\n"))
        height = "content" if 24 * lines < _TEXT_HEIGHT else _TEXT_HEIGHT
        st.code(text, language=None, wrap_lines=True, height=height)
