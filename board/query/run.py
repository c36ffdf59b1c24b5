"""A run, opened: some or all of its rollouts, its steps, and everything that was wrong with its files.

Steps and rollouts are asked of the index when somebody needs them. Modules of questions put `view` and
`condition` into their SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from board.core.metrics.definitions import base_name
from board.core.problems import Problem
from board.core.schema import GENERATION
from board.core.tokens.vocabulary import Vocabulary
from board.errors import NotFoundError
from board.index.discovery.run_info import RunInfo
from board.index.discovery.sidecar_files import SidecarFiles
from board.index.segments import LABEL_COLUMNS, PART
from board.index.storage import StepRange
from board.query.columns import (
    AS_LOGGED,
    OpenOptions,
    RewardSource,
    aliased,
    frame_of,
    record_at,
    rows_of,
    with_names,
)
from board.query.labels.columns import Labels
from board.query.predicate import BoundSql, StepValues, number_of, parsed, predicate_of
from board.query.run_cache import RunCache
from board.query.run_rows import RunRows
from board.query.splits import split_value
from board.query.steps import recorded_counts, steps_of

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
_ORDER: Final = ("step", "rank", "file", "line", PART)
"""Columns by which rollouts are ordered, which every frame has."""
_ALWAYS: Final = frozenset(("step", "index", "file", "line", "offset", "size"))


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run as it was when it was opened, or those of its rollouts for which a predicate holds.

    rows: the rollouts of the whole run, by SQL. superseded: rollouts that a resumed run wrote again;
    repeated: further copies of rollouts that the log holds already; none of them is visible. done: bytes
    of the log that were read, of `info.bytes`.

    whole: the run that this one was made of by `where`; None: this is the whole. The predicate: envs
    (none: all), split (None: all), step_range (None: all) and filters, made of `expression`. Rollouts
    have their index within the whole step, by which `row` finds each. labels: of people. reward: how it
    was got where the log has its parts alone.

    Everything that asks the index raises UnreadableError where it was deleted or damaged meanwhile.
    """

    info: RunInfo
    options: OpenOptions
    rows: RunRows
    problems: tuple[Problem, ...] = ()
    superseded: int = 0
    repeated: int = 0
    sidecars: SidecarFiles = field(default_factory=SidecarFiles)
    done: int = 0
    whole: Run | None = None
    envs: tuple[str, ...] = ()
    split: str | None = None
    step_range: StepRange | None = None
    expression: str = ""
    filters: tuple[BoundSql, ...] = ()
    labels: Labels = field(default_factory=Labels)
    reward: RewardSource | None = None
    _cache: RunCache = field(default_factory=RunCache, repr=False)

    def where(
        self,
        expression: str = "",
        *,
        envs: Sequence[str] = (),
        split: str | None = None,
        steps: StepRange | None = None,
    ) -> Run:
        """The run with the rollouts alone for which a predicate holds; without one the run itself.

        A run that has none of them has no steps then.

        Args:
            expression: in the language of filters; what is not known does not hold.
            envs: names of environments, in place of those chosen before; none: as before.
            split: in place of the one chosen before; None: as before.
            steps: the first and the last one; None: as before.

        Raises:
            ExpressionError: the expression can't be read.
        """
        changes: dict[str, Any] = {}
        if expression:
            columns = (self.whole or self).columns
            prefix = f"where{len(self.filters)}_"
            predicate = predicate_of(self.rows, parsed(columns, expression), prefix)
            both = f"({self.expression}) and ({expression})" if self.expression else expression
            changes |= {"filters": (*self.filters, predicate), "expression": both}
        if envs and "env" in (self.whole or self).columns:
            changes["envs"] = tuple(dict.fromkeys(envs))
        if split is not None:
            changes["split"] = split
        if steps is not None:
            changes["step_range"] = steps
        if not changes:
            return self
        return replace(self, **changes, whole=self.whole or self, _cache=RunCache())

    def labelled(self, labels: Labels, table: pa.Table) -> Run:
        """The whole run with other labels. table: of them, from labels.columns.label_table."""
        return replace(self, rows=self.rows.with_labels(table), labels=labels, _cache=RunCache())

    @property
    def advantage_batch(self) -> Run:
        """Rollouts whose rewards may scale advantages: of these steps, or all of their generations."""
        steps = None if GENERATION in self.columns else self.step_range
        return replace(self, envs=(), filters=(), step_range=steps, _cache=RunCache())

    # SQL

    @property
    def view(self) -> str:
        """All rollouts of the whole run, or of these steps, as SQL in parentheses."""
        return self.rows.view(self.step_range)

    @property
    def condition(self) -> str:
        """The predicate, as SQL that every statement over `view` has."""
        terms = ["true"]
        if self.envs:
            terms.append("env IN (SELECT unnest($envs))")
        if self.split is not None:
            terms.append(f"{self.split_value} = $split")
        if self.step_range is not None:
            terms.append(f"step BETWEEN {self.step_range[0]} AND {self.step_range[1]}")
        terms += [one.sql for one in self.filters]
        if self.options.max_per_step is not None:
            terms.append(f"position < {self.options.max_per_step}")
        return " AND ".join(terms)

    @property
    def split_value(self) -> str:
        """The split of a rollout as SQL: rollouts that name none are training's."""
        return split_value(self.rows.names)

    def column(self, name: str) -> str:
        """SQL for a column of the run: NULL where nothing of it is recorded."""
        return self.rows.value(name)

    def number(self, text: str, of_steps: StepValues | None = None) -> BoundSql:
        """An expression as SQL for a number. of_steps: as of number_of. Raises ExpressionError."""
        names = (*(self.whole or self).columns, *(of_steps or ()))
        return number_of(self.rows, parsed(names, text), of_steps=of_steps)

    def table(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """What a statement with `condition` gives. parameters: values that it has besides."""
        return self.rows.table(sql, self._parameters(parameters))

    def batches(
        self, sql: str, rows: int, parameters: Mapping[str, Any] | None = None
    ) -> Iterator[pa.Table]:
        """What a statement gives, some rows at a time; see `table`."""
        with self.rows.cursor() as cursor:
            asked = cursor.sql(sql, params=self._parameters(parameters))
            for batch in asked.to_arrow_reader(rows):
                yield pa.Table.from_batches([batch])

    def _parameters(self, others: Mapping[str, Any] | None) -> dict[str, Any] | None:
        own = {name: value for one in self.filters for name, value in one.parameters.items()}
        if self.envs:
            own["envs"] = [*self.envs]
        if self.split is not None:
            own["split"] = self.split
        assert own.keys().isdisjoint(others or ()), "two parameters have one name"
        return {**own, **(others or {})} or None

    # Steps and counts

    def remembered(self, name: str, make: Callable[[], T]) -> T:
        """What `make` gives, computed once and cached as long as the run."""
        return self._cache.remembered(name, make)

    def remembered_of_step(self, what: str, step: int, make: Callable[[], T]) -> T:
        """The same about one step; cached for the last few steps."""
        return self._cache.remembered_of_step(what, step, make)

    @property
    def steps(self) -> pd.DataFrame:
        """One row per step, as steps.steps_table makes it; with `complete`, whether all ranks have
        ended the step (None: not known), where a header says how many there are.

        Of a part of a run without the quantiles between the smallest and the largest value.
        """
        return self.remembered("steps", lambda: self.step_table().to_pandas())

    def step_table(self, *, quantiles: bool = False) -> pa.Table:
        """The same as an Arrow table: commands go without pandas, which takes half a second to import.

        quantiles: all of them, and errors. Raises UnreadableError.
        """
        quantiles = quantiles and not self.has_stored_steps  # which has them
        return self.remembered(f"steps {quantiles}", lambda: steps_of(self, quantiles=quantiles))

    @property
    def has_stored_steps(self) -> bool:
        """Whether the index has the table of its steps."""
        is_as_logged = self.options.max_per_step is None and self.rows.derived == AS_LOGGED
        return self.whole is None and is_as_logged

    @property
    def _recorded(self) -> pa.Table:
        """Rollouts by step, and how many of them have each metric."""
        return self.remembered("recorded", lambda: recorded_counts(self))

    @property
    def counts(self) -> Mapping[int, int]:
        """Rollouts by step, ascending."""

        def counted() -> dict[int, int]:
            if self.whole is None:
                cap = self.options.max_per_step
                return {s: n if cap is None else min(n, cap) for s, n in self.rows.counts.items()}
            recorded = self._recorded
            steps, rollouts = (recorded[n].to_numpy().tolist() for n in ("step", "rollouts"))
            return dict(zip(steps, rollouts, strict=True))

        return self.remembered("counts", counted)

    @property
    def rollout_count(self) -> int:
        """Rollouts that are shown."""
        return sum(self.counts.values())

    @property
    def over_cap(self) -> int:
        """Rollouts of the whole run that are not visible since they are beyond max_per_step."""
        return sum(self.rows.counts.values()) - (self.whole or self).rollout_count

    @property
    def metrics(self) -> tuple[str, ...]:
        """Columns that make a curve."""

        def recorded() -> tuple[str, ...]:
            counts = self._recorded
            names = {metric: f"{base_name(metric)}_n" for metric in self.rows.metrics}
            recorded = {*counts.column_names}
            return tuple(
                metric
                for metric, name in names.items()
                if name in recorded and any(counts[name].to_pylist())
            )

        return self.remembered("metrics", recorded)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the table of rollouts; metrics of which the log holds nothing are absent."""

        def recorded() -> tuple[str, ...]:
            absent = set(self.rows.metrics) - set(self.metrics)
            return tuple(own.name for own in self.rows.columns if own.name not in absent)

        return self.remembered("columns", recorded)

    # Rollouts

    @property
    def rollouts(self) -> pd.DataFrame:
        """All rollouts, a row each, by step and index, with all columns; read at the first call."""

        def read() -> pd.DataFrame:
            frame = self.frame()
            if self.whole is not None:  # a column that other rollouts of the whole run record stays
                return frame
            lacking = [c for c in frame if c not in _ALWAYS and frame[c].isna().all()]
            return frame.drop(columns=lacking)

        return self.remembered("rollouts", read)

    def of_step(self, step: int) -> pd.DataFrame:
        """The rollouts of one step, with the labels that they have among all of them."""

        def read() -> pd.DataFrame:
            frame = self.frame(steps=(step, step))
            frame.index += sum(count for s, count in self.counts.items() if s < step)
            return frame

        return self.remembered_of_step("rollouts", step, read)

    def frame(
        self, columns: Sequence[str] | None = None, steps: StepRange | None = None
    ) -> pd.DataFrame:
        """These columns of the rollouts of a range of steps, with step, index and place in the log.

        A column of which the log holds nothing is left out. columns, steps: None is all.
        """
        own = self.where(steps=steps)
        return frame_of(self._select(columns, f"{own.view} WHERE {own.condition}"))

    def _select(self, columns: Sequence[str] | None, source: str) -> pa.Table:
        names = self.columns
        if columns is not None:
            names = tuple(name for name in names if name in {*columns, *_ORDER, "index"})
        values = aliased([self.rows.frame_value(name) for name in names])
        table = self.table(f"SELECT {values} FROM {source} ORDER BY step, position")
        return with_names(table, [*map(self.rows.column, names)], self.rows.exact_type)

    def row(self, step: int, index: int, columns: Sequence[str] | None = None) -> Mapping[str, Any]:
        """The row of a rollout, None for what is not recorded. columns: all that is needed of it.

        Raises NotFoundError naming what there is.
        """
        if self.whole is not None:
            return self.whole.row(step, index, columns)
        counts = self.counts
        if step not in counts:
            ends = f"{len(counts)} steps from {min(counts)} to {max(counts)}" if counts else ""
            which = ends or "no steps"
            raise NotFoundError(f"step {step} is not in {self.info.name}: it has {which}")
        if not 0 <= index < counts[step]:
            raise NotFoundError(f"step {step} has rollouts 0 to {counts[step] - 1}, not {index}")
        if (known := self._cache.of_step.get(("rollouts", step))) is not None:
            return record_at(known, index)
        if (row := self._cache.rows.get((step, index))) is not None:
            return row
        own = self.where(steps=(step, step))
        source = f"{own.view} WHERE {own.condition} AND position = {index}"
        return rows_of(self._select(columns, source))[0]

    def read_rows(self, rollouts: Collection[tuple[int, int]]) -> None:
        """Read the rows of rollouts, (step, index), by one statement, for `row`: the SQL of causes takes
        some 0.2 s to compile each time. Those that the run does not have are passed over.
        """
        if self.whole is not None:
            self.whole.read_rows(rollouts)
            return
        asked = ", ".join(f"({step}, {index})" for step, index in rollouts)
        if asked:
            source = f"{self.view} WHERE {self.condition} AND (step, position) IN ({asked})"
            rows = rows_of(self._select(None, source))
            self._cache.rows.update({(row["step"], row["index"]): row for row in rows})

    def superseded_rollouts(self) -> pd.DataFrame:
        """Rollouts that a resumed run wrote again, as `rollouts` would have them."""
        return frame_of((self.whole or self)._select(None, self.rows.hidden))

    # About the whole run

    @property
    def version(self) -> str:
        """Another one whenever anything of the run may be different, but labels that do not choose it."""
        vocabulary = f"{self.sidecars.vocabulary_hash} {self.sidecars.vocabulary_error}"
        labels = self.labels.version if LABEL_COLUMNS[0] in self.expression else ""
        chosen = (
            self.envs,
            self.split,
            self.step_range,
            self.expression,
            labels,
            self.rows.derived,
            self.rows.patterns.version,
        )
        return f"{self.rows.version} {self.done} {vocabulary} {chosen!r}"

    @property
    def index_folder(self) -> Path | None:
        """Where its index is; None: in memory."""
        return self.rows.storage.folder

    @property
    def missing_ranks(self) -> Mapping[int, tuple[int, ...]]:
        """By step that is still written, the ranks that have not ended it."""
        return {step: ranks for step, ranks in self.rows.missing_ranks.items() if ranks}

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """Content of run-*.json and metadata.json, by file name."""
        return self.sidecars.settings

    @property
    def vocabulary(self) -> Vocabulary | None:
        """From vocab.json; None where there is none that can be used."""
        return self.sidecars.vocabulary
