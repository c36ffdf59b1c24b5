"""Expressions over the rollouts of a run: as a filter of rows, and as a metric over the steps."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.expressions import Column, Expression, evaluate, parse
from board.errors import ChoiceError
from board.store.run import Run
from board.store.steps import steps_table
from board.store.table_files import StepRange
from board.store.whole_run import RunRows

OWN: Final = "own metric"
"""Stem of the columns of `own_steps`."""
_AT_ONCE: Final = 2


class _Rows(Protocol):
    """A table of rollouts, in memory or not."""

    @property
    def columns(self) -> Any: ...

    def __len__(self) -> int: ...

    def __getitem__(self, name: Any, /) -> Any: ...


def rows_where(rows: _Rows, text: str) -> npt.NDArray[np.bool_]:
    """[rows] for which an expression holds; what is not known of a row does not hold.

    Prompt and response are what the index keeps of them, their beginnings. Raises ChoiceError for an
    expression that can't be read, or names a column that is not there.
    """
    expression = parse(text)
    if isinstance(rows, RunRows):
        rows.read(expression.names)
    found = evaluate(expression, lambda name: _column(rows, name))
    _must_be_numbers(found, text)
    values = found.astype(np.float64)
    return np.broadcast_to((values != 0) & ~np.isnan(values), (len(rows),))


def own_steps(run: Run, text: str) -> pd.DataFrame:
    """An expression as a metric: over the rollouts of each step, as store.steps.steps_table has it.

    Raises ChoiceError as rows_where does.
    """
    expression = parse(text)
    for name in expression.names:
        _known(name, run.columns)
    return _steps(run, expression)


def _steps(run: Run, expression: Expression) -> pd.DataFrame:
    def of(steps: StepRange) -> pd.DataFrame:
        rows = run.unordered(steps, expression.names)
        found = evaluate(expression, lambda name: _column(rows, name))
        _must_be_numbers(found, expression.text)
        values = np.broadcast_to(found.astype(np.float64), (len(rows),))
        finite = np.where(np.isfinite(values), values, np.nan)
        return steps_table(pd.DataFrame({"step": rows["step"].to_numpy(), OWN: finite}), [OWN])

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        tables = list(threads.map(of, run.shown.step_ranges()))
    none = pd.DataFrame({"step": np.zeros(0, np.int64)})
    return pd.concat(tables or [none], ignore_index=True)


def _must_be_numbers(found: Column, text: str) -> None:
    if found.dtype == object or found.dtype.kind in "US":
        raise ChoiceError(f"{text[:60]!r} gives texts, and numbers are needed")


def _column(rows: _Rows, name: str) -> Column:
    values: pd.Series[Any] = rows[_known(name, [str(column) for column in rows.columns])]
    if pd.api.types.is_numeric_dtype(values.dtype):
        return values.to_numpy(np.float64, na_value=np.nan)
    return values.astype(object).where(values.notna(), None).to_numpy()


def _known(name: str, columns: Sequence[str]) -> str:
    if name in columns:
        return name
    close = difflib.get_close_matches(name, columns, n=4, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are: {', '.join(columns)}"
    raise ChoiceError(f"the run has no column {name!r}; {hint}")
