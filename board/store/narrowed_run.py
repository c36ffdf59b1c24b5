"""A run as if it held some of the rollouts of another one alone, told by one of their columns."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.store import splits, step_parts
from board.store.merged_envs import OF_GROUPS
from board.store.picked import Keyed, Picked, picked, places_of
from board.store.run import Run
from board.store.step_store import tidied
from board.store.steps import base_name, steps_table
from board.store.stored_rows import StoredRows
from board.store.table_files import StepRange
from board.store.tally import IntArray

GROUPED: Final = ("env", "split", "rank", "group_id", "reward")
"""Columns by which rollouts are narrowed and counted in tables of steps, besides the metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedRun(Run):
    """Some rollouts of the run `whole`, told by one column; steps without any of them are absent.

    Rollouts keep the index that they have within the whole step, and `row` finds every one of those.
    """

    whole: Run

    @property
    @abstractmethod
    def column(self) -> str:
        """The column that tells which rollouts are held."""

    @abstractmethod
    def holds(self, values: pd.Series[Any]) -> npt.NDArray[np.bool_]:
        """[rows] which are held, by what they have in the column."""

    @property
    @abstractmethod
    def only(self) -> Mapping[str, Sequence[str]]:
        """As `Run.pieces` takes it: what leaves other rollouts unread; empty: all are read."""

    @property
    def envs(self) -> tuple[str, ...]:
        """The environments that it is narrowed to; none: all."""
        return self.whole.envs if isinstance(self.whole, NarrowedRun) else ()

    @property
    def split(self) -> str | None:
        """The split that it is narrowed to; None: all."""
        return self.whole.split if isinstance(self.whole, NarrowedRun) else None

    @property
    def rollouts(self) -> pd.DataFrame:
        """Those of `Run.rollouts`."""
        with self._loaded.lock:
            if self._loaded.rollouts is None:
                self._loaded.rollouts = self._own(self.whole.rollouts)
            return self._loaded.rollouts

    def of_step(self, step: int) -> pd.DataFrame:
        """Those of `Run.of_step`."""
        return self._own(self.whole.of_step(step))

    def chosen(self, columns: Sequence[str]) -> pd.DataFrame:
        """Those of `Run.chosen`; the row labels count from 0."""
        return self._without(self.whole.chosen(self._with(columns)), columns).reset_index(drop=True)

    def pieces(
        self,
        columns: Sequence[str],
        only: Mapping[str, Sequence[str]] | None = None,
        steps: Set[int] | None = None,
    ) -> Iterator[pd.DataFrame]:
        """Those of `Run.pieces`; the row labels of each count from 0."""
        wanted = {**(only or {}), **self.only}
        for rows in self.whole.pieces(self._with(columns), wanted, steps):
            yield self._without(rows, columns).reset_index(drop=True)

    def unordered(
        self,
        steps: StepRange,
        columns: Sequence[str],
        only: Mapping[str, Sequence[str]] | None = None,
    ) -> pd.DataFrame:
        """Those of `Run.unordered`."""
        wanted = {**(only or {}), **self.only}
        if self.only:
            return self.whole.unordered(steps, columns, wanted)
        return self._own(self.whole.unordered(steps, self._with(columns), wanted))

    def rows_of(self, step: int, columns: Sequence[str]) -> pd.DataFrame:
        """Those of `Run.rows_of`."""
        return self._without(self.whole.rows_of(step, self._with(columns)), columns)

    def stored_rows(
        self, step: int, columns: Sequence[str], only: Mapping[str, Sequence[str]] | None = None
    ) -> StoredRows:
        """Those of `Run.stored_rows`."""
        wanted = {**(only or {}), **self.only}
        rows = self.whole.stored_rows(step, self._with(columns), wanted)
        if self.only or self.column not in self.whole.columns:
            return rows
        return rows.only(self.held_of(rows.table))

    def held_of(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        """[rows] as `holds`, by rows as they are stored: few texts differ, and each is looked at once."""
        if self.column not in table.column_names:
            return np.full(table.num_rows, self._holds_text(None))
        encoded = pc.dictionary_encode(table.column(self.column))
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        each = np.array(
            [self._holds_text(text) for text in (*encoded.dictionary.to_pylist(), None)]
        )
        return each[encoded.indices.fill_null(len(each) - 1).to_numpy()]

    def _holds_text(self, text: str | None) -> bool:
        known = self._loaded.held
        if text not in known:
            known[text] = bool(self.holds(pd.Series([text], dtype="str").astype("category"))[0])
        return known[text]

    def _with(self, columns: Sequence[str]) -> tuple[str, ...]:
        return (*dict.fromkeys((*columns, self.column)),)

    def _without(self, rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
        found = self._own(rows)
        return found if self.column in columns else found.drop(columns=self.column, errors="ignore")

    def _own(self, rows: pd.DataFrame) -> pd.DataFrame:
        held = self.holds(rows[self.column]) if self.column in rows else np.zeros(len(rows), bool)
        return rows[held]

    def part(self, kind: str, columns: Sequence[str]) -> pa.Table | None:
        """As `Run.part`: what the whole run keeps of these rollouts, and else made of them."""
        picked = self._picked_of(kind)
        if picked is not None:
            return picked.table(self.whole, columns)
        return _selected(self._made().get(kind), columns)

    def part_places(self, kind: str, column: str, texts: Sequence[str]) -> IntArray:
        """As `Run.part_places`."""
        picked = self._picked_of(kind)
        if picked is not None:
            return picked.places(self.whole, column, texts)
        return places_of(_selected(self._made().get(kind), (column,)), column, texts)

    def part_rows(self, kind: str, columns: Sequence[str], places: IntArray) -> pa.Table:
        """As `Run.part_rows`."""
        picked = self._picked_of(kind)
        if picked is not None:
            return picked.rows(self.whole, columns, places)
        table = _selected(self._made().get(kind), columns)
        assert table is not None, "places are of rows that there are"
        return table.take(pa.array(places))

    def _picked_of(self, kind: str) -> Picked | None:
        with self._loaded.lock:
            kept = self._loaded.picked
            if kind not in kept:
                found = self._sources(kind)
                if found is None:
                    return None
                kept[kind] = picked(found)
            return kept[kind]

    @abstractmethod
    def _sources(self, kind: str) -> Iterable[Keyed] | None:
        """Where the rows of a kind of part are, with their keys; None: they are to be made."""

    def _made(self) -> dict[str, pa.Table | None]:
        """By kind what would be kept of these rollouts, made of them at the first call."""
        with self._loaded.lock:
            if self._loaded.parts is None:
                self._loaded.parts = self._made_parts()
            return self._loaded.parts

    def same(self, steps: Sequence[int]) -> pd.DataFrame:
        """As step_parts.RowsOf."""
        rows = [self.rows_of(step, step_parts.SAME) for step in steps]
        return pd.concat(rows, ignore_index=True)

    def _made_parts(self) -> dict[str, pa.Table | None]:
        columns = (*dict.fromkeys((*self.metrics, *step_parts.COLUMNS)),)
        made: dict[str, list[pa.Table]] = {}
        for rows in self.pieces(columns):
            for kind, table in splits.kept_of(rows, self.metrics, self.same).items():
                made.setdefault(kind, []).append(table)
        return {kind: step_parts.loaded(tables) for kind, tables in made.items()}

    def total(self, column: str) -> float:
        """Sum of a column over these rollouts."""
        found = self.chosen((column,))
        return float(found[column].sum()) if column in found else 0.0

    def row(self, step: int, index: int, columns: Sequence[str] | None = None) -> pd.Series[Any]:
        """As `Run.row`."""
        return self.whole.row(step, index, columns)


def _selected(table: pa.Table | None, columns: Sequence[str]) -> pa.Table | None:
    if table is None:
        return None
    return table.select([c for c in dict.fromkeys(columns) if c in table.column_names])


def step_columns(run: Run) -> tuple[str, ...]:
    """Columns that a table of steps of some of its rollouts may have."""
    return (*dict.fromkeys((*run.steps.columns, "ranks", *OF_GROUPS)),)


def averaged(run: Run, pieces: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The table of steps of these rollouts, whole steps at a time."""
    tables = [steps_table(rows, run.metrics) for rows in pieces if len(rows)]
    none = pd.DataFrame({"step": np.array([], np.int64)})
    return tidied(pd.concat(tables or [none], ignore_index=True), run.metrics)


def kept_of(run: Run, steps: pd.DataFrame, counts: Mapping[int, int]) -> dict[str, Any]:
    """What a narrowed run has of the whole one, and its own steps."""
    metrics = tuple(name for name in run.metrics if f"{base_name(name)}_n" in steps)
    kept = {one.name: getattr(run, one.name) for one in fields(Run) if not one.name.startswith("_")}
    return kept | {
        "steps": _with_complete(run, steps),
        "counts": dict(counts),
        "metrics": metrics,
        "columns": tuple(c for c in run.columns if c in metrics or c not in run.metrics),
    }


def _with_complete(run: Run, steps: pd.DataFrame) -> pd.DataFrame:
    if "complete" not in run.steps:
        return steps
    known = dict(zip(run.steps["step"], run.steps["complete"], strict=True))
    complete = [known.get(step) for step in steps["step"].tolist()]
    return steps.assign(complete=pd.Series(complete, dtype=object))
