"""The rows of an index as SQL.

The view `stored` has the rows as the index has them. `every` has those of the files of a run, with `file`
(number in the run), `file_id`, `path`, `side` (number of its log among those that are joined), `rank`
(of the file's header where the row has none) and `part` (0 where there is none). `current` leaves out
those that a resumed training wrote again.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from board.index import segments
from board.index.manifest import NO_RANK, BrokenIndexError, Manifest, Segment
from board.index.storage import FolderStorage, Storage
from board.index.table_files import StepRange
from board.query.database import Database, create_table
from board.query.joins import Joins
from board.query.run_files import RunFiles

COLUMNS: Final = ("file", "file_id", "path", "side", "rank", segments.PART)
"""Columns of `every` and `current`, beside those of `stored`."""


class IndexViews:
    """The rows of the files of a run. What they need in the database is created at the first question.

    `manifest` names the segments: one that only differs in other tables may take its place.
    """

    def __init__(
        self, database: Database, storage: Storage, manifest: Manifest, run: RunFiles
    ) -> None:
        self.database, self.storage, self.manifest, self.run = database, storage, manifest, run
        self.joins = Joins({run.number_of[state.id]: state.reader for state in run.files})
        self.lock = threading.RLock()
        self._segments = [
            segment
            for segment in manifest.all_segments
            if any(number in run.number_of for number in segment.files)
        ]
        self._folder: Path | None = None
        self._is_resumed = False
        self._schema = ""
        self._stored_names = frozenset[str]()

    @property
    def schema(self) -> str:
        """The schema that the views are in. Raises BrokenIndexError."""
        with self.lock:
            if not self._schema:
                self._schema = self._create()
            return self._schema

    @property
    def version(self) -> str:
        """Another one whenever a table of the index is another, in any value."""
        return hashlib.blake2b(
            repr(sorted(self.manifest.names)).encode(), digest_size=16
        ).hexdigest()

    @property
    def names(self) -> frozenset[str]:
        """Columns of `every` and `current`. Raises BrokenIndexError."""
        with self.lock:
            assert self.schema
            return self._stored_names | {*COLUMNS}

    @property
    def every(self) -> str:
        """A statement for all rows. Raises BrokenIndexError."""
        return self._rows(None)

    def current(self, steps: StepRange | None = None) -> str:
        """A statement for the rows that no resumed training wrote again.

        steps: rows of other steps may be missing, so that fewer files are read. Raises BrokenIndexError.
        """
        rows = self._rows(steps)
        # A join that hides nothing would still keep filters from the files.
        return f"{rows} {self._without_superseded()}" if self._is_resumed else rows

    def table(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """What a statement gives. Raises BrokenIndexError."""
        with self.cursor() as cursor:
            return cursor.sql(sql, params=parameters or None).to_arrow_table()

    def batches(
        self, sql: str, parameters: Mapping[str, Any] | None, rows: int
    ) -> Iterator[pa.Table]:
        """As `table`, some rows at a time."""
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

    def create(self, name: str, content: pa.Table) -> str:
        """Copies a table into the schema; its name."""
        with self.cursor() as cursor:
            create_table(cursor, self.schema, name, content)
        return f"{self.schema}.{name}"

    def _create(self) -> str:
        schema = self.database.add_schema(self)
        with self.cursor() as cursor:
            self._create_stored(cursor, schema)
            described = cursor.execute(f"DESCRIBE {schema}.stored").fetchall()
            self._stored_names = frozenset(name for name, *_ in described)
            create_table(cursor, schema, "files", self._files())
            hidden = [*self.run.superseded.ranges()]
            self._is_resumed = bool(hidden)
            if hidden:
                names = ("file", "rank", "before_line", "from_step")
                create_table(cursor, schema, "superseded", numbers_table(hidden, names))
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
        files = self.run.files
        numbers = [self.run.number_of[state.id] for state in files]
        sides = self.joins.sides_of(numbers)
        ranks = [state.rank for state in files]
        rows = [*zip((state.id for state in files), numbers, ranks, sides, strict=True)]
        # Names of files need not be UTF-8.
        paths = [state.path.encode("utf-8", "replace").decode() for state in files]
        table = numbers_table(rows, ("id", "number", "rank", "side"))
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

    def _without_superseded(self) -> str:
        named = f"coalesce(stored.rank, {NO_RANK})" if "rank" in self._stored_names else NO_RANK
        return f"""
            ANTI JOIN {self.schema}.superseded AS s ON s.file = stored.file AND stored.step >= s.from_step
                AND stored.line < s.before_line AND (s.rank IS NULL OR s.rank = {named})
        """


def numbers_table(rows: Iterable[tuple[int | None, ...]], names: tuple[str, ...]) -> pa.Table:
    """Rows of whole numbers as a table."""
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    return pa.table([pa.array(values, pa.int64()) for values in columns], [*names])


def _is_damage(error: Exception) -> bool:
    """Whether a file of the index can't be read: DuckDB has no class of its own for what is in it, and
    may not read a path that leads nowhere.
    """
    kinds = (duckdb.IOException, duckdb.InvalidInputException)
    return isinstance(error, (*kinds, OSError, pa.ArrowException)) or type(error) is duckdb.Error
