"""The list of rollouts as the filters leave it: its order, its columns, its pages, and its rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.analysis.step_records import PLACES, StepRecords, bytes_again
from board.components.rollout_list import Address, ListColumn, ListPage, ListState, rollout_list
from board.core.metrics.definitions import REWARD_PART, reward_parts
from board.core.texts.conversation import (
    ConversationTurn,
    arguments_text,
    conversation_of,
    think_tags,
)
from board.export.rollout_frame import preview
from board.index.segments import LOCATION, PART
from board.query import splits
from board.query.open_run import Run
from board.query.rollouts import Sorting, frame, place_of, texts_at
from board.views.rollouts import filter_field
from board.views.rollouts.filter_field import Listed
from board.views.rollouts.labels import received_ids
from board.views.shared import browser_url, state
from board.views.shared.tables import definition, headings_of
from board.views.shared.text import one_line

PAGE_ROWS: Final = 200
HIDDEN: Final = frozenset((*LOCATION, PART, "file"))
"""Where a rollout is in the log."""
_TEXTS: Final = ("prompt", "response")
_MODEL: Final = ("assistant", "response")
"""Roles of the model."""
_NEWEST_STEPS: Final = 10
# Choices that leave the list as it is: of the open rollout, and of curves.
_OF_READER: Final = {
    *("index", "token", "zoom", "tokenizer", "live", "rollouts_chart", "page"),
    *("reader_metric", "reader_over", "reader_strip", "reader_masks", "reader_heat"),
    *("reader_vs", "reader_record"),
}
# Session key of the page of the list last drawn, so that J and K do not read it again.
_PAGE: Final = "_list_page"
# The usual columns in the order they are shown, and in the order in which they get room.
_USUAL: Final = (
    *("step", "index", "label", "split", "reward", REWARD_PART, "advantage", "k3_mean", "k3_max"),
    *("mismatch_kl_mean", "entropy_mean", "response_tokens", "response_chars", "env"),
    *("is_truncated", "response", "prompt", "group_id", "finish_reason", "ref_reward"),
    *("reward_gap", "k1_mean"),
)
_BY_WORTH: Final = (
    *(
        "step",
        "index",
        "label",
        "split",
        "reward",
        "response_tokens",
        "response_chars",
        "k3_mean",
        "env",
    ),
    *("response", "advantage", REWARD_PART, "entropy_mean", "prompt", "k3_max", "finish_reason"),
    *("is_truncated", "mismatch_kl_mean", "group_id", "reward_gap", "ref_reward", "k1_mean"),
)
_MOST_PARTS: Final = 4
_WIDTHS: Final = {
    "step": 44,
    "index": 30,
    "reward": 88,
    "is_truncated": 62,
    **dict.fromkeys(_TEXTS, 240),
}
_LEAST_NUMBER_WIDTH: Final = 60
_TEXT_WIDTHS: Final = (52, 200)
_LARGEST_PAGE_BYTES: Final = 2 << 20
"""Read of the log for a page of the list; more would keep it waiting."""
_LONGEST_TEXT_BYTES: Final = 64 << 10
"""Read of the index; of a longer text the preview is shown."""


def listed(run: Run) -> Listed:
    """The rollouts of the scope that pass the filter, whose field is drawn."""
    steps, newest = None, sorted(run.counts)[-_NEWEST_STEPS:]
    if state.get("rollouts_scope") == "step":
        steps = int(state.get("step")), int(state.get("step"))
    elif state.get("rollouts_scope") == "last" and newest:
        steps = newest[0], newest[-1]
    scope = run.where(steps=steps)
    return filter_field.show(run, scope, is_open=opened() is not None)


def opened() -> Address | None:
    """The rollout that the URL opens in the reader."""
    index = state.get("index")
    return None if index is None else Address(int(state.get("step")), int(index))


def sort_of(run: Run) -> Sorting:
    """How the list is sorted; of several steps the newest first."""
    offered = [c for c in run.columns if c not in (*HIDDEN, *_TEXTS)]
    sort, descending = state.ensure("sort", offered, "index"), bool(state.get("desc"))
    if sort == "index" and state.get("rollouts_scope") != "step":
        return Sorting("step", not descending)
    return Sorting(sort, descending)


def _identity(run: Run) -> str:
    """Identifies the list by its contents and order, whichever page or rollout is open."""
    left_out = _OF_READER if state.get("rollouts_scope") == "step" else _OF_READER | {"step"}
    chosen = {name: text for name, text in state.encoded().items() if name not in left_out}
    return hashlib.blake2b(repr((str(run.info.path), chosen)).encode(), digest_size=8).hexdigest()


def show(run: Run, page: ListPage, *, prefix: str) -> None:
    """Draws a page of the list, in which rollouts are opened."""
    sorting = sort_of(run)
    list_state = ListState(
        identity=_identity(run),
        sort=sorting.column,
        descending=sorting.descending,
        opened=opened(),
        parameters=tuple(state.CHOICES),
        fits=not state.get("rollouts_columns"),
        prefix=prefix,
        run=run.info.name,
        received=received_ids(),
        answered=browser_url.received(),
    )
    rollout_list(page, list_state, key="rollout_list")


def page_of(run: Run, listed: Listed) -> ListPage:
    """The page that is chosen, else the one with the open rollout; cached while nothing else changes."""
    number = int(state.get("page"))
    key = (_identity(run), run.version, run.labels.version, number)
    before: tuple[Any, ListPage] | None = st.session_state.get(_PAGE)
    at = opened()
    if before is not None and before[0] == key and (number or at in (None, *before[1].addresses)):
        return before[1]
    page = _read_page(run, listed, number, at)
    st.session_state[_PAGE] = (key, page)
    return page


def _read_page(run: Run, listed: Listed, number: int, at: Address | None) -> ListPage:
    sorting = sort_of(run)
    number = min(number, max(listed.count - 1, 0) // PAGE_ROWS)
    if number == 0 and at is not None and listed.count > PAGE_ROWS:
        number = place_of(listed.run, sorting, *at) // PAGE_ROWS
    first = number * PAGE_ROWS
    start = max(first - 1, 0)
    # What was chosen, else the usual columns that the run has; and what the list is sorted by.
    names = state.get("rollouts_columns") or _usual(run, _USUAL)
    first_of_all = dict.fromkeys(("index", sorting.column))
    names = [*(name for name in first_of_all if name not in names), *names]
    has_words_line = "response_tokens" not in run.columns and "response" in run.columns
    read = [*names, *PLACES, *(["response"] if has_words_line else [])]
    read = [name for name in dict.fromkeys(read) if name in run.columns]
    limit = first - start + PAGE_ROWS + 1
    rows = frame(listed.run, read, sorting, limit=limit, offset=start)
    around = [Address(*map(int, pair)) for pair in zip(rows["step"], rows["index"], strict=True)]
    own = slice(first - start, first - start + PAGE_ROWS)
    view, words = with_previews(run, rows[own]), None
    if has_words_line:
        words = ["" if pd.isna(text) else preview(text) for text in view["response"]]
        if not state.get("rollouts_columns"):
            names = [name for name in names if name != "response"]
    worth = {name: place for place, name in enumerate(_usual(run, _BY_WORTH))}
    words_above = headings_of(run)
    columns = [
        _column(run, name, words_above[name], view[name], worth.get(name, len(worth)))
        for name in names
    ]
    values = [_cells(column, view[column.name]) for column in columns]
    return ListPage(
        columns=columns,
        addresses=around[own],
        values=list(zip(*values, strict=True)),
        words=words,
        first=first,
        total=listed.count,
        size=PAGE_ROWS,
        before=around[0] if first else None,
        after=around[-1] if len(around) > own.stop else None,
    )


def _usual(run: Run, order: Sequence[str]) -> list[str]:
    """The usual columns that the run has, in an order that says where the parts of a reward come."""
    parts = reward_parts(run.metrics)[:_MOST_PARTS]
    names = [c for name in order for c in (parts if name == REWARD_PART else [name])]
    has_steps, has_splits = state.get("rollouts_scope") != "step", state.get("split") == splits.ALL
    is_useful = {"step": has_steps, "split": has_splits}
    return [c for c in names if c in run.columns and is_useful.get(c, True)]


def _column(run: Run, name: str, label: str, values: pd.Series[Any], worth: int) -> ListColumn:
    low, high = _bar_range(run, name)
    is_text = not pd.api.types.is_numeric_dtype(values.dtype)
    if is_text:
        longest = max((len(str(value)) for value in values.dropna().unique()), default=0)
        width = int(np.clip(7 * longest + 6, *_TEXT_WIDTHS))
    else:
        width = max(_LEAST_NUMBER_WIDTH, 6 * len(label) + 12)
    kind = "bar" if low < high else "text" if is_text else "number"
    return ListColumn(
        name,
        label,
        one_line(definition(name), 600),
        _WIDTHS.get(name, width),
        worth,
        "words" if name in _TEXTS else kind,
        low,
        high,
    )


def _bar_range(run: Run, name: str) -> tuple[float, float]:
    """The lowest value in scope, at most 0, and the highest, for bars; equal where none are drawn."""
    if name != "reward" or "reward_n" not in run.steps:
        return 0.0, 0.0
    steps = run.steps
    if state.get("rollouts_scope") == "step":
        steps = steps[steps["step"] == int(state.get("step"))]
    low, high = min(float(steps["reward_q00"].min()), 0.0), float(steps["reward_q100"].max())
    return (low, high) if high > low else (0.0, 0.0)


def _cells(column: ListColumn, values: pd.Series[Any]) -> list[Any]:
    """A column's values as JSON has them, None where there is none."""
    if column.kind == "words":
        return [None if pd.isna(value) else preview(value) for value in values]
    if column.name.startswith("is_"):
        return [None if pd.isna(value) else bool(value) for value in values]
    if pd.api.types.is_numeric_dtype(values.dtype):
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        return [float(value) if np.isfinite(value) else None for value in numbers]
    return [None if pd.isna(value) else one_line(value, 120) for value in values]


def with_previews(run: Run, view: pd.DataFrame) -> pd.DataFrame:
    """The rows with what the user said last as prompt, and as response the last answer without its
    reasoning. view: with PLACES as far as the run has them.
    """
    texts = {name: view[name].tolist() for name in _TEXTS if name in view}
    if not texts:
        return view
    for place, turns in _conversations(run, view):
        asked = [turn for turn in turns if turn.given and turn.role == "user"]
        generated = [turn for turn in turns if not turn.given and turn.role in _MODEL]
        for name, own in (("prompt", asked), ("response", generated)):
            if name in texts and own and (text := _last_words(own[-1])):
                texts[name][place] = text
    return view.assign(**texts)


def _conversations(run: Run, view: pd.DataFrame) -> Iterator[tuple[int, list[ConversationTurn]]]:
    """The turns of the rollouts with their places in `view`: from the log where that is quick, else from
    the whole texts of the index.
    """
    tags = think_tags(str(state.get("think")))
    is_near = isinstance(run.info.path, Path) and not run.info.is_joined
    if is_near and bytes_again(run, view) <= _LARGEST_PAGE_BYTES:
        for place, record in StepRecords(run).of(view):
            yield place, conversation_of(record.messages, record.texts, tags)
        return
    at = view["step"].tolist(), view["index"].tolist()
    columns = (texts_at(run, *at, name, _LONGEST_TEXT_BYTES) for name in _TEXTS)
    for place, texts in enumerate(zip(*columns, strict=True)):
        known = {name: text for name, text in zip(_TEXTS, texts, strict=True) if text is not None}
        yield place, conversation_of((), known, tags)


def _last_words(turn: ConversationTurn) -> str:
    """What a turn says last, else what it calls last."""
    texts = [block.text for block in turn.blocks if block.kind == "text" and block.text.strip()]
    calls = [block for block in turn.blocks if block.kind == "call"]
    called = [f"{call.name}({arguments_text(call.arguments)})" for call in calls]
    return (texts or called or [""])[-1]
