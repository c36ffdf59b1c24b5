"""Columns of the table of rollouts: which are shown, how wide they are, and how their values look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from board.core.metrics import REWARD_PART, rollout_metric
from board.store import splits
from board.store.run import Run
from board.store.steps import base_name
from board.views import _headings, _state

TEXTS: Final = frozenset({"prompt", "response"})
_BARS: Final = frozenset({"reward", "response_tokens", "response_chars"})
# The usual columns as they stand, and the most telling first: those that have room are shown.
_DEFAULT: Final = (
    "step",
    "index",
    "split",
    "env",
    "reward",
    REWARD_PART,
    "advantage",
    "k3_mean",
    "k3_max",
    "mismatch_kl_mean",
    "entropy_mean",
    "response_tokens",
    "is_truncated",
    "response",
    "prompt",
    "group_id",
    "finish_reason",
    "ref_reward",
    "reward_gap",
    "k1_mean",
)
_BY_WORTH: Final = (
    *("step", "index", "split", "reward", "response", "response_tokens", "k3_mean", "advantage"),
    *(REWARD_PART, "entropy_mean", "env", "k3_max", "prompt", "is_truncated", "finish_reason"),
    *("mismatch_kl_mean", "group_id", "reward_gap", "ref_reward", "k1_mean"),
)
_MOST_PARTS: Final = 4
# Pixels that a table has on a page of 1440; texts take what the others leave.
_ROOM: Final = 1088
_TEXT_WIDTH: Final = 240
_LONGEST_NAME: Final = 260


def shown_columns(run: Run) -> list[str]:
    """What was chosen; else of the usual columns the most telling ones that fit beside each other."""
    chosen = _state.get("cols")
    if chosen:
        return list(chosen)
    kinds = {column.name: column for column in run.shown.columns}
    room, fitting = _ROOM, set[str]()
    for name in _usual(run, _BY_WORTH):
        needed = _width(name, is_text=kinds[name].words)
        if needed <= room:
            fitting.add(name)
            room -= needed
    return [name for name in _usual(run, _DEFAULT) if name in fitting]


def _usual(run: Run, order: Sequence[str]) -> list[str]:
    """The usual columns that the run has, in an order that says where the parts of a reward stand."""
    parts = [c for c in run.metrics if c.startswith(REWARD_PART)][:_MOST_PARTS]
    found = [c for name in order for c in (parts if name == REWARD_PART else [name])]
    told = {"step": _state.get("scope") == "run", "split": _state.get("split") == splits.ALL}
    return [c for c in found if c in run.columns and told.get(c, True)]


def _range(run: Run, name: str) -> tuple[float, float]:
    """The lowest (at most 0) and the highest value of a column in scope, which bars are drawn between;
    equal where none are drawn.
    """
    stem = base_name(name)
    if name not in _BARS or f"{stem}_n" not in run.steps:
        return 0.0, 0.0
    steps = run.steps
    if _state.get("scope") == "step":
        steps = steps[steps["step"] == int(_state.get("step"))]
    low, high = float(steps[f"{stem}_q00"].min()), float(steps[f"{stem}_q100"].max())
    return (min(low, 0.0), high) if high > min(low, 0.0) else (0.0, 0.0)


def _is_text(values: pd.Series[Any]) -> bool:
    return not pd.api.types.is_numeric_dtype(values.dtype)


def _width(name: str, *, is_text: bool) -> int:
    """Pixels that a column takes; of a text the least."""
    if name in TEXTS:
        return _TEXT_WIDTH
    if is_text:
        return 90
    return 110 if name in _BARS else _headings.width(name)


def _fitting(name: str, values: pd.Series[Any]) -> int:
    """Pixels that a column takes with these values: names that begin alike are told by their ends."""
    least = _width(name, is_text=_is_text(values))
    if name in TEXTS or not _is_text(values):
        return least
    longest = max((len(str(value)) for value in values.dropna().unique()), default=0)
    return min(max(least, 7 * longest + 20), _LONGEST_NAME)


def configured(run: Run, view: pd.DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """How columns of the table are shown. view: the rows that are shown."""
    room = _ROOM - sum(_fitting(name, view[name]) for name in names)
    return {name: _column(name, view[name], _range(run, name), max(room, 0)) for name in names}


def _column(name: str, values: pd.Series[Any], between: tuple[float, float], room: int) -> Any:
    """room: pixels that are left over, for the response."""
    # Column labels are plain text in the table's canvas, never Markdown.
    label, help_text = _headings.heading(name), _headings.explained(name)
    width = _fitting(name, values)
    if name in TEXTS:
        return st.column_config.TextColumn(name, width=width + (room if name == "response" else 0))
    if _is_text(values):
        return st.column_config.TextColumn(label, help=help_text, width=width)
    if between[0] < between[1]:
        bar_format = "%d" if name != "reward" else "%.3g"
        return st.column_config.ProgressColumn(
            label,
            help=help_text,
            min_value=between[0],
            max_value=between[1],
            format=bar_format,
            width=width,
        )
    unit = rollout_metric(name).unit
    whole = pd.api.types.is_integer_dtype(values.dtype) or unit in ("tokens", "characters")
    return st.column_config.NumberColumn(
        label,
        help=help_text,
        format="%d" if whole else _headings.number_format(values),
        width=width,
        pinned=True if name == "index" else None,
    )
