"""Some rollouts of a run, chosen by environment, split and filters, as SQL."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from board.errors import UnreadableError
from board.index.database import database_of
from board.index.manifest import BrokenIndexError
from board.index.segments import Column
from board.index.stored_rows import StoredRows
from board.index.table_files import StepRange
from board.query import splits
from board.query.predicate import BoundSql, parsed, predicate_of
from board.query.run import Run
from board.query.run_rows import RunRows, quoted


@dataclass(frozen=True, slots=True)
class Selection:
    """The rollouts of these environments (none: of all), of this split (None: of all) and of this range
    of steps (None: of all) of `rows` for which all filters hold.

    parameters: values that statements have beside `condition`. No two parameters have one name.
    """

    rows: RunRows
    envs: tuple[str, ...] = ()
    split: str | None = None
    filters: tuple[BoundSql, ...] = ()
    steps: StepRange | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def view(self) -> str:
        """The view that holds the rollouts of the whole run."""
        return self.rows.rows

    @property
    def condition(self) -> str:
        """What is true of the rollouts of this selection, as SQL that every statement has."""
        terms = ["true"]
        if self.envs:
            terms.append("env IN (SELECT unnest($envs))")
        if self.split is not None:
            terms.append(f"{self.split_value} = $split")
        if self.steps is not None:
            terms.append(f"step BETWEEN {self.steps[0]} AND {self.steps[1]}")
        terms += [one.sql for one in self.filters]
        cap = self.rows.run.options.max_per_step
        if cap is not None:
            terms.append(f"position < {cap}")
        return " AND ".join(terms)

    def where(self, text: str) -> Selection:
        """Those of them for which an expression holds; what is not known does not hold.

        Raises ExpressionError.
        """
        run, prefix = self.rows.run, f"where{len(self.filters)}_"
        found = predicate_of(self.rows, parsed(run, text), prefix)
        return replace(self, filters=(*self.filters, found))

    @property
    def batch(self) -> Selection:
        """All rollouts of the split: those whose rewards may scale advantages."""
        return replace(self, envs=(), filters=())

    def column(self, name: str) -> str:
        """SQL for a column of the run: NULL where nothing of it is recorded."""
        columns = {column.name: column for column in self.rows.run.shown.columns}
        return self.rows.value(columns.get(name, Column(name)))

    @property
    def split_value(self) -> str:
        """The split of a rollout as SQL: rollouts that name none are training's."""
        if "split" not in self.rows.names:
            return f"'{splits.TRAIN}'"
        return f"coalesce(nullif(split, ''), '{splits.TRAIN}')"

    def table(self, sql: str) -> pa.Table:
        """What a statement gives, which has `condition`. Raises UnreadableError."""
        with self._cursor() as cursor:
            return cursor.sql(sql, params=self._values or None).to_arrow_table()

    def batches(self, sql: str, size: int) -> Iterator[pa.Table]:
        """As `table`, some rows at a time."""
        with self._cursor() as cursor:
            reader = cursor.sql(sql, params=self._values or None).to_arrow_reader(size)
            for batch in reader:
                yield pa.Table.from_batches([batch])

    @contextmanager
    def _cursor(self) -> Generator[duckdb.DuckDBPyConnection]:
        try:
            yield self.rows.database.cursor()
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            if not _is_damage(error):
                raise
            raise discarded(self.rows.run, error) from error

    @property
    def _values(self) -> dict[str, Any]:
        values = {**self.parameters}
        for one in self.filters:
            values |= one.parameters
        if self.envs:
            values["envs"] = [*self.envs]
        if self.split is not None:
            values["split"] = self.split
        return values

    def stored_rows(self, steps: StepRange | None, columns: Sequence[str] | None) -> StoredRows:
        """The rollouts of a range of steps (None: of all), by step and index. columns: None is all."""
        shown = self.rows.run.shown
        wanted = [column.name for column in shown.columns] if columns is None else columns
        names = self.rows.names & {*shown.stored_names(wanted, ("step",))}
        selected = ", ".join((*map(quoted, sorted(names)), "position"))
        asked = self if steps is None else replace(self, steps=steps)
        table = asked.table(
            f"SELECT {selected} FROM {self.view} WHERE {asked.condition} ORDER BY step, position"
        )
        positions = table.column("position").to_numpy().astype(np.int32)
        return StoredRows(shown.columns, table.drop_columns(["position"]), positions)


def _is_damage(error: Exception) -> bool:
    """Whether a file of the index can't be read: DuckDB has no class of its own for what is in it."""
    kinds = (duckdb.IOException, duckdb.InvalidInputException, OSError, pa.ArrowException)
    return isinstance(error, kinds) or type(error) is duckdb.Error


def rows_of(run: Run) -> RunRows:
    """The views of a whole run, created once. Raises UnreadableError."""

    def create() -> RunRows:
        try:
            return RunRows.of(database_of(run.info.root, run.index_folder), run)
        except (duckdb.Error, BrokenIndexError) as error:
            raise discarded(run, error) from error

    return run.remembered("views", create)


def discarded(run: Run, error: Exception) -> UnreadableError:
    """The error to raise; the index is made again when the run is next opened."""
    index = run.shown.index
    index.storage.discard(index.manifest)
    return UnreadableError(f"the index of {run.info.name} changed meanwhile ({error}); reload")


def selection_of(run: Run) -> Selection:
    """The rollouts of a run, narrowed or not. Raises UnreadableError."""
    if isinstance(run.selection, Selection):
        return run.selection
    return Selection(rows_of(run))
