"""One DuckDB database in memory: each opened run is a schema in it, whose views read the run's index."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportUnknownParameterType=false
# pyarrow ships without types.

from __future__ import annotations

import threading
import weakref
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Self

import duckdb
import pyarrow as pa

MEMORY_LIMIT: Final = "300MB"
_SPILL_LIMIT: Final = "20GB"
_THREADS: Final = 2


class Database:
    """A database in memory, asked by each thread with a cursor of its own.

    What does not fit into MEMORY_LIMIT goes to a temporary folder, which is removed at the end.
    """

    def __init__(self) -> None:
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
        self._numbers = count(1)
        self._dropped: list[str] = []
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, _close, self._connection, temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read_only(self, folder: Path | None) -> None:
        """From now on files of this folder alone can be read (None: no files), and settings are fixed."""
        folders = {"folders": [] if folder is None else [str(folder)]}
        self._connection.execute("SET allowed_directories = $folders", folders)
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

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
    connection.close()
    temporary.cleanup()


@cache
def shared_database() -> Database:
    """The one of this process."""
    return Database()


def create_table(
    cursor: duckdb.DuckDBPyConnection, schema: str, name: str, content: pa.Table
) -> None:
    """Copies an Arrow table into the database."""
    cursor.register("arrow_content", content)
    cursor.execute(f"CREATE TABLE {schema}.{name} AS FROM arrow_content")
    cursor.unregister("arrow_content")
