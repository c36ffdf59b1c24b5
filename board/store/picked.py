"""Rows of what is kept of the steps of a run, picked so that they are those of some of its rollouts."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from board.store.tally import IntArray


class Parts(Protocol):
    """What is kept of the steps of a run; see Run."""

    def part(self, kind: str, columns: Sequence[str]) -> pa.Table | None:
        """As Run.part."""
        ...

    def part_places(self, kind: str, column: str, texts: Sequence[str]) -> IntArray:
        """As Run.part_places."""
        ...

    def part_rows(self, kind: str, columns: Sequence[str], places: IntArray) -> pa.Table:
        """As Run.part_rows."""
        ...


class Made(Protocol):
    """Rows whose columns are made when they are asked for."""

    def table(self, columns: Sequence[str]) -> pa.Table:
        """The columns that there are of those named."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows are: a kind of part, or a table of its own; places: [n] of them in it, ascending."""

    of: str | pa.Table | Made
    places: IntArray

    def all_rows(self, run: Parts, columns: Sequence[str]) -> pa.Table:
        """These rows, with the columns that they have of those named."""
        table = run.part(self.of, columns) if isinstance(self.of, str) else self._own(columns)
        assert table is not None, "places are of rows that there are"
        held = table.select([c for c in columns if c in table.column_names])
        return held if len(self.places) == held.num_rows else held.take(pa.array(self.places))

    def rows(self, run: Parts, columns: Sequence[str], places: IntArray) -> pa.Table:
        """Some of the rows; places: among these."""
        if isinstance(self.of, str):
            return run.part_rows(self.of, columns, self.places[places])
        return self._own(columns).take(pa.array(self.places[places]))

    def having(self, run: Parts, column: str, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """[rows] which have one of these texts in a column."""
        if isinstance(self.of, str):
            return np.isin(self.places, run.part_places(self.of, column, texts))
        return is_one_of(self.all_rows(run, (column,)), column, texts)

    def _own(self, columns: Sequence[str]) -> pa.Table:
        """The columns that there are of those named, of a table that is of no part."""
        if isinstance(self.of, pa.Table):
            return self.of.select([c for c in columns if c in self.of.column_names])
        return self.of.table(columns)


Keyed = tuple[Source, tuple[IntArray, ...]]
"""A source, and [rows] each the keys by which its rows are ordered, the steps first."""


@dataclass(frozen=True, slots=True)
class Picked:
    """Rows of some sources. order: [rows] the places that they have one source after the other, by
    which they are in order; None: they are so already.
    """

    sources: tuple[Source, ...]
    order: IntArray | None

    def table(self, run: Parts, columns: Sequence[str]) -> pa.Table | None:
        """All rows with the columns that there are of those named; None where there is no row."""
        columns = list(dict.fromkeys(columns))
        tables = [source.all_rows(run, columns) for source in self.sources]
        if not tables:
            return None
        table = pa.concat_tables(tables, promote_options="permissive")
        return table if self.order is None else table.take(pa.array(self.order))

    def places(self, run: Parts, column: str, texts: Sequence[str]) -> IntArray:
        """[n] the places of the rows that have one of these texts in a column, ascending."""
        found = [source.having(run, column, texts) for source in self.sources]
        own = np.concatenate([*found, np.zeros(0, bool)])
        return np.flatnonzero(own if self.order is None else own[self.order])

    def rows(self, run: Parts, columns: Sequence[str], places: IntArray) -> pa.Table:
        """Some of the rows, in the order of `places`, without reading the others."""
        columns = list(dict.fromkeys(columns))
        wanted = places if self.order is None else self.order[places]
        starts = np.cumsum([0, *(len(source.places) for source in self.sources)])
        of = np.searchsorted(starts, wanted, side="right") - 1
        tables = [
            source.rows(run, columns, wanted[of == number] - starts[number])
            for number, source in enumerate(self.sources)
            if (of == number).any() or len(self.sources) == 1
        ]
        table = pa.concat_tables(tables, promote_options="permissive")
        if len(tables) < 2:
            return table
        back = np.empty(len(wanted), np.int64)
        back[np.argsort(of, kind="stable")] = np.arange(len(wanted))
        return table.take(pa.array(back))


def picked(found: Iterable[Keyed]) -> Picked:
    """The rows of these sources by their keys; those of equal ones stay in the order of the sources."""
    held = [(source, keys) for source, keys in found if len(source.places)]
    sources = tuple(source for source, _ in held)
    if not held or (len(held) == 1 and (np.diff(held[0][1][0]) >= 0).all()):
        return Picked(sources, None)
    columns = [np.concatenate(one) for one in zip(*(keys for _, keys in held), strict=True)]
    return Picked(sources, np.lexsort(columns[::-1]))


def keyed(of: str | pa.Table, own: npt.NDArray[np.bool_], *keys: IntArray) -> Keyed:
    """Some of the rows. own: [rows] which. keys: [rows] each."""
    places = np.flatnonzero(own)
    return Source(of, places), tuple(key[places] for key in keys)


def rows_at(kind: str, table: pa.Table, steps: Set[int]) -> Keyed:
    """All rows of these steps. table: of the kind, with its steps."""
    of_row = steps_in(table)
    return keyed(kind, is_at(of_row, steps), of_row)


def steps_in(table: pa.Table) -> IntArray:
    """[rows] the step of each."""
    return table.column("step").to_numpy()


def is_at(steps: IntArray, wanted: Set[int]) -> npt.NDArray[np.bool_]:
    """[rows] whether each is of one of the wanted steps."""
    if not wanted:
        return np.zeros(len(steps), bool)
    return np.isin(steps, np.fromiter(wanted, np.int64, len(wanted)))


def places_of(table: pa.Table | None, column: str, texts: Sequence[str]) -> IntArray:
    """[n] the places of the rows that have one of these texts; none without a table."""
    none = np.zeros(0, np.int64)
    return none if table is None else np.flatnonzero(is_one_of(table, column, texts))


def is_one_of(table: pa.Table, column: str, names: Sequence[str]) -> npt.NDArray[np.bool_]:
    """[rows] whether each has one of these texts."""
    if column not in table.column_names:
        return np.zeros(table.num_rows, bool)
    return pc.is_in(table.column(column), pa.array(names, pa.string())).to_numpy()
