"""The rollouts of a run as SQL over its index.

The view `stored` has the rows as the index has them, of which a run makes statements, one over the
other: `every` has those of its files, `current` leaves out what a resumed training wrote again, `visible`
further copies of a rollout, too. `view` joins the rows of several logs, and has the `position` of each
rollout in its step, which is its index.

All have the columns `file` (number in the run), `file_id`, `path`, `side` (number of its log among those
that are joined), `rank` (of the file's header where the row has none) and `part` (0 where there is none).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from board.index import segments
from board.index.manifest import NO_RANK, BrokenIndexError, Manifest, Segment
from board.index.segments import Column
from board.index.storage import FolderStorage, StepRange, Storage
from board.query import joins
from board.query.attempts import RunFiles
from board.query.columns import GAP, metrics_of, with_derived
from board.query.database import Database, create_table, quoted
from board.query.duplicates import find_duplicates

_COLUMNS: Final = ("file", "file_id", "path", "side", "rank", segments.PART)
"""Columns of all statements, besides those of `stored`."""
_ORDER: Final = "rank NULLS LAST, file, line, part"
# A preview without a whole text is the text, unless it is of token ids without a vocabulary.
_TEXT_OF_PREVIEW: Final = """CASE WHEN NOT (starts_with({0}, '⟨')
    AND regexp_full_match({0}, '(⟨[0-9?]+⟩)*(⟨[0-9?]*)?…?')) THEN {0} END"""
_LAST: Final = np.iinfo(np.int64).max
_NAN: Final = "CAST('nan' AS DOUBLE)"
_CHUNK_ROWS: Final = 250_000


class RunRows:
    """The rollouts of a whole run. columns: of its table of rollouts.

    `manifest` names the segments: one that only differs in its table of steps may take its place. What
    is needed in the database is created at the first question. Everything that asks the index raises
    BrokenIndexError.

    Args:
        duplicates: as of find_duplicates, where they are known.
    """

    def __init__(
        self,
        database: Database,
        storage: Storage,
        manifest: Manifest,
        run: RunFiles,
        duplicates: pa.Table | None = None,
    ) -> None:
        self.database, self.storage, self.manifest, self.run = database, storage, manifest, run
        self.sides = joins.sides_of([state.reader for state in run.files])
        has_rank = any(state.rank is not None for state in run.files)
        self.columns = with_derived(manifest.columns, has_rank=has_rank)
        self._by_name = {column.name: column for column in self.columns}
        self._lock = threading.RLock()
        self._segments = [
            segment
            for segment in manifest.all_segments
            if any(number in run.number_of for number in segment.files)
        ]
        self._folder: Path | None = None
        self._is_resumed = False
        self._schema = ""
        self._stored_names = frozenset[str]()
        self._created: dict[str, str] = {}
        self.duplicates = find_duplicates(self) if duplicates is None else duplicates

    def in_database(self, database: Database) -> RunRows:
        """The same with views in another database."""
        return RunRows(database, self.storage, self.manifest, self.run, self.duplicates)

    @property
    def version(self) -> str:
        """Another one whenever a table of the index is another, in any value."""
        names = repr(sorted(self.manifest.names))
        return hashlib.blake2b(names.encode(), digest_size=16).hexdigest()

    # Asking

    def table(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """What a statement gives."""
        with self.cursor() as cursor:
            return cursor.sql(sql, params=parameters or None).to_arrow_table()

    def batches(
        self, sql: str, parameters: Mapping[str, Any] | None, rows: int
    ) -> Iterator[pa.Table]:
        """What a statement gives, some rows at a time."""
        with self.cursor() as cursor:
            for batch in cursor.sql(sql, params=parameters or None).to_arrow_reader(rows):
                yield pa.Table.from_batches([batch])

    @contextmanager
    def cursor(self) -> Generator[duckdb.DuckDBPyConnection]:
        """A cursor, whose errors of a damaged index are BrokenIndexError."""
        try:
            with self.database.cursor() as cursor:
                yield cursor
        except duckdb.PermissionException as error:
            raise BrokenIndexError("a table is a link that leads outside the root") from error
        except (duckdb.Error, OSError, pa.ArrowException) as error:
            if not _is_damage(error):
                raise
            raise BrokenIndexError(str(error)) from error

    # Rows

    @property
    def every(self) -> str:
        """A statement for all rows."""
        return self._rows(None)

    def current(self, steps: StepRange | None = None) -> str:
        """A statement for the rows that no resumed training wrote again.

        steps: rows of other steps may be missing, so that fewer files are read.
        """
        rows = self._rows(steps)
        if (
            not self._is_resumed
        ):  # a join that hides nothing would still keep filters from the files
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
        with self._lock:
            if "duplicates" not in self._created:
                with self.cursor() as cursor:
                    create_table(cursor, self.schema, "duplicates", self.duplicates)
                self._created["duplicates"] = f"{self.schema}.duplicates"
        return f"""
            FROM ({current}) AS rows ANTI JOIN {self._created["duplicates"]} AS copies
            ON (copies.file, copies.line, copies.part) = (rows.file_id, rows.line, rows.part)"""

    def view(self, steps: StepRange | None = None) -> str:
        """The rollouts, in parentheses. steps: as of `current`."""
        source, order = self.visible(steps), _ORDER
        if self.sides:
            source = joins.merged_rows(self.sides, source, self._pairs(), sorted(self.stored))
            order = "side, own_rank NULLS LAST, file, line, part"
        return f"""(
            SELECT *, row_number() OVER (PARTITION BY step ORDER BY {order}) - 1 AS position
            FROM ({source}))"""

    @property
    def hidden(self) -> str:
        """A statement for the rows that are neither visible nor of another run."""
        return f"""
            SELECT *, row_number() OVER (PARTITION BY step ORDER BY {_ORDER}) - 1 AS position
            FROM ({self.every}) ANTI JOIN ({self.visible()}) USING (file, line, part)
        """

    def _pairs(self) -> str:
        """The table of joins.join_pairs, which is created when it is first needed."""
        with self._lock:
            if "pairs" not in self._created:
                name = f"{self.schema}.pairs"
                with self.cursor() as cursor:
                    pairs = joins.join_pairs(self.visible(), self.stored)
                    cursor.execute(f"CREATE TABLE {name} AS {pairs}")
                self._created["pairs"] = name
            return self._created["pairs"]

    def joined_addresses(self, step: int) -> str:
        """A statement for where the rows of a step lie that are joined to another, by log."""
        return f"""
            SELECT file, line, "offset", size, part, lead_file, lead_line, lead_part
            FROM ({self.visible((step, step))}) JOIN {self._pairs()} USING (file, line, part)
            WHERE step = {step} ORDER BY side, {_ORDER}
        """

    def join_summary(self) -> joins.JoinSummary:
        """How far the logs are joined."""
        if not self.sides:
            return joins.JoinSummary()
        files = {state.id: state for state in self.run.files}
        return joins.summarize(
            self.table, self.sides, self.visible(), self._pairs(), self.stored, files
        )

    # Columns

    @property
    def metrics(self) -> tuple[str, ...]:
        """Columns that make a curve."""
        return metrics_of(self.columns)

    @property
    def stored(self) -> frozenset[str]:
        """Columns of all statements."""
        with self._lock:
            assert self.schema
            return self._stored_names | {*_COLUMNS}

    @property
    def names(self) -> frozenset[str]:
        """Columns of `view`."""
        return self.stored | {"position"}

    @property
    def order(self) -> str:
        """What follows ORDER BY for the order by step and position; a position would take longer."""
        return "step, position" if self.sides else f"step, {_ORDER}"

    @property
    def key(self) -> str:
        """SQL for a value by which rollouts are in that order."""
        if self.sides:
            return "row(step, position)"
        return f"row(step, coalesce(rank, {_LAST}), file, line, part)"

    def stored_names(self, columns: Iterable[str]) -> list[str]:
        """The columns of the view that these columns of the run are made of, and the step."""
        wanted = {*columns, "step"}
        if GAP in wanted:
            wanted |= {"reward", "ref_reward"}
        wanted_columns = (self._by_name.get(name, Column(name)) for name in sorted(wanted))
        every = (name for column in wanted_columns for name in segments.stored_names(column))
        return [name for name in every if name in self.names]

    def value(self, name: str) -> str:
        """SQL for a column of the run: NULL where it is not recorded, also where the log says NaN."""
        column = self._by_name.get(name, Column(name))
        if name == "index":
            return "position"
        if name == GAP:
            return f"{_number('reward')} - {_number('ref_reward')}"
        stored = [one for one in segments.stored_names(column) if one in self.names]
        if not stored:
            return f"CAST(NULL AS {'VARCHAR' if column.words else 'DOUBLE'})"
        if name in segments.FIXED:
            is_exact = column.texts or name in segments.WHOLE_NUMBERS
            return quoted(stored[0]) if is_exact else _number(stored[0])
        if column.words:
            texts = (f"CAST({quoted(one)} AS VARCHAR)" for one in reversed(stored))
            return f"coalesce({', '.join(texts)})"
        numbers = (f"TRY_CAST({quoted(one)} AS DOUBLE)" for one in stored)
        return f"nullif(coalesce({', '.join(numbers)}), {_NAN})"

    def whole_text(self, name: str) -> str:
        """SQL for a whole text, one of segments.TEXT_NAMES; NULL where it is not recorded."""
        if name == segments.ANY_TEXT:
            texts = [*map(self.whole_text, segments.TEXT_NAMES[:-1])]
            if segments.MESSAGES in self.names:
                others = f"list_transform({quoted(segments.MESSAGES)}, lambda m: m.text)"
                texts.append(f"nullif(array_to_string({others}, chr(10)), '')")
            return f"concat_ws(chr(10), {', '.join(texts)})"
        texts = [quoted(segments.WHOLE + name)] if segments.WHOLE + name in self.names else []
        if name in self.names:
            texts.append(_TEXT_OF_PREVIEW.format(quoted(name)))
        return f"coalesce({', '.join(texts)})" if texts else "CAST(NULL AS VARCHAR)"

    # What is created in the database

    @property
    def schema(self) -> str:
        """The schema that the views are in."""
        with self._lock:
            if not self._schema:
                self._schema = self._create()
            return self._schema

    def _create(self) -> str:
        schema = self.database.add_schema(self)
        with self.cursor() as cursor:
            self._create_stored(cursor, schema)
            described = cursor.execute(f"DESCRIBE {schema}.stored").fetchall()
            self._stored_names = frozenset(name for name, *_ in described)
            create_table(cursor, schema, "files", self._files())
            superseded = [*self.run.superseded_ranges()]
            self._is_resumed = bool(superseded)
            if superseded:
                names = ("file", "rank", "before_line", "from_step")
                create_table(cursor, schema, "superseded", _numbers_table(superseded, names))
        return schema

    def _create_stored(self, cursor: duckdb.DuckDBPyConnection, schema: str) -> None:
        names = [segment.name for segment in self._segments]
        if isinstance(self.storage, FolderStorage) and names:
            self.storage.verify(names)
            self._folder = self.database.link(schema, self.storage.folder)
            cursor.execute(f"CREATE VIEW {schema}.stored AS {self._files_of(self._segments)}")
            cursor.execute(f"CREATE TABLE {schema}.no_rows AS FROM {schema}.stored LIMIT 0")
        else:
            create_table(cursor, schema, "stored", segments.joined(map(self.storage.get, names)))

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

    def _files(self) -> pa.Table:
        files, numbers = self.run.files, self.run.number_of
        sides = {side.reader: number for number, side in enumerate(self.sides)}
        rows = [(s.id, numbers[s.id], s.rank, sides.get(s.reader, 0)) for s in files]
        # Names of files need not be UTF-8.
        paths = [state.path.encode("utf-8", "replace").decode() for state in files]
        table = _numbers_table(rows, ("id", "number", "rank", "side"))
        return table.append_column("path", pa.array(paths, pa.string()))

    def _rows(self, steps: StepRange | None) -> str:
        schema, names = self.schema, self._stored_names
        part = f"coalesce(stored.{segments.PART}, 0)" if segments.PART in names else "0::BIGINT"
        rank = "coalesce(stored.rank, files.rank)" if "rank" in names else "files.rank"
        replaced = ", ".join(name for name in ("file", "rank", segments.PART) if name in names)
        return f"""
            SELECT stored.* EXCLUDE ({replaced}), files.number AS file, files.id AS file_id,
                files.path AS path, files.side AS side, {rank} AS rank, {part} AS part
            FROM {self._stored(steps)} AS stored
                JOIN {schema}.files AS files ON stored.file = files.id
        """


def step_ranges(counts: Mapping[int, int], rows: int = 0) -> Iterator[StepRange]:
    """Ranges of these steps, which are ascending, of about so many rollouts if no step has more."""
    steps, size = list(counts), 0
    first = steps[0] if steps else 0
    for number, step in enumerate(steps):
        size += counts[step]
        if size >= (rows or _CHUNK_ROWS) or number == len(steps) - 1:
            yield first, step
            first, size = step + 1, 0


def _numbers_table(rows: Iterable[tuple[int | None, ...]], names: tuple[str, ...]) -> pa.Table:
    """Rows of whole numbers as a table."""
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    return pa.table([pa.array(values, pa.int64()) for values in columns], [*names])


def _number(name: str) -> str:
    return f"nullif({quoted(name)}, {_NAN})"


def _is_damage(error: Exception) -> bool:
    """Whether a file of the index can't be read: DuckDB has no class of its own for what is in it, and
    may not read a path that leads nowhere.
    """
    kinds = (duckdb.IOException, duckdb.InvalidInputException)
    return isinstance(error, (*kinds, OSError, pa.ArrowException)) or type(error) is duckdb.Error
