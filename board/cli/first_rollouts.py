"""The first rollouts of a whole run, sorted and filtered, without reading the table of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.cli.where import Condition, known_column, matches
from board.core.expressions import Column, Expression, evaluate
from board.store.narrowed import NarrowedRun
from board.store.run import Run
from board.store.table import places_by
from board.store.whole_run import Rows, rows_of_run

_NEED_MORE: Final = ("prompt", "response", "file")
"""What is asked of these is asked of more than the table holds: of whole texts, and of names of files."""


def suffices(asked: Sequence[Condition] | Expression, sort: str | None) -> bool:
    """Whether columns of the table alone say which rollouts are wanted."""
    of = asked.names if isinstance(asked, Expression) else [one.column for one in asked]
    return sort != "file" and not {*of} & {*_NEED_MORE}


def first_rollouts(
    run: Run,
    asked: Sequence[Condition] | Expression,
    sort: str | None,
    *,
    descending: bool,
    limit: int,
) -> pd.DataFrame:
    """The rows of `run.rollouts` that sorting and filtering all of them puts first; their columns are
    those of the run that it is narrowed from. Raises ChoiceError for a column that is not there.
    """
    rows, whole = rows_of_run(run), run
    while isinstance(whole, NarrowedRun):
        whole = whole.whole
    among = _held(rows, asked)
    if sort is None:
        places = np.arange(len(rows)) if among is None else np.flatnonzero(among)
        places = (places[::-1] if descending else places)[:limit]
    else:
        column = known_column(sort, rows.columns)
        places = places_by(rows, column, among, descending=descending, limit=limit)[:limit]
    return rows.at(np.asarray(places, np.int64)).reindex(columns=[*whole.columns])


def _held(rows: Rows, asked: Sequence[Condition] | Expression) -> npt.NDArray[np.bool_] | None:
    """[rows] which are asked for; None: all."""
    if isinstance(asked, Expression):
        holds = evaluate(asked, lambda name: _column(rows, name)) == 1
        return np.broadcast_to(holds, (len(rows),))
    found: npt.NDArray[np.bool_] | None = None
    for condition in asked:
        own = matches(rows[known_column(condition.column, rows.columns)], condition).to_numpy(bool)
        found = own if found is None else found & own
    return found


def _column(rows: Rows, name: str) -> Column:
    values: pd.Series[Any] = rows[known_column(name, rows.columns)]
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values.to_numpy(np.float64, na_value=np.nan)
    return values.astype(object).where(values.notna(), None).to_numpy()
