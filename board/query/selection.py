"""Some rollouts of a run, chosen by environment, split and filters, as SQL."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from board.index.manifest import BrokenIndexError, TakenAwayError
from board.index.table_files import StepRange
from board.query import splits
from board.query.predicate import BoundSql, number_of, parsed, predicate_of
from board.query.run_rows import RunRows, quoted
from board.query.stored_rows import StoredRows


@dataclass(frozen=True, slots=True)
class Selection:
    """The rollouts of these environments (none: of all), of this split (None: of all) and of this range
    of steps (None: of all) of `rows` for which all filters hold.

    name, path: of the run. columns: of the run, which filters can use. cap: the most rollouts of each
    step (None: all). parameters: values that statements have beside `condition`. No two parameters have
    one name. Everything that asks the index raises BrokenIndexError.
    """

    rows: RunRows
    name: str
    path: str
    columns: tuple[str, ...]
    cap: int | None = None
    envs: tuple[str, ...] = ()
    split: str | None = None
    filters: tuple[BoundSql, ...] = ()
    steps: StepRange | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def view(self) -> str:
        """All rollouts of the whole run, or of these steps, as SQL in parentheses."""
        with self._readable():
            return self.rows.view(self.steps)

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
        if self.cap is not None:
            terms.append(f"position < {self.cap}")
        return " AND ".join(terms)

    def where(self, text: str) -> Selection:
        """Those of them for which an expression holds; what is not known does not hold.

        Raises ExpressionError.
        """
        with self._readable():
            found = predicate_of(
                self.rows, parsed(self.columns, text), f"where{len(self.filters)}_"
            )
        return replace(self, filters=(*self.filters, found))

    def number(self, text: str) -> BoundSql:
        """An expression as SQL for a number. Raises ExpressionError."""
        with self._readable():
            return number_of(self.rows, parsed(self.columns, text))

    @property
    def version(self) -> str:
        """Another one whenever its rollouts may be others."""
        chosen = (self.envs, self.split, self.steps, self.filters, self.cap, self.columns)
        return repr((self.path, self.name, self.rows.index.version, chosen))

    @property
    def batch(self) -> Selection:
        """All rollouts of the split: those whose rewards may scale advantages."""
        return replace(self, envs=(), filters=())

    def column(self, name: str) -> str:
        """SQL for a column of the run: NULL where nothing of it is recorded."""
        with self._readable():
            return self.rows.value(name)

    def whole_text(self, name: str) -> str:
        """SQL for a whole text, one of segments.TEXT_NAMES; NULL where it is not recorded."""
        with self._readable():
            return self.rows.whole_text(name)

    @property
    def names(self) -> frozenset[str]:
        """Columns of the view."""
        with self._readable():
            return self.rows.names

    def stored_names(self, columns: Iterable[str]) -> list[str]:
        """The columns of the view that these columns of the run are made of, and the step."""
        with self._readable():
            return self.rows.stored_names(columns)

    @property
    def split_value(self) -> str:
        """The split of a rollout as SQL: rollouts that name none are training's."""
        if "split" not in self.names:
            return f"'{splits.TRAIN}'"
        return f"coalesce(nullif(split, ''), '{splits.TRAIN}')"

    def table(self, sql: str) -> pa.Table:
        """What a statement gives, which has `condition`."""
        with self._readable():
            return self.rows.index.table(sql, self._values)

    def batches(self, sql: str, rows: int) -> Iterator[pa.Table]:
        """As `table`, some rows at a time."""
        with self._readable():
            yield from self.rows.index.batches(sql, self._values, rows)

    @contextmanager
    def _readable(self) -> Generator[None]:
        """An index that turns out damaged is made again when the run is next opened."""
        try:
            yield
        except BrokenIndexError as error:
            index = self.rows.index
            with suppress(TakenAwayError):  # its folder is gone, and the manifest with it
                index.storage.discard(index.manifest)
            reason = f"the index of {self.name} changed meanwhile ({error}); reload"
            raise BrokenIndexError(reason) from error

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
        asked = self if steps is None else replace(self, steps=steps)
        return asked._stored(f"{asked.view} WHERE {asked.condition}", columns)

    def hidden_rows(self) -> StoredRows:
        """What a resumed training wrote again, and further copies of rollouts, of the whole run."""
        with self._readable():
            hidden = self.rows.hidden
        return replace(self, envs=(), split=None, filters=())._stored(f"({hidden})", None)

    def _stored(self, source: str, columns: Sequence[str] | None) -> StoredRows:
        every = [column.name for column in self.rows.columns]
        names = self.stored_names(every if columns is None else columns)
        selected = ", ".join((*map(quoted, names), "position"))
        table = self.table(f"SELECT {selected} FROM {source} ORDER BY step, position")
        positions = table.column("position").to_numpy().astype(np.int32)
        return StoredRows(self.rows.columns, table.drop_columns(["position"]), positions)

    def joined_addresses(self, step: int) -> list[dict[str, int]]:
        """The rows of a step that are joined to another: `file`, `line`, `offset`, `size` and `part` of
        each, and `lead_file`, `lead_line` and `lead_part` of the other.
        """
        with self._readable():
            return self.rows.index.table(self.rows.joined_addresses(step)).to_pylist()
