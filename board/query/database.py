"""DuckDB in memory: each opened run is a schema of a database, whose views read the run's index.

A database reads the folders that it was made for and nothing else, whatever SQL it is asked.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import pyarrow as pa

from board.formats.io.locations import Location, cache_folder
from board.index.manifest import BrokenIndexError

MEMORY_LIMIT: Final = "200MB"
_SPILL_LIMIT: Final = "20GB"
_THREADS: Final = 2
_MOST_SHARED: Final = 8
"""Databases of roots that are there for the next run: a process mostly has one root."""


class Database:
    """A database in memory, asked by each thread with a cursor of its own.

    What does not fit into MEMORY_LIMIT goes to a temporary folder, which is removed at the end.

    Args:
        readable: folders whose files can be read. No other file can be, extensions are not loaded,
            and settings are fixed.
    """

    def __init__(self, readable: Iterable[Path] = ()) -> None:
        temporary = TemporaryDirectory(prefix="rollout-board-")
        self._folders = Path(temporary.name, "indexes")
        self._folders.mkdir()
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY_LIMIT,
            "threads": _THREADS,
            "temp_directory": str(Path(temporary.name, "spill")),
            "max_temp_directory_size": _SPILL_LIMIT,
            "python_enable_replacements": False,  # else `FROM name` reads this process's variables
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
        }
        self._connection = duckdb.connect(":memory:", config=config)
        # A file of an index never changes; there may be many, and each statement would read their ends.
        self._connection.execute("SET GLOBAL parquet_metadata_cache = true")
        folders = [str(folder.resolve()) for folder in readable]
        self._connection.execute("SET allowed_directories = $folders", {"folders": folders})
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._numbers = count(1)
        self._dropped: list[str] = []
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, _close, self._connection, temporary)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for one thread."""
        return self._connection.cursor()

    def add_schema(self, owner: object) -> str:
        """The name of a new schema, which is dropped some time after its owner is gone."""
        with self._lock:
            while self._dropped:
                self._connection.execute(f"DROP SCHEMA {self._dropped.pop()} CASCADE")
            name = f"run_{next(self._numbers)}"
            self._connection.execute(f"CREATE SCHEMA {name}")
        # Not dropped at once: the collector may run inside a query.
        weakref.finalize(owner, self._dropped.append, name).atexit = False
        return name

    def link(self, name: str, index_folder: Path) -> Path:
        """A path by which an index can be read: in one that a user chose * and [ would be patterns."""
        path = self._folders / name
        path.symlink_to(index_folder.resolve(), target_is_directory=True)
        return path


def _close(connection: duckdb.DuckDBPyConnection, temporary: TemporaryDirectory[str]) -> None:
    # A thread of the process that ends may be asking still: its answer is waited for by nobody.
    connection.interrupt()
    with suppress(duckdb.Error):
        connection.close()
    temporary.cleanup()


def database_of(root: Location | None = None, index_folder: Path | None = None) -> Database:
    """The database of all runs below a root, of which a process mostly has one.

    It reads the root and the user's cache, where indexes lie, and an index that links lead out of both.
    """
    readable = [cache_folder().resolve()]
    if isinstance(root, Path):
        readable.append(root.resolve())
    if index_folder is not None:
        folder = index_folder.resolve()
        if not any(folder.is_relative_to(parent) for parent in readable):
            readable.append(folder)
    return _shared(tuple(readable))


# Another root is another database, with threads of its own, until the runs of both are gone.
@lru_cache(maxsize=_MOST_SHARED)
def _shared(readable: tuple[Path, ...]) -> Database:
    return Database(readable)


def create_table(
    cursor: duckdb.DuckDBPyConnection, schema: str, name: str, content: pa.Table
) -> None:
    """Copies an Arrow table into the database."""
    cursor.register("arrow_content", content)
    cursor.execute(f"CREATE TABLE {schema}.{name} AS FROM arrow_content")
    cursor.unregister("arrow_content")


def quoted(name: str) -> str:
    """A name of a column in SQL."""
    return '"' + name.replace('"', '""') + '"'


def numbers_table(rows: Sequence[tuple[int | None, ...]], names: tuple[str, ...]) -> pa.Table:
    """Rows of whole numbers as a table."""
    columns = [*zip(*rows, strict=True)] or [()] * len(names)
    return pa.table([pa.array(values, pa.int64()) for values in columns], [*names])


def is_damage(error: Exception) -> bool:
    """Whether a file of the index can't be read: DuckDB has no class of its own for what is in it, and
    may not read a path that leads nowhere.
    """
    kinds = (
        *(duckdb.IOException, duckdb.InvalidInputException, duckdb.PermissionException),
        *(OSError, pa.ArrowException, BrokenIndexError),
    )
    return isinstance(error, kinds) or type(error) is duckdb.Error
