"""The list of rollouts as the filters leave it: its order, its pages, and its rows on the screen."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from board.components.rollout_list import (
    Address,
    ListColumn,
    ListPage,
    ListState,
    rollout_list,
)
from board.store.run import Run
from board.store.table import places_by
from board.store.whole_run import Rows
from board.views import _filter_field, _rollout_columns, _rollout_words, _state
from board.views._text import one_line

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

Places = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Listed:
    """The rollouts of a scope that pass the filters.

    rows: of the scope's run or step. selected: [rows] which are listed; None: all. scope: how many
    rollouts the scope has without filters.
    """

    rows: Rows
    selected: npt.NDArray[np.bool_] | None
    scope: int

    def __len__(self) -> int:
        return len(self.rows) if self.selected is None else int(np.count_nonzero(self.selected))


def listed(run: Run, rows: Rows) -> Listed:
    """The rows of the scope that pass the filter, whose field is drawn."""
    scope = _in_scope(run, rows)
    selected = _filter_field.show(run, rows, scope, is_open=opened() is not None)
    return Listed(rows, selected, len(rows) if scope is None else int(np.count_nonzero(scope)))


def _in_scope(run: Run, rows: Rows) -> npt.NDArray[np.bool_] | None:
    """[rows] which are of the newest steps, where these are chosen; None: all are in scope."""
    steps = sorted(run.counts)[-_NEWEST_STEPS:]
    if _state.get("scope") != "last" or len(steps) == len(run.counts):
        return None
    return np.asarray(rows["step"].to_numpy() >= steps[0])


def opened() -> Address | None:
    """The rollout that the URL opens in the reader."""
    index = _state.get("index")
    return None if index is None else Address(int(_state.get("step")), int(index))


def sort_of(run: Run) -> tuple[str, bool]:
    """By which column the list is sorted, and whether descending; of several steps the newest first."""
    offered = [c for c in run.columns if c not in (*_rollout_columns.HIDDEN, "prompt", "response")]
    sort, descending = _state.ensure("sort", offered, "index"), bool(_state.get("desc"))
    if sort == "index" and _state.get("scope") != "step":
        return "step", not descending
    return sort, descending


def places_of(run: Run, listed: Listed, limit: int | None = None) -> Places:
    """[listed] places of the rollouts among the rows, in the order of the list; the first `limit`."""
    sort, descending = sort_of(run)
    return places_by(listed.rows, sort, listed.selected, descending=descending, limit=limit)


def identity(run: Run) -> str:
    """Names the list: by what is in it and how it is sorted, whatever page or rollout is open."""
    left_out = _OF_READER if _state.get("scope") == "step" else _OF_READER | {"step"}
    chosen = {name: text for name, text in _state.encoded().items() if name not in left_out}
    return hashlib.blake2b(repr((str(run.info.path), chosen)).encode(), digest_size=8).hexdigest()


def show(run: Run, page: ListPage, *, prefix: str) -> None:
    """Draws a page of the list, in which rollouts are opened."""
    sort, descending = sort_of(run)
    state = ListState(
        identity=identity(run),
        sort=sort,
        descending=descending,
        opened=opened(),
        parameters=tuple(_state.CHOICES),
        fits=not _rollout_columns.has_chosen(),
        prefix=prefix,
    )
    rollout_list(page, state, key="rollout_list")


def page_of(run: Run, listed: Listed) -> ListPage:
    """The page that is chosen, else the one with the open rollout; kept while nothing else changes."""
    number = int(_state.get("page"))
    key = (identity(run), run.version, number)
    before: tuple[Any, ListPage] | None = st.session_state.get(_PAGE)
    at = opened()
    if before is not None and before[0] == key and (number or at in (None, *before[1].addresses)):
        return before[1]
    page = _read_page(run, listed, number, at)
    st.session_state[_PAGE] = (key, page)
    return page


def _read_page(run: Run, listed: Listed, number: int, at: Address | None) -> ListPage:
    total = len(listed)
    number = min(number, max(total - 1, 0) // PAGE_ROWS)
    first = number * PAGE_ROWS
    places = places_of(run, listed, first + PAGE_ROWS + 1)
    if number == 0 and at is not None and total > PAGE_ROWS:
        first = _place_of(run, listed, at) // PAGE_ROWS * PAGE_ROWS
        places = places_of(run, listed, first + PAGE_ROWS + 1)
    start = max(first - 1, 0)
    around = _addresses(listed.rows, places[start : first + PAGE_ROWS + 1])
    own = around[first - start :][:PAGE_ROWS]
    return _drawn(
        run,
        listed.rows,
        places[first : first + PAGE_ROWS],
        own,
        first=first,
        total=total,
        before=around[0] if first else None,
        after=around[-1] if len(around) > first - start + PAGE_ROWS else None,
    )


def _place_of(run: Run, listed: Listed, at: Address) -> int:
    """The place of a rollout in the list; 0 where it is not in it."""
    whole = places_of(run, listed)
    steps, indices = (listed.rows[name].to_numpy()[whole] for name in Address._fields)
    hits = np.flatnonzero((steps == at.step) & (indices == at.index))
    return int(hits[0]) if len(hits) else 0


def _addresses(rows: Rows, places: Places) -> list[Address]:
    frame = rows.at(places, ("step", "index"))
    pairs = zip(frame["step"].tolist(), frame["index"].tolist(), strict=True)
    return [Address(int(step), int(index)) for step, index in pairs]


def _drawn(
    run: Run, rows: Rows, places: Places, addresses: Sequence[Address], **place: Any
) -> ListPage:
    names = _rollout_columns.names_of(run, sort_of(run)[0])
    has_words = "response_tokens" not in run.columns and "response" in run.columns
    wanted = [*names, "response"] if has_words and "response" not in names else names
    view = rows.at(places, _rollout_words.columns_in(rows, wanted))
    view = _rollout_words.in_words(run, view)
    words = [_words(text) or "" for text in view["response"]] if has_words else None
    columns = _rollout_columns.columns_of(run, view[names], has_words_line=has_words)
    values = [_cells(column, view[column.name]) for column in columns]
    return ListPage(
        columns=columns,
        addresses=addresses,
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
