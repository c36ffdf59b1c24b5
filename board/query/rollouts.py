"""The rollouts of a selection in an order: their number, some of them, the place of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa

from board.query.columns import StoredRows
from board.query.database import quoted
from board.query.open_run import Run
from board.query.predicate import BoundSql
from board.query.run_rows import step_ranges
from board.query.selection import Selection

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
        return f"{self.value(selection)} {direction} NULLS LAST, {selection.rows.order}"

    def value(self, selection: Selection) -> str:
        """SQL for what is sorted by, where that is a column."""
        return "path" if self.column == "file" else selection.column(self.column)


def count(selection: Selection) -> int:
    """How many rollouts there are. Raises UnreadableError."""
    sql = f"SELECT count(*) AS rollouts FROM {selection.view} WHERE {selection.condition}"
    return selection.table(sql)["rollouts"][0].as_py()


def place_of(selection: Selection, sorting: Sorting, step: int, index: int) -> int:
    """How many rollouts come before one when they are sorted by a column; 0 where it is not among them.

    Raises UnreadableError.
    """
    value, key = sorting.value(selection), selection.rows.key
    own = replace(selection, steps=(step, step))
    table = selection.table(f"""
        SELECT count(*) AS before FROM {selection.view} AS rollouts, (
            SELECT {value} AS own, {key} AS own_key FROM {own.view} AS rollouts
            WHERE {own.condition} AND position = {index})
        WHERE {selection.condition} AND (
            {value} {">" if sorting.descending else "<"} own
            OR ({value} IS NOT NULL AND own IS NULL)
            OR ({value} IS NOT DISTINCT FROM own AND {key} < own_key))
    """)
    return table["before"][0].as_py()


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
    asked, sql = _statement(selection, columns, (), sorting, limit, offset)
    return _frame(asked, asked.table(sql), columns, ())


def texts_at(
    run: Run, steps: Sequence[int], indices: Sequence[int], name: str, longest: int
) -> list[str | None]:
    """One whole text of some rollouts of the whole run, [n]; None where it is not recorded or has more
    than `longest` bytes. Raises UnreadableError.
    """
    selection = (run.whole or run).selection
    wanted = replace(selection, parameters={"steps": [*steps], "indices": [*indices]})
    text = selection.whole_text(name)
    table = wanted.table(f"""
        SELECT place, CASE WHEN strlen({text}) <= {longest} THEN {text} END AS text
        FROM {selection.view} JOIN (
            SELECT unnest($steps) AS step, unnest($indices) AS position,
                unnest(range(len($steps))) AS place) AS wanted USING (step, position)
        WHERE step IN ({", ".join(map(str, {*steps})) or "NULL"})
    """)
    texts: list[str | None] = [None] * len(steps)
    for place, own in zip(
        table["place"].to_numpy().tolist(), table["text"].to_pylist(), strict=True
    ):
        texts[place] = own
    return texts


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
        asked, sql = _statement(part, columns, texts, sorting, limit, 0)
        for table in asked.batches(sql, size):
            yield _frame(asked, table, columns, texts)


def _parts(selection: Selection, sorting: Sorting, limit: int | None) -> Iterator[Selection]:
    """The selection in parts that need not be sorted together, so that their texts fit into memory."""
    if sorting.column or limit is not None or selection.steps is not None:
        yield selection
        return
    table = selection.table(f"""
        SELECT step, count(*) AS rollouts FROM {selection.view} WHERE {selection.condition}
        GROUP BY step ORDER BY step
    """)
    counts = dict(zip(*(column.to_numpy().tolist() for column in table.columns), strict=True))
    ranges = [*step_ranges(counts)]
    for steps in reversed(ranges) if sorting.descending else ranges:
        yield replace(selection, steps=steps)


def _statement(
    selection: Selection,
    columns: Sequence[str],
    texts: Sequence[str],
    sorting: Sorting,
    limit: int | None,
    offset: int,
) -> tuple[Selection, str]:
    """A statement for these columns in their order, and the selection that it is asked of."""
    selected = [f"rollouts.{quoted(name)}" for name in selection.stored_names(columns)]
    if "index" in columns:
        selected.append("position")
    selected += [f"{selection.whole_text(name)} AS {quoted(_TEXT + name)}" for name in texts]
    sql = f"SELECT {', '.join(selected)} FROM {selection.view} AS rollouts"
    if limit is None:
        return selection, f"{sql} WHERE {selection.condition} ORDER BY {sorting.sql(selection)}"
    # To sort all their columns, or to count all positions, would take several times as long.
    chosen = _chosen(selection, sorting, limit, offset)
    join = """
        JOIN (SELECT unnest($files) AS file, unnest($lines) AS line, unnest($parts) AS part,
            unnest($places) AS place) AS chosen
        ON rollouts.file = chosen.file AND rollouts.line = chosen.line
            AND rollouts.part = chosen.part"""
    return chosen, f"{sql} {join} WHERE {chosen.condition} ORDER BY place"


def _chosen(selection: Selection, sorting: Sorting, limit: int, offset: int) -> Selection:
    """The steps of some rollouts, with parameters that say where these stand and in which order."""
    table = selection.table(f"""
        SELECT step, file, line, part
        FROM {selection.view} AS rollouts WHERE {selection.condition}
        ORDER BY {sorting.sql(selection)} LIMIT {limit} OFFSET {offset}
    """)
    steps, files, lines, parts = (column.to_numpy().tolist() for column in table.columns)
    places = {"files": files, "lines": lines, "parts": parts, "places": [*range(len(steps))]}
    of_steps = f"step IN ({', '.join(map(str, sorted({*steps})))})" if steps else "false"
    return replace(
        selection, envs=(), split=None, filters=(BoundSql(of_steps, {}),), parameters=places
    )


def _frame(
    selection: Selection, table: pa.Table, columns: Sequence[str], texts: Sequence[str]
) -> pd.DataFrame:
    positions = np.full(table.num_rows, -1, np.int32)
    if "position" in table.column_names:
        positions = table.column("position").to_numpy().astype(np.int32)
    rows = StoredRows(selection.rows.columns, table, positions)
    frame_of_rows = rows.frame({*columns})
    whole = {name: table.column(_TEXT + name).to_pandas() for name in texts}
    return frame_of_rows.assign(**whole).reindex(columns=list(columns))
