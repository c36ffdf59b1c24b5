"""Columns of the list of rollouts: which are offered, and how wide they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from board.components.rollout_list import ListColumn
from board.core.metrics.definitions import REWARD_PART, base_name
from board.query import splits
from board.query.open_run import Run
from board.views.shared import state, table_headings

TEXTS: Final = frozenset({"prompt", "response"})
HIDDEN: Final = frozenset({"file", "line", "offset", "size"})
_BARS: Final = frozenset({"reward"})
# The usual columns in the order they are shown, and in the order in which they get room.
_USUAL: Final = (
    *("step", "index", "split", "reward", REWARD_PART, "advantage", "k3_mean", "k3_max"),
    *("mismatch_kl_mean", "entropy_mean", "response_tokens", "response_chars", "env"),
    *("is_truncated", "response", "prompt", "group_id", "finish_reason", "ref_reward"),
    *("reward_gap", "k1_mean"),
)
_BY_WORTH: Final = (
    *("step", "index", "split", "reward", "response_tokens", "response_chars", "k3_mean", "env"),
    *("response", "advantage", REWARD_PART, "entropy_mean", "prompt", "k3_max", "finish_reason"),
    *("is_truncated", "mismatch_kl_mean", "group_id", "reward_gap", "ref_reward", "k1_mean"),
)
_MOST_PARTS: Final = 4
_WIDTHS: Final = {"step": 44, "index": 30, "reward": 88, "is_truncated": 62}
_TEXT_WIDTH: Final = 240
_NUMBER_WIDTH: Final = 60
_LONGEST_NAME: Final = 200


def names_of(run: Run, sort: str) -> list[str]:
    """What was chosen, else the usual columns that the run has; and what the list is sorted by."""
    chosen = list(state.get("cols")) or _usual(run, _USUAL)
    missing = [name for name in dict.fromkeys(("index", sort)) if name not in chosen]
    return [*missing, *chosen]


def has_chosen() -> bool:
    """Whether the user chose columns, which are all shown then."""
    return bool(state.get("cols"))


def columns_of(run: Run, view: pd.DataFrame, *, has_words_line: bool) -> list[ListColumn]:
    """How the columns of some rows are shown. has_words_line: the response has a line of its own."""
    worth = {name: place for place, name in enumerate(_usual(run, _BY_WORTH))}
    if has_words_line and not has_chosen():
        view = view.drop(columns="response")
    return [_column(run, str(name), view[name], worth) for name in view]


def _usual(run: Run, order: Sequence[str]) -> list[str]:
    """The usual columns that the run has, in an order that says where the parts of a reward stand."""
    parts = [c for c in run.metrics if c.startswith(REWARD_PART)][:_MOST_PARTS]
    found = [c for name in order for c in (parts if name == REWARD_PART else [name])]
    is_shown = {"step": state.get("scope") != "step", "split": state.get("split") == splits.ALL}
    return [c for c in found if c in run.columns and is_shown.get(c, True)]


def _column(run: Run, name: str, values: pd.Series[Any], worth: dict[str, int]) -> ListColumn:
    low, high = _range(run, name)
    is_text = not pd.api.types.is_numeric_dtype(values.dtype)
    kind = "bar" if low < high else "text" if is_text else "number"
    return ListColumn(
        name,
        table_headings.short_heading(name),
        table_headings.definition(name),
        _width(name, values, is_text=is_text),
        worth.get(name, len(worth)),
        "words" if name in TEXTS else kind,
        low,
        high,
    )


def _range(run: Run, name: str) -> tuple[float, float]:
    """The lowest (at most 0) and the highest value of a column in scope, which bars are drawn between;
    equal where none are drawn.
    """
    stem = base_name(name)
    if name not in _BARS or f"{stem}_n" not in run.steps:
        return 0.0, 0.0
    steps = run.steps
    if state.get("scope") == "step":
        steps = steps[steps["step"] == int(state.get("step"))]
    low, high = float(steps[f"{stem}_q00"].min()), float(steps[f"{stem}_q100"].max())
    return (min(low, 0.0), high) if high > min(low, 0.0) else (0.0, 0.0)


def _width(name: str, values: pd.Series[Any], *, is_text: bool) -> int:
    """Pixels that a column takes; of a long text the least."""
    if name in TEXTS:
        return _TEXT_WIDTH
    if name in _WIDTHS:
        return _WIDTHS[name]
    if not is_text:
        return max(_NUMBER_WIDTH, 6 * len(table_headings.short_heading(name)) + 12)
    longest = max((len(str(value)) for value in values.dropna().unique()), default=0)
    return min(max(52, 7 * longest + 6), _LONGEST_NAME)
