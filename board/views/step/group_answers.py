"""What a group was asked and what its rollouts answered, side by side, the best reward first."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd
import streamlit as st

from board.analysis.rollout import OpenRollout
from board.errors import BoardError
from board.index.group_ids import group_names
from board.query.open_run import Run
from board.views.shared import cache, state
from board.views.shared.text import number, plain

_BESIDE: Final = 4
_MOST_BESIDE: Final = 16
_TEXT_HEIGHT: Final = 190


def open_rollout(index: int) -> None:
    """The page of a rollout of the step."""
    state.go("rollouts", index=int(index), token=None)


def members(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rollouts of a group, the best reward first."""
    found = rows[group_names(rows) == name]
    if "reward" in found:
        return found.sort_values("reward", ascending=False, kind="stable")
    return found


def side_by_side(run: Run, rows: pd.DataFrame, name: str) -> None:
    """The group's responses, the best reward first: what was said, and what it earned."""
    own = members(rows, name)
    if "prompt" in own and isinstance(own["prompt"].iloc[0], str):
        opened = _opened(run, int(own["index"].iloc[0]))
        prompt = opened.record.texts.get("prompt") if opened else None
        if prompt:
            st.code(prompt, language=None, wrap_lines=True, height=_fit_height(prompt, 150))
    shown = [row for _, row in own.head(_MOST_BESIDE).iterrows()]
    for left in range(0, len(shown), _BESIDE):
        for column, row in zip(
            st.columns(_BESIDE, gap="small"), shown[left : left + _BESIDE], strict=False
        ):
            with column:
                _response(run, row)
    if len(own) > _MOST_BESIDE:
        st.caption(f"The best {_MOST_BESIDE} of {len(own):,} are shown.")


def _response(run: Run, row: pd.Series[Any]) -> None:
    index = int(row["index"])
    told = [
        f"{name} {number(float(row[name]))}"
        for name in ("reward", "advantage")
        if name in row and pd.notna(row[name])
    ]
    with st.container(gap=None):
        pressed = st.button(
            f"rollout {index}", key=f"beside_{index}", type="tertiary", help="Open the rollout"
        )
        if pressed:
            open_rollout(index)
        st.caption(plain(" · ".join(told) or "not scored"))
    opened = _opened(run, index)
    text = "" if opened is None else opened.response_text
    if text:
        st.code(text, language=None, wrap_lines=True, height=_fit_height(text, _TEXT_HEIGHT, 22))
    else:
        is_empty = opened is not None and "response" in opened.record.texts
        st.caption(
            "The response is empty." if is_empty else "No text of this response is recorded."
        )


def _opened(run: Run, index: int) -> OpenRollout | None:
    try:
        return cache.rollout(run, int(state.get("step")), index, str(state.get("tokenizer")))
    except BoardError:
        return None


def _fit_height(text: str, most: int, width: int = 110) -> Any:
    lines = sum(1 + len(line) // width for line in text.split("\n"))
    return "content" if 24 * lines < most else most
