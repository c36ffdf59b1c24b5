"""The rollouts of a selection in an order: their number, some of them, the place of one."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa

from board.query.run_rows import quoted
from board.query.selection import Selection
from board.store.step_counts import chunks
from board.store.stored_rows import StoredRows

_TEXT = "whole text of "


@dataclass(frozen=True, slots=True)
class Sorting:
    """By a column of the run, rollouts without a value last and ties by step and index; or, without a
    column, by step and index. file: by its path.
    """

    column: str = ""
    descending: bool = False

    def sql(self, selection: Selection) -> str:
        """What follows ORDER BY."""
        direction = "DESC" if self.descending else "ASC"
        if not self.column:
            return f"step {direction}, position {direction}"
        value = "path" if self.column == "file" else selection.column(self.column)
        return f"{value} {direction} NULLS LAST, step, position"


def count(selection: Selection) -> int:
    """How many rollouts there are. Raises UnreadableError."""
    sql = f"SELECT count(*) AS rollouts FROM {selection.view} WHERE {selection.condition}"
    return selection.table(sql)["rollouts"][0].as_py()


def place_of(selection: Selection, sorting: Sorting, step: int, index: int) -> int:
    """How many rollouts come before one; 0 where it is not among them. Raises UnreadableError."""
    found = selection.table(f"""
        SELECT place FROM (
            SELECT step, position,
                row_number() OVER (ORDER BY {sorting.sql(selection)}) - 1 AS place
            FROM {selection.view} WHERE {selection.condition})
        WHERE step = {step} AND position = {index}
    """)
    return found["place"][0].as_py() if found.num_rows else 0


def frame(
    selection: Selection,
    columns: Sequence[str],
    sorting: Sorting,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """Some rollouts, a row for each, as Run.of_step has them. Raises UnreadableError.

    columns: of the whole run's. limit: at most so many, after the first `offset`.
    """
    sql = _sql(selection, columns, (), sorting, limit) + f" OFFSET {offset}"
    return _frame(selection, selection.table(sql), columns, ())


def batches(
    selection: Selection,
    columns: Sequence[str],
    texts: Sequence[str],
    sorting: Sorting,
    *,
    limit: int | None = None,
    size: int,
) -> Iterator[pd.DataFrame]:
    """As `frame`, at most `size` rollouts at a time. texts: columns that hold whole texts instead."""
    for part in _parts(selection, sorting, limit):
        sql = _sql(part, columns, texts, sorting, limit)
        for table in selection.batches(sql, size):
            yield _frame(selection, table, columns, texts)


def _parts(selection: Selection, sorting: Sorting, limit: int | None) -> Iterator[Selection]:
    """The selection in parts that need not be sorted together, so that their texts fit into memory."""
    if sorting.column or limit is not None or selection.steps is not None:
        yield selection
        return
    ranges = [*chunks(selection.rows.run.counts)]
    for steps in reversed(ranges) if sorting.descending else ranges:
        yield replace(selection, steps=steps)


def _sql(
    selection: Selection,
    columns: Sequence[str],
    texts: Sequence[str],
    sorting: Sorting,
    limit: int | None,
) -> str:
    rows = selection.rows
    names = rows.names & {*rows.run.shown.stored_names(columns, ("step",))}
    selected = [*map(quoted, sorted(names)), "position"]
    selected += [f"{rows.whole_text(name)} AS {quoted(_TEXT + name)}" for name in texts]
    return f"""
        SELECT {", ".join(selected)} FROM {selection.view} WHERE {selection.condition}
        ORDER BY {sorting.sql(selection)} LIMIT {"ALL" if limit is None else limit}"""


def _frame(
    selection: Selection, table: pa.Table, columns: Sequence[str], texts: Sequence[str]
) -> pd.DataFrame:
    positions = table.column("position").to_numpy().astype(np.int32)
    rows = StoredRows(selection.rows.run.shown.columns, table, positions)
    found = rows.frame({*columns})
    whole = {name: table.column(_TEXT + name).to_pandas() for name in texts}
    return found.assign(**whole).reindex(columns=list(columns))
