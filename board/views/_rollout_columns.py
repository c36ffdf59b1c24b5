"""Which columns the table of rollouts shows when nothing is chosen, how wide, and how each is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd
import streamlit as st

from board.core.metrics import REWARD_PART, rollout_metric
from board.store import splits
from board.store.run import Run
from board.views import _headings, _state

TEXTS: Final = frozenset({"prompt", "response"})
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
_BARS: Final = frozenset({"reward", "response_tokens", "response_chars"})


def shown(run: Run, rows: pd.DataFrame) -> list[str]:
    """What was chosen; else of the usual columns the most telling ones that fit beside each other."""
    chosen = _state.get("cols")
    if chosen:
        return list(chosen)
    room, fitting = _ROOM, set[str]()
    for name in _usual(run, _BY_WORTH):
        needed = _width(name, rows[name])
        if needed <= room:
            fitting.add(name)
            room -= needed
    return [name for name in _usual(run, _DEFAULT) if name in fitting]


def room_left(rows: pd.DataFrame, columns: Sequence[str]) -> int:
    """Pixels that these columns leave of the table's width; below 0 where they do not fit."""
    return _ROOM - sum(_width(name, rows[name]) for name in columns)


def _usual(run: Run, order: Sequence[str]) -> list[str]:
    """The usual columns that the run has, in an order that says where the parts of a reward stand."""
    parts = [c for c in run.metrics if c.startswith(REWARD_PART)][:_MOST_PARTS]
    found = [c for name in order for c in (parts if name == REWARD_PART else [name])]
    told = {"step": _state.get("scope") == "run", "split": _state.get("split") == splits.ALL}
    return [c for c in found if c in run.columns and told.get(c, True)]


def _is_bar(name: str, values: pd.Series[Any]) -> bool:
    return bool(name in _BARS and values.notna().any() and values.max() > min(0.0, values.min()))


def _width(name: str, values: pd.Series[Any]) -> int:
    """Pixels that a column takes; of a text the least."""
    if name in TEXTS:
        return _TEXT_WIDTH
    if pd.api.types.is_bool_dtype(values.dtype):
        return 80
    if not pd.api.types.is_numeric_dtype(values.dtype):
        return 90
    return 110 if name in _BARS else _headings.width(name)


def config(name: str, values: pd.Series[Any], room: int) -> Any:
    """How a column is shown. room: pixels that are left over, for the response."""
    # Column labels are plain text in the table's canvas, never Markdown.
    label, help_text = _headings.heading(name), _headings.explained(name)
    width = _width(name, values)
    if name in TEXTS:
        return st.column_config.TextColumn(
            name, width=width + (max(room, 0) if name == "response" else 0)
        )
    if pd.api.types.is_bool_dtype(values.dtype):
        return st.column_config.CheckboxColumn(label, help=help_text, width=width)
    if not pd.api.types.is_numeric_dtype(values.dtype):
        return st.column_config.TextColumn(label, help=help_text, width=width)
    if _is_bar(name, values):
        low = float(min(0.0, values.min()))
        bar_format = "%d" if name != "reward" else "%.3g"
        return st.column_config.ProgressColumn(
            label,
            help=help_text,
            min_value=low,
            max_value=float(values.max()),
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
