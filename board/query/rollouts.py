"""The rollouts of a run: their number, sums over them, some of them in an order, the place of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from board.core.expression_tree import text_literal
from board.index.segments import ANY_TEXT, PART
from board.query.columns import aliased, frame_of, with_names
from board.query.run import Run

if TYPE_CHECKING:
    import pandas as pd

_MOST_LINES: Final = 3
ADDRESS: Final = ("step", "position", "file", "line", "part")
"""Columns of a view by which `at_addresses` finds a rollout."""


@dataclass(frozen=True, slots=True)
class Sorting:
    """By a column of the run, rollouts without a value last and ties by step and index; or, without a
    column, by step and index. file: by its path.
    """

    column: str = ""
    descending: bool = False

    def sql(self, run: Run) -> str:
        """What follows ORDER BY."""
        direction = "DESC" if self.descending else "ASC"
        if not self.column:
            return f"step {direction}, position {direction}"
        return f"{self.value(run)} {direction} NULLS LAST, {run.rows.order}"

    def value(self, run: Run) -> str:
        """SQL for what is sorted by, where that is a column."""
        return "path" if self.column == "file" else run.column(self.column)


def at_step(run: Run, step: int) -> Run:
    """The run at one step alone. Raises NotFoundError where the whole run has no such step."""
    run.row(step, 0, ("step",))
    return run.where(steps=(step, step))


def total(run: Run, column: str) -> float:
    """Sum of a column over all rollouts; 0 where the log holds nothing of it. Raises UnreadableError."""
    if column not in run.columns:
        return 0.0

    def add() -> float:
        sql = f"SELECT sum({run.column(column)}) AS total FROM {run.view} WHERE {run.condition}"
        return float(run.table(sql)["total"][0].as_py() or 0)

    return run.remembered(f"total {column}", add)


def joined_places(run: Run, row: Mapping[str, Any]) -> list[dict[str, int]]:
    """The places of the rows that are joined with a row, none in a run that is not joined.

    Returns:
        Of each row file (number in info.files), line, offset, size and part.
    """
    if not run.info.is_joined:
        return []
    step, part = int(row["step"]), int(row.get(PART) or 0)

    def read() -> dict[tuple[int, int, int], list[dict[str, int]]]:
        by_lead: dict[tuple[int, int, int], list[dict[str, int]]] = {}
        for place in _joined_addresses(run, step):
            key = (place.pop("lead_file"), place.pop("lead_line"), place.pop("lead_part"))
            by_lead.setdefault(key, []).append(place)
        return by_lead

    places = run.remembered_of_step("joined places", step, read)
    return places.get((int(row["file"]), int(row["line"]), part), [])


def _joined_addresses(run: Run, step: int) -> list[dict[str, int]]:
    """The rows of a step that are joined to another, by log: `file`, `line`, `offset`, `size` and `part`
    of each, and `lead_file`, `lead_line` and `lead_part` of the other.
    """
    rows = run.rows
    return rows.table(f"""
        SELECT file, line, "offset", size, part, lead_file, lead_line, lead_part
        FROM ({rows.visible((step, step))}) JOIN {rows.schema}.pairs USING (file, line, part)
        WHERE step = {step} ORDER BY side, rank NULLS LAST, file, line, part
    """).to_pylist()


def count(run: Run) -> int:
    """How many rollouts there are. Raises UnreadableError."""
    table = run.table(f"SELECT count(*) AS rollouts FROM {run.view} WHERE {run.condition}")
    return table["rollouts"][0].as_py()


def place_of(run: Run, sorting: Sorting, step: int, index: int) -> int:
    """How many rollouts come before one when they are sorted by a column; 0 where it is not among them.

    Raises UnreadableError.
    """
    value, key = sorting.value(run), run.rows.key
    own = run.where(steps=(step, step))
    table = run.table(f"""
        SELECT count(*) AS before FROM {run.view} AS rollouts, (
            SELECT {value} AS own, {key} AS own_key FROM {own.view} AS rollouts
            WHERE {own.condition} AND position = {index})
        WHERE {run.condition} AND (
            {value} {">" if sorting.descending else "<"} own
            OR ({value} IS NOT NULL AND own IS NULL)
            OR ({value} IS NOT DISTINCT FROM own AND {key} < own_key))
    """)
    return table["before"][0].as_py()


def texts_at(
    run: Run, steps: Sequence[int], indices: Sequence[int], name: str, longest: int
) -> list[str | None]:
    """One whole text of some rollouts of the whole run, [n]; None where it is not recorded or has more
    than `longest` bytes. Raises UnreadableError.
    """
    whole = run.whole or run
    text = whole.rows.whole_text(name)
    sql = f"""
        WITH wanted AS (
            SELECT unnest($steps) AS step, unnest($indices) AS position,
                unnest(range(len($steps))) AS place),
        texts AS (
            SELECT step, position, CASE WHEN strlen({text}) <= {longest} THEN {text} END AS text
            FROM {whole.view} SEMI JOIN wanted USING (step, position)
            WHERE step IN ({", ".join(map(str, {*steps})) or "NULL"}))
        SELECT text FROM wanted LEFT JOIN texts USING (step, position) ORDER BY place
    """
    table = whole.table(sql, {"steps": [*steps], "indices": [*indices]})
    return table["text"].to_pylist()


def frame(
    run: Run,
    columns: Sequence[str],
    sorting: Sorting,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """Some rollouts, a row for each, as Run.of_step has them. Raises UnreadableError.

    columns: of the whole run's. limit: at most so many, after the first `offset`.
    """
    return frame_of(rollout_table(run, columns, sorting, limit=limit, offset=offset))


def rollout_table(
    run: Run,
    columns: Sequence[str],
    sorting: Sorting,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> pa.Table:
    """The rows of `frame` as columns.with_names gives them."""
    values, kinds = [*map(run.rows.frame_value, columns)], [*map(run.rows.column, columns)]
    if limit is None:
        return with_names(run.table(_sorted(run, values, sorting)), kinds, run.rows.exact_type)
    sql, parameters = _first(run, values, sorting, limit, offset)
    return with_names((run.whole or run).table(sql, parameters), kinds, run.rows.exact_type)


def batches(
    run: Run,
    columns: Sequence[str],
    texts: Sequence[str],
    sorting: Sorting,
    *,
    limit: int | None = None,
    size: int,
) -> Iterator[pa.Table]:
    """The rows of `rollout_table`, at most `size` at a time. texts: columns that hold whole texts
    instead.
    """
    values = [run.rows.whole_text(n) if n in texts else run.rows.frame_value(n) for n in columns]
    kinds = [*map(run.rows.column, columns)]
    for batch in tables(run, values, sorting, limit=limit, size=size):
        yield with_names(batch, kinds, run.rows.exact_type)


def tables(
    run: Run,
    values: Sequence[str],
    sorting: Sorting,
    *,
    limit: int | None = None,
    size: int,
) -> Iterator[pa.Table]:
    """Values, each by SQL, of the rollouts in an order, at most `size` rows at a time."""
    if limit is not None:
        sql, parameters = _first(run, values, sorting, limit, 0)
        yield from (run.whole or run).batches(sql, size, parameters)
    else:
        yield from _in_order(run, values, sorting, size)


def _in_order(run: Run, values: Sequence[str], sorting: Sorting, size: int) -> Iterator[pa.Table]:
    """The values in an order. Only addresses are sorted: with whole texts these would not fit into the
    database's memory.
    """
    names = ", ".join(ADDRESS)
    table = run.table(f"SELECT {names} FROM {chosen(run)} AS rollouts ORDER BY {sorting.sql(run)}")
    for first in range(0, table.num_rows, size):
        yield at_addresses(run, values, table.slice(first, size).to_pydict())


def chosen(run: Run) -> str:
    """The rollouts for which the run's predicate holds, in parentheses: positions are counted without the
    columns that the predicate reads, which may be whole texts.
    """
    return f"""(
        FROM {run.view} AS rollouts SEMI JOIN (
            SELECT file, line, part FROM {run.view} AS rollouts WHERE {run.condition})
        USING (file, line, part))"""


def at_addresses(
    run: Run, values: Sequence[str], addresses: Mapping[str, Sequence[int]]
) -> pa.Table:
    """Values, each by SQL, of rollouts in the order of their addresses, of which there is at least one.

    addresses: by the names of ADDRESS. Raises UnreadableError.
    """
    steps, lines = addresses["step"], addresses["line"]
    steps_read = (min(steps), max(steps))
    sql = f"""
        SELECT {aliased(values)} FROM (
                FROM {run.rows.unnumbered(steps_read)}
                WHERE step BETWEEN {steps_read[0]} AND {steps_read[1]}
                    AND line BETWEEN {min(lines)} AND {max(lines)})
            JOIN (SELECT unnest($position) AS position, unnest($file) AS file, unnest($line) AS line,
                unnest($part) AS part, unnest(range(len($file))) AS place) USING (file, line, part)
        ORDER BY place
    """
    parameters = {name: [*addresses[name]] for name in ADDRESS if name != "step"}
    return (run.whole or run).table(sql, parameters)


def _sorted(run: Run, values: Sequence[str], sorting: Sorting) -> str:
    return f"""
        SELECT {aliased(values)} FROM {run.view} AS rollouts
        WHERE {run.condition} ORDER BY {sorting.sql(run)}
    """


def _first(
    run: Run, values: Sequence[str], sorting: Sorting, limit: int, offset: int
) -> tuple[str, dict[str, Any]]:
    """A statement over the whole run, and its parameters.

    Addresses are sorted first: to sort all columns, or count all positions, takes several times as long.
    """
    table = run.table(f"""
        SELECT step, file, line, part FROM {run.view} AS rollouts WHERE {run.condition}
        ORDER BY {sorting.sql(run)} LIMIT {limit} OFFSET {offset}
    """)
    steps, files, lines, parts = (column.to_pylist() for column in table.columns)
    sql = f"""
        SELECT {aliased(values)} FROM {run.view}
            JOIN (SELECT unnest($files) AS file, unnest($lines) AS line, unnest($parts) AS part,
                unnest(range(len($files))) AS place) USING (file, line, part)
        WHERE step IN ({", ".join(map(str, {*steps})) or "NULL"}) ORDER BY place
    """
    return sql, {"files": files, "lines": lines, "parts": parts}


def filter_of_text(run: Run, step: int, index: int, text: str) -> str:
    """A filter of the rollouts that hold a text of this one; empty where none of its texts does.

    The text as it is. Where it was taken over several messages, in which it is not in one piece: its
    longest line that is. Raises UnreadableError.
    """
    whole = run.whole or run
    lines = sorted(text.splitlines(), key=len, reverse=True)[:_MOST_LINES]
    for one in dict.fromkeys(part for part in (text, text.strip(), *lines) if part.strip()):
        for name in ("response", ANY_TEXT):
            where = f"{name} contains {text_literal(one)}"
            passing = whole.where(where, steps=(step, step))
            sql = f"SELECT 1 FROM {passing.view} WHERE {passing.condition} AND position = {index}"
            if passing.table(sql).num_rows:
                return where
    return ""
