"""The list of rollouts as the filters leave it: its order, its pages, and its rows on the screen."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
import streamlit as st

from board.components.rollout_list import (
    Address,
    ListColumn,
    ListPage,
    ListState,
    rollout_list,
)
from board.index.table_files import StepRange
from board.query.open_run import Run
from board.query.rollouts import Sorting, frame, place_of
from board.query.selection import Selection
from board.views.rollouts import filter_field, list_columns, match_words
from board.views.shared import state
from board.views.shared.text import one_line

PAGE_ROWS: Final = 200
_CUT: Final = 160
_NEWEST_STEPS: Final = 10
# What is chosen of the open rollout, and of other pages' curves: the list is the same with any of it.
_OF_READER: Final = frozenset(
    (
        *("index", "token", "zoom", "metric", "over", "strip", "masks", "heat", "vs", "tokenizer"),
        *("raw", "live", "chart", "page"),
    )
)

# In the session: what J and K must not wait for again.
_PAGE: Final = "_list_page"


@dataclass(frozen=True, slots=True)
class Listed:
    """The rollouts of a scope that pass the filters, and how many they are."""

    selection: Selection
    count: int

    def __len__(self) -> int:
        return self.count


def listed(run: Run) -> Listed:
    """The rollouts of the scope that pass the filter, whose field is drawn."""
    scope = replace(run.selection, steps=_steps_in_scope(run))
    return Listed(*filter_field.show(run, scope, is_open=opened() is not None))


def _steps_in_scope(run: Run) -> StepRange | None:
    if state.get("scope") == "step":
        return int(state.get("step")), int(state.get("step"))
    steps = sorted(run.counts)[-_NEWEST_STEPS:]
    return (steps[0], steps[-1]) if state.get("scope") == "last" and steps else None


def opened() -> Address | None:
    """The rollout that the URL opens in the reader."""
    index = state.get("index")
    return None if index is None else Address(int(state.get("step")), int(index))


def sort_of(run: Run) -> Sorting:
    """How the list is sorted; of several steps the newest first."""
    offered = [c for c in run.columns if c not in (*list_columns.HIDDEN, "prompt", "response")]
    sort, descending = state.ensure("sort", offered, "index"), bool(state.get("desc"))
    if sort == "index" and state.get("scope") != "step":
        return Sorting("step", not descending)
    return Sorting(sort, descending)


def identity(run: Run) -> str:
    """Names the list: by what is in it and how it is sorted, whatever page or rollout is open."""
    left_out = _OF_READER if state.get("scope") == "step" else _OF_READER | {"step"}
    chosen = {name: text for name, text in state.encoded().items() if name not in left_out}
    return hashlib.blake2b(repr((str(run.info.path), chosen)).encode(), digest_size=8).hexdigest()


def show(run: Run, page: ListPage, *, prefix: str) -> None:
    """Draws a page of the list, in which rollouts are opened."""
    sorting = sort_of(run)
    list_state = ListState(
        identity=identity(run),
        sort=sorting.column,
        descending=sorting.descending,
        opened=opened(),
        parameters=tuple(state.CHOICES),
        fits=not list_columns.has_chosen(),
        prefix=prefix,
    )
    rollout_list(page, list_state, key="rollout_list")


def page_of(run: Run, listed: Listed) -> ListPage:
    """The page that is chosen, else the one with the open rollout; kept while nothing else changes."""
    number = int(state.get("page"))
    key = (identity(run), run.version, number)
    before: tuple[Any, ListPage] | None = st.session_state.get(_PAGE)
    at = opened()
    if before is not None and before[0] == key and (number or at in (None, *before[1].addresses)):
        return before[1]
    page = _read_page(run, listed, number, at)
    st.session_state[_PAGE] = (key, page)
    return page


def _read_page(run: Run, listed: Listed, number: int, at: Address | None) -> ListPage:
    total, sorting = len(listed), sort_of(run)
    number = min(number, max(total - 1, 0) // PAGE_ROWS)
    if number == 0 and at is not None and total > PAGE_ROWS:
        number = place_of(listed.selection, sorting, *at) // PAGE_ROWS
    first = number * PAGE_ROWS
    start = max(first - 1, 0)
    names = list_columns.names_of(run, sorting.column)
    has_words = "response_tokens" not in run.columns and "response" in run.columns
    read = [*names, *match_words.PLACES, *(["response"] if has_words else [])]
    rows = frame(
        listed.selection,
        [name for name in dict.fromkeys(read) if name in run.columns],
        sorting,
        limit=first - start + PAGE_ROWS + 1,
        offset=start,
    )
    around = [Address(*map(int, pair)) for pair in zip(rows["step"], rows["index"], strict=True)]
    own = slice(first - start, first - start + PAGE_ROWS)
    return _drawn(
        run,
        rows[own],
        names,
        has_words=has_words,
        addresses=around[own],
        first=first,
        total=total,
        before=around[0] if first else None,
        after=around[-1] if len(around) > own.stop else None,
    )


def _drawn(
    run: Run, rows: pd.DataFrame, names: Sequence[str], *, has_words: bool, **place: Any
) -> ListPage:
    view = match_words.in_words(run, rows)
    words = [_words(text) or "" for text in view["response"]] if has_words else None
    columns = list_columns.columns_of(run, view[names], has_words_line=has_words)
    values = [_cells(column, view[column.name]) for column in columns]
    return ListPage(
        columns=columns,
        values=list(zip(*values, strict=True)),
        words=words,
        size=PAGE_ROWS,
        **place,
    )


def _cells(column: ListColumn, values: pd.Series[Any]) -> list[Any]:
    """A column's values as JSON has them, None where there is none."""
    if column.kind == "words":
        return [_words(value) for value in values]
    if column.name.startswith("is_"):
        return [None if pd.isna(value) else bool(value) for value in values]
    if pd.api.types.is_numeric_dtype(values.dtype):
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        return [float(value) if np.isfinite(value) else None for value in numbers]
    return [None if pd.isna(value) else one_line(value, 120) for value in values]


def _words(text: Any) -> str | None:
    """The first words of a text, on one line."""
    return None if pd.isna(text) else one_line(" ".join(str(text)[: 2 * _CUT].split()), _CUT)
