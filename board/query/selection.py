"""Some rollouts of a run, chosen by environment, split and filters, as SQL."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from board.index.manifest import BrokenIndexError, DeletedIndexError
from board.index.storage import StepRange
from board.query import splits
from board.query.columns import StoredRows
from board.query.database import quoted
from board.query.predicate import BoundSql, number_of, parsed, predicate_of
from board.query.run_rows import RunRows

NO_STEPS: Final[StepRange] = (1, 0)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rollouts of these environments (none: of all), of this split (None: of all) and of this range
    of steps (None: of all) of a run for which all filters hold.

    name, path: of the run. columns: of the run, which filters can use. cap: the most rollouts of each
    step (None: all). parameters: values that statements have besides those of `condition`. No two
    parameters have one name. Everything that asks the index raises BrokenIndexError.
    """

    whole_run: RunRows
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
    def rows(self) -> RunRows:
        """The rollouts of the whole run, whose index can be read."""
        with self._readable():
            assert self.whole_run.schema
        return self.whole_run

    @property
    def view(self) -> str:
        """All rollouts of the whole run, or of these steps, as SQL in parentheses."""
        with self._readable():
            return self.whole_run.view(self.steps)

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
        expression = parsed(self.columns, text)
        predicate = predicate_of(self.rows, expression, f"where{len(self.filters)}_")
        return replace(self, filters=(*self.filters, predicate))

    def number(self, text: str) -> BoundSql:
        """An expression as SQL for a number. Raises ExpressionError."""
        return number_of(self.rows, parsed(self.columns, text))

    @property
    def version(self) -> str:
        """Another one whenever its rollouts may be others."""
        chosen = (self.envs, self.split, self.steps, self.filters, self.cap, self.columns)
        return repr((self.path, self.name, self.whole_run.version, chosen))

    @property
    def batch(self) -> Selection:
        """All rollouts of the split: those whose rewards may scale advantages."""
        return replace(self, envs=(), filters=())

    def column(self, name: str) -> str:
        """SQL for a column of the run: NULL where nothing of it is recorded."""
        return self.rows.value(name)

    def whole_text(self, name: str) -> str:
        """SQL for a whole text, one of segments.TEXT_NAMES; NULL where it is not recorded."""
        return self.rows.whole_text(name)

    @property
    def names(self) -> frozenset[str]:
        """Columns of the view."""
        return self.rows.names

    def stored_names(self, columns: Iterable[str]) -> list[str]:
        """The columns of the view that these columns of the run are made of, and the step."""
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
            return self.whole_run.table(sql, self._values)

    def batches(self, sql: str, rows: int) -> Iterator[pa.Table]:
        """What a statement gives, some rows at a time."""
        with self._readable():
            yield from self.whole_run.batches(sql, self._values, rows)

    @contextmanager
    def _readable(self) -> Generator[None]:
        """An index that turns out damaged is made again when the run is next opened."""
        try:
            yield
        except BrokenIndexError as error:
            rows = self.whole_run
            with suppress(DeletedIndexError):  # its folder is gone, and the manifest with it
                rows.storage.discard(rows.manifest)
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
        return replace(self, envs=(), split=None, filters=())._stored(f"({self.rows.hidden})", None)

    def _stored(self, source: str, columns: Sequence[str] | None) -> StoredRows:
        every = [column.name for column in self.whole_run.columns]
        names = self.stored_names(every if columns is None else columns)
        selected = ", ".join((*map(quoted, names), "position"))
        table = self.table(f"SELECT {selected} FROM {source} ORDER BY step, position")
        positions = table.column("position").to_numpy().astype(np.int32)
        return StoredRows(self.whole_run.columns, table.drop_columns(["position"]), positions)

    def joined_addresses(self, step: int) -> list[dict[str, int]]:
        """The rows of a step that are joined to another: `file`, `line`, `offset`, `size` and `part` of
        each, and `lead_file`, `lead_line` and `lead_part` of the other.
        """
        with self._readable():
            return self.whole_run.table(self.whole_run.joined_addresses(step)).to_pylist()
