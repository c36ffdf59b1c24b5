"""Expressions over the rollouts of a run: as a filter of rows, and as a metric over the steps.

Texts are read whole from the log, and only of rows for which the columns of the table leave it open
whether the expression holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.expression_parser import parse
from board.core.expression_tree import Expression, Joined, Node, names_in
from board.core.expressions import UNREAD, Values, evaluate, evaluate_part
from board.store import segments
from board.store.read_texts import WHOLE_TEXTS, whole_text
from board.store.run import Run
from board.store.step_records import PLACES, StepRecords
from board.store.steps import steps_table
from board.store.table_files import StepRange
from board.store.whole_run import FrameRows, Rows, RunRows, rows_of_run

OWN: Final = "own metric"
"""Stem of the columns of `own_steps`."""
_AT_ONCE: Final = 2
_BATCH: Final = 64
"""Rollouts whose texts are in memory at a time."""
_NOT_OFFERED: Final = frozenset((*segments.LOCATION, segments.PART)) - {"file", "line"}
Progress = Callable[[int, int], None]
"""Called with rollouts done and rollouts in all; raising from it stops the reading."""


def names_for(run: Run) -> tuple[str, ...]:
    """The names that an expression over the rollouts of a run can use."""
    columns = [name for name in run.columns if name not in _NOT_OFFERED]
    return tuple(dict.fromkeys((*columns, *WHOLE_TEXTS)))


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What columns alone tell of a filter. holds: [rows] where it is known to hold; unread: [n] places of
    the rows whose texts decide, in their order.
    """

    holds: npt.NDArray[np.bool_]
    unread: npt.NDArray[np.intp]


def parsed(run: Run, text: str) -> Expression:
    """An expression over the rollouts of a run. Raises ExpressionError."""
    return parse(text, names_for(run))


def rows_where(
    run: Run, rows: Rows, text: str, progress: Progress | None = None
) -> npt.NDArray[np.bool_]:
    """[rows] for which an expression holds; what is not known of a row does not hold.

    rows: some of the run. progress: of the rollouts whose texts are read. Raises ExpressionError for an
    expression that can't be read or mixes texts and numbers.
    """
    expression = parsed(run, text)
    return with_texts(run, rows, expression, narrow(run, rows, expression), progress)


def narrow(
    run: Run, rows: Rows, expression: Expression, among: npt.NDArray[np.bool_] | None = None
) -> Narrowed:
    """Which rows it holds for, without reading a text. among: [rows] which may; None: all. Raises
    ExpressionError as rows_where.
    """
    columns = _Columns(run, rows, expression)
    known = np.ones(len(rows), bool)
    possible = known.copy() if among is None else among.copy()
    for part in _conjuncts(expression.tree):
        found = evaluate_part(part, expression.text, columns.unread)
        if set(names_in(part)) & set(WHOLE_TEXTS):
            possible &= (found != 0) | np.isnan(found)
            known &= (found != 0) & ~np.isnan(found)
        else:
            possible &= (found != 0) & ~np.isnan(found)
    return Narrowed(possible & known, np.flatnonzero(possible & ~known))


def with_texts(
    run: Run,
    rows: Rows,
    expression: Expression,
    narrowed: Narrowed,
    progress: Progress | None = None,
) -> npt.NDArray[np.bool_]:
    """[rows] for which it holds, with the texts of those that are left read."""
    holds = narrowed.holds.copy()
    for places, values in _with_texts(run, rows, expression, narrowed.unread, progress):
        holds[places] = (values != 0) & ~np.isnan(values)
    return holds


def _conjuncts(tree: Node) -> tuple[Node, ...]:
    return tree.parts if isinstance(tree, Joined) and tree.op == "and" else (tree,)


def own_steps(run: Run, text: str, progress: Progress | None = None) -> pd.DataFrame:
    """An expression as a metric: over the rollouts of each step, as store.steps.steps_table has it.

    progress: of an expression over texts, for which all rollouts are read. Raises ExpressionError.
    """
    expression = parsed(run, text)
    if not set(expression.names) & set(WHOLE_TEXTS):
        return _steps(run, expression)
    rows = rows_of_run(run)
    narrow(run, rows, expression)  # what can't be calculated is said before anything is read
    found = np.full(len(rows), np.nan)
    for places, values in _with_texts(run, rows, expression, np.arange(len(rows)), progress):
        found[places] = values
    return _means(rows["step"], found)


def _steps(run: Run, expression: Expression) -> pd.DataFrame:
    def of(steps: StepRange) -> pd.DataFrame:
        rows = FrameRows(run.unordered(steps, expression.names))
        columns = _Columns(run, rows, expression)
        return _means(rows["step"], np.broadcast_to(evaluate(expression, columns), (len(rows),)))

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        tables = list(threads.map(of, run.step_ranges()))
    none = pd.DataFrame({"step": np.zeros(0, np.int64)})
    return pd.concat(tables or [none], ignore_index=True)


def _means(steps: pd.Series[Any], values: npt.NDArray[np.float64]) -> pd.DataFrame:
    finite = np.where(np.isfinite(values), values, np.nan)
    return steps_table(pd.DataFrame({"step": steps.to_numpy(), OWN: finite}), [OWN])


def _with_texts(
    run: Run,
    rows: Rows,
    expression: Expression,
    places: npt.NDArray[np.intp],
    progress: Progress | None,
) -> Iterator[tuple[npt.NDArray[np.intp], Values]]:
    """Places and values of rows, batch by batch; rows that can't be read any more are left out."""
    if not len(places):
        return
    names = [name for name in expression.names if name in WHOLE_TEXTS]
    columns = _Columns(run, rows, expression)
    batch: dict[int, list[str | None]] = {}
    records = StepRecords(run).of(rows.at(places, PLACES), progress)
    for place, record in records:
        batch[int(places[place])] = [whole_text(record, run.vocabulary, name) for name in names]
        if len(batch) == _BATCH:
            yield _evaluated(expression, columns, names, batch)
            batch = {}
    if batch:
        yield _evaluated(expression, columns, names, batch)


def _evaluated(
    expression: Expression,
    columns: _Columns,
    names: Sequence[str],
    batch: dict[int, list[str | None]],
) -> tuple[npt.NDArray[np.intp], Values]:
    places = np.fromiter(batch, np.intp, len(batch))
    texts = dict(zip(names, zip(*batch.values(), strict=True), strict=True))

    def column(name: str) -> Values:
        return np.array(texts[name], object) if name in texts else columns(name)[places]

    return places, np.broadcast_to(evaluate(expression, column), (len(places),))


class _Columns:
    """The columns of an expression in all rows, each made ready once."""

    def __init__(self, run: Run, rows: Rows, expression: Expression) -> None:
        self._run, self._rows = run, rows
        self._made: dict[str, Values] = {}
        if isinstance(rows, RunRows):
            rows.read([name for name in expression.names if name not in WHOLE_TEXTS])

    def unread(self, name: str) -> Values:
        """A column, with no text read yet."""
        if name in WHOLE_TEXTS:
            return np.full(len(self._rows), UNREAD, object)
        return self(name)

    def __call__(self, name: str) -> Values:
        if name not in self._made:
            self._made[name] = self._column(name)
        return self._made[name]

    def _column(self, name: str) -> Values:
        if name not in self._rows:
            return np.full(len(self._rows), np.nan)
        values: pd.Series[Any] = self._rows[name]
        if name == "file":
            files = np.array([self._run.info.path_of(f) for f in self._run.info.files], object)
            return files[values.to_numpy(np.int64)]
        if pd.api.types.is_numeric_dtype(values.dtype):
            return values.to_numpy(np.float64, na_value=np.nan)
        return np.array([_as_text(entry) for entry in values.astype(object)], object)


def _as_text(entry: Any) -> str | None:
    """What a column of texts, or of texts and numbers, holds in a row."""
    if isinstance(entry, str):
        return entry
    if entry is None or pd.isna(entry):
        return None
    return str(int(entry)) if isinstance(entry, float) and entry.is_integer() else str(entry)
