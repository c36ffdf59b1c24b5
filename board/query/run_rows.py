"""The rollouts of a run as SQL over its index: which of its rows count, in which order, and how many.

The view `stored` has the rows as the index has them. Over it, `current` leaves out what a resumed
training wrote again, `visible` further copies of a rollout, too. `view` joins the rows of several logs,
and has the `position` of each in its step: its index.

All have the columns `file` (number in the run), `file_id`, `path`, `side` (of joined logs), `rank` (of
the file's header where the row has none) and `part` (0 where there is none).
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from board.core.problems import Problem
from board.index import segments
from board.index.discovery.cause_patterns import packaged_patterns
from board.index.discovery.run_info import RunInfo
from board.index.manifest import NO_RANK, BrokenIndexError, DeletedIndexError, Manifest, Segment
from board.index.segments import Column
from board.index.storage import FolderStorage, StepRange, Storage
from board.query import causes
from board.query import columns as column_sql
from board.query.attempts import RunFiles
from board.query.columns import AS_LOGGED, Derived
from board.query.database import Database, create_table, database_of, is_damage, numbers_table
from board.query.duplicates import counts_of, find_duplicates, notes_on
from board.query.joins import JoinSummary, join_pairs, merged_rows, sides_of, summarize
from board.query.labels.columns import columns_of, label_sql
from board.query.splits import split_sql, with_models
from board.query.sql.exact_numbers import ExactTypes

_COLUMNS: Final = ("file", "file_id", "path", "side", "rank", segments.PART)
"""Columns of all statements, besides those of `stored`."""
_ORDER: Final = "rank NULLS LAST, file, line, part"
_LAST: Final = np.iinfo(np.int64).max


class RunRows:
    """The rollouts of a whole run. columns: of its table; files: those of the run. `manifest` names the
    segments. Whatever asks the index raises BrokenIndexError.

    Args:
        database: that its views are in; None: the one of all runs below the root.
        duplicates: as of find_duplicates, where they are known.
        derived: columns to make; those are left out that the log has, or that can't be made of it.
    """

    def __init__(
        self,
        storage: Storage,
        manifest: Manifest,
        info: RunInfo,
        database: Database | None = None,
        duplicates: pa.Table | None = None,
        derived: Derived = AS_LOGGED,
    ) -> None:
        self.storage, self.manifest, self._info = storage, manifest, info
        self._database = database or database_of(info.root, storage.folder)
        self.files = RunFiles(manifest, [info.path_of(file) for file in info.files])
        self.sides = sides_of([state.reader for state in self.files.states])
        has_rank = any(state.rank is not None for state in self.files.states)
        self.derived = derived.lacking_in(manifest.columns)
        columns = (*manifest.columns, *self.derived.columns)
        self.columns = column_sql.with_derived(columns, has_rank=has_rank)
        known = self.files.number_of.keys()
        self._segments = [s for s in manifest.all_segments if not known.isdisjoint(s.files)]
        self.patterns = packaged_patterns()
        self.labels: pa.Table | None = None
        self._label_schema, self._unlabelled = "", self
        self._lock = threading.RLock()
        self._folder: Path | None = None
        self._schema, self._stored_names, self._types = "", frozenset[str](), ExactTypes()
        self.duplicates = find_duplicates(self) if duplicates is None else duplicates
        if self.duplicates.num_rows:
            with self.cursor() as cursor:
                create_table(cursor, self.schema, "duplicates", self.duplicates)
        if self.sides:
            sql = f"CREATE TABLE {self.schema}.pairs AS {join_pairs(self.visible(), self.stored)}"
            with self.cursor() as cursor:
                cursor.execute(sql)
        if self.model_split:
            columns = (*columns, Column("split", texts=True, words=True))
            self.columns = column_sql.with_derived(columns, has_rank=has_rank)

    def in_database(self, database: Database) -> RunRows:
        """The same with views in another database."""
        log = (self.storage, self.manifest, self._info)
        rows = RunRows(*log, database, self.duplicates, self.derived)
        rows.patterns = self.patterns
        return rows if self.labels is None else rows.with_labels(self.labels)

    def with_labels(self, table: pa.Table) -> RunRows:
        """The same with columns of labels. table: of labels.columns.label_table."""
        assert self.schema
        rows, plain = copy(self), self._unlabelled
        rows._unlabelled = plain  # whose schema is dropped with it
        rows.labels = table
        rows.columns = (*plain.columns, *columns_of(table))
        rows.__dict__.pop("metrics", None)
        rows._label_schema = self._database.add_schema(rows)
        with self.cursor() as cursor:
            create_table(cursor, rows._label_schema, "labels", table)
        return rows

    @property
    def version(self) -> str:
        """Another one whenever a table of the index is another, in any value."""
        names = repr(sorted(self.manifest.names))
        return hashlib.blake2b(names.encode(), digest_size=16).hexdigest()

    def table(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """What a statement gives."""
        with self.cursor() as cursor:
            return cursor.sql(sql, params=parameters or None).to_arrow_table()

    @contextmanager
    def cursor(self) -> Generator[duckdb.DuckDBPyConnection]:
        """A cursor, whose errors of a damaged index are BrokenIndexError: it is made again when the run
        is next opened.
        """
        try:
            with self._database.cursor() as cursor:
                yield cursor
        except (duckdb.Error, OSError, pa.ArrowException, BrokenIndexError) as error:
            if not is_damage(error):
                raise
            with suppress(DeletedIndexError):  # its folder is gone, and the manifest with it
                self.storage.discard(self.manifest)
            is_link = isinstance(error, duckdb.PermissionException)
            reason = "a table is a link that leads outside the root" if is_link else error
            said = f"the index of {self._info.name} changed meanwhile ({reason}); reload"
            raise BrokenIndexError(said) from error

    # Statements

    def current(self, steps: StepRange | None = None) -> str:
        """A statement for the rows that no resumed training wrote again.

        steps: rows of other steps may be missing, so that fewer files are read.
        """
        rows = self.every_row(steps)
        # A join that hides nothing would still keep filters from the files.
        if not self.files.superseded_ranges:
            return rows
        named = f"coalesce(stored.rank, {NO_RANK})" if "rank" in self._stored_names else NO_RANK
        return f"""{rows}
            ANTI JOIN {self.schema}.superseded AS s ON s.file = stored.file AND stored.step >= s.from_step
                AND stored.line < s.before_line AND (s.rank IS NULL OR s.rank = {named})
        """

    def visible(self, steps: StepRange | None = None) -> str:
        """A statement for the rows that count, before they are joined. steps: as of `current`."""
        current = self.current(steps)
        if not self.duplicates.num_rows:
            return current
        return f"""
            FROM ({current}) AS rows ANTI JOIN {self.schema}.duplicates AS copies
            ON (copies.file, copies.line, copies.part) = (rows.file_id, rows.line, rows.part)"""

    def view(self, steps: StepRange | None = None) -> str:
        """The rollouts, in parentheses. steps: as of `current`."""
        order = "side, own_rank NULLS LAST, file, line, part" if self.sides else _ORDER
        number = f"row_number() OVER (PARTITION BY step ORDER BY {order}) - 1"
        return f"(SELECT *, {number} AS position FROM {self.unnumbered(steps)})"

    def unnumbered(self, steps: StepRange | None = None) -> str:
        """The same without `position`, for which all rows of a step are sorted with all columns."""
        return with_models(self._shown(steps), self.model_split, self.stored)

    def _shown(self, steps: StepRange | None = None) -> str:
        source = self.visible(steps)
        if self.sides:
            source = merged_rows(self.sides, source, f"{self.schema}.pairs", sorted(self.stored))
        return f"({source})"

    @cached_property
    def model_split(self) -> str:
        """SQL for the split with the model; empty where no step has several. See splits."""
        return split_sql(self.table, self._shown(), self.columns, self.stored)

    @property
    def hidden(self) -> str:
        """The rows of the run that are not visible, in parentheses."""
        return f"""(
            SELECT *, row_number() OVER (PARTITION BY step ORDER BY {_ORDER}) - 1 AS position
            FROM {with_models(f"({self.every_row()})", self.model_split, self.stored)}
                ANTI JOIN ({self.visible()}) USING (file, line, part))
        """

    # Columns

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Columns that make a curve."""
        return column_sql.metrics_of(self.columns)

    @property
    def stored(self) -> frozenset[str]:
        """Columns of all statements."""
        assert self.schema
        return self._stored_names | {*_COLUMNS, *(column.name for column in self.derived.columns)}

    @property
    def indexed(self) -> frozenset[str]:
        """Columns of the index."""
        assert self.schema
        return self._stored_names

    @property
    def names(self) -> frozenset[str]:
        """Columns of `view`."""
        return self.stored | {"position", *(("split",) if self.model_split else ())}

    @property
    def order(self) -> str:
        """What follows ORDER BY for the order by step and position; a position would take longer."""
        return "step, position" if self.sides else f"step, {_ORDER}"

    @property
    def key(self) -> str:
        """SQL for a value by which rollouts are in that order."""
        by_rank = f"row(step, coalesce(rank, {_LAST}), file, line, part)"
        return "row(step, position)" if self.sides else by_rank

    def column(self, name: str) -> Column:
        """A column of the run; one that nothing is recorded of where it has none of that name."""
        return next((own for own in self.columns if own.name == name), Column(name))

    def value(self, name: str) -> str:
        """SQL for a column of the run: NULL where it is not recorded, also where the log says NaN."""
        return self._made(name) or column_sql.value_sql(self.column(name), self.names)

    def frame_value(self, name: str) -> str:
        """SQL for a column as columns.frame_of takes it."""
        return self._made(name) or column_sql.frame_value_sql(self.column(name), self.names)

    def exact_type(self, name: str) -> pa.DataType:
        """The type of a column whose numbers are texts in the index; of the whole run."""
        return self._types.of(name, self.table, self.unnumbered(), self.frame_value(name))

    def _made(self, name: str) -> str:
        """SQL for a column that is made of others; empty for those of the log."""
        if name in segments.CAUSE_COLUMNS:
            return causes.cause_sql(name, self.names, self.patterns, self._signs)
        return label_sql(name, self._label_schema) if name in segments.LABEL_COLUMNS else ""

    @cached_property
    def _signs(self) -> causes.Signs:
        """What the rollouts show together of failures."""
        tables = [
            f"{self.schema}.{name}"
            for name in ("unscored", "endings", "broken", "notes", "refused")
        ]
        with self.cursor() as cursor:
            return causes.create_signs(cursor, self.table, tables, self.unnumbered(), self.names)

    def whole_text(self, name: str) -> str:
        """SQL for a whole text, one of segments.TEXT_NAMES; NULL where it is not recorded."""
        return column_sql.whole_text_sql(name, self.names)

    # Numbers of rows

    @cached_property
    def joins(self) -> JoinSummary:
        """How far the logs are joined."""
        if not self.sides:
            return JoinSummary()
        states = {state.id: state for state in self.files.states}
        rows, pairs, names = self.visible(), f"{self.schema}.pairs", self.stored
        return summarize(self.table, self.sides, rows, pairs, names, states)

    @cached_property
    def _copies(self) -> dict[int, Counter[int]]:
        """By id of a file, how many copies it has at each step."""
        return counts_of(self.duplicates)

    @cached_property
    def _by_file(self) -> dict[int, Counter[int]]:
        """By id of a file its visible rollouts of each step."""
        both = (self._copies, self.joins.hidden)
        return {
            number: counts - sum((of.get(number, Counter()) for of in both), Counter[int]())
            for number, counts in self.files.current_counts.items()
        }

    @cached_property
    def counts(self) -> dict[int, int]:
        """Rollouts by step, ascending."""
        total = Counter[int]()
        for counts in self._by_file.values():
            total.update(counts)
        return dict(sorted(total.items()))

    def file_counts(self) -> dict[str, tuple[int, int, int]]:
        """By path: visible rollouts, and their first and last step; files without any are absent."""
        counts = {state.path: self._by_file[state.id] for state in self.files.states}
        return {path: (own.total(), min(own), max(own)) for path, own in counts.items() if own}

    def joined_files(self) -> dict[str, int]:
        """By path how many rows are shown with those of another log; files without any are absent."""
        hidden = self.joins.hidden
        return {s.path: hidden[s.id].total() for s in self.files.states if s.id in hidden}

    @cached_property
    def missing_ranks(self) -> dict[int, tuple[int, ...]]:
        """By step the ranks that have not ended it, none where all have; see RunFiles.missing_ranks."""
        return self.files.missing_ranks(self._by_file)

    def world_sizes(self) -> dict[int, int]:
        """By step how many ranks write it, where the newest launch that does says so."""
        newest = self.files.newest_attempts(self._by_file).items()
        return {step: one.world_size for step, one in newest if one is not None and one.world_size}

    def repeated(self) -> Iterator[Problem]:
        """What is said of each file of which rollouts are elsewhere too; its count is how many."""
        return notes_on(self.duplicates, self._copies, self.files.states)

    @property
    def rules(self) -> dict[str, int]:
        """What is hidden as plain data: equal where the same rollouts are shown of the same lines."""
        as_plain = self.files.rules
        for number, copies in self._copies.items():
            as_plain |= {f"{number} {step} {n} repeats": step for step, n in copies.items()}
        if segments.TURN_COLUMNS[1] in {column.name for column in self.manifest.columns}:
            as_plain["calls"] = -_LAST  # rollouts of all steps without a call have 0 of them then
        if self.model_split:
            as_plain["models"] = -_LAST  # as the groups of all steps are those of a model then
        return as_plain

    # What is created in the database

    @property
    def schema(self) -> str:
        """The schema that the views are in, which is created when it is first needed."""
        with self._lock:
            if not self._schema:
                schema = self._database.add_schema(self)
                with self.cursor() as cursor:
                    self._create(cursor, schema)
                self._schema = schema
            return self._schema

    def _create(self, cursor: duckdb.DuckDBPyConnection, schema: str) -> None:
        names = [segment.name for segment in self._segments]
        if isinstance(self.storage, FolderStorage) and names:
            self.storage.verify(names)
            self._folder = self._database.link(schema, self.storage.folder)
            cursor.execute(f"CREATE VIEW {schema}.stored AS {self._files_of(self._segments)}")
            cursor.execute(f"CREATE TABLE {schema}.no_rows AS FROM {schema}.stored LIMIT 0")
        else:
            create_table(cursor, schema, "stored", segments.joined(map(self.storage.get, names)))
        described = cursor.execute(f"DESCRIBE {schema}.stored").fetchall()
        self._stored_names = frozenset(name for name, *_ in described)
        create_table(
            cursor, schema, "files", self.files.table([side.reader for side in self.sides])
        )
        ranges = ("file", "rank", "before_line", "from_step")
        superseded = numbers_table(self.files.superseded_ranges, ranges)
        create_table(cursor, schema, "superseded", superseded)

    def _files_of(self, several: Sequence[Segment]) -> str:
        paths = ", ".join(f"'{self._folder}/{segment.name}'" for segment in several)
        return f"FROM read_parquet([{paths}], union_by_name = true)"

    def _stored(self, steps: StepRange | None) -> str:
        """The rows of these steps as they are stored, and maybe others."""
        if self._folder is None or steps is None:
            return f"{self.schema}.stored"
        several = [s for s in self._segments if s.low <= steps[1] and s.high >= steps[0]]
        if not several:
            return f"{self.schema}.no_rows"
        # Some columns may only be in other files.
        return f"({self._files_of(several)} UNION ALL BY NAME FROM {self.schema}.no_rows)"

    def every_row(self, steps: StepRange | None = None) -> str:
        """A statement for all rows of the run, visible or not. steps: as of `current`."""
        schema, names = self.schema, self._stored_names
        part = f"coalesce(stored.{segments.PART}, 0)" if segments.PART in names else "0::BIGINT"
        rank = "coalesce(stored.rank, files.rank)" if "rank" in names else "files.rank"
        replaced = ", ".join(name for name in ("file", "rank", segments.PART) if name in names)
        derived = self.derived.sql(self.manifest.columns, names)
        return f"""
            SELECT stored.* EXCLUDE ({replaced}), files.number AS file, files.id AS file_id,
                files.path AS path, files.side AS side, {rank} AS rank, {part} AS part{derived}
            FROM {self._stored(steps)} AS stored
                JOIN {schema}.files AS files ON stored.file = files.id
        """
