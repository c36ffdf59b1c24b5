"""DuckDB over the index of one run: a connection in memory that can read that index alone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import duckdb

MEMORY_LIMIT: Final = "400MB"
_SPILL_LIMIT: Final = "20GB"
_THREADS: Final = 2


class Engine(NamedTuple):
    """A connection, and the path by which it reads the index; None: it reads no files."""

    connection: duckdb.DuckDBPyConnection
    index: Path | None


@contextmanager
def open_engine(index_folder: Path | None) -> Generator[Engine]:
    """A connection that reads files of `index_folder` alone; None: no files.

    What does not fit into MEMORY_LIMIT goes to a temporary folder, which is removed at the end.
    """
    with TemporaryDirectory(prefix="rollout-board-") as temporary:
        index = None
        if index_folder is not None:
            # In a path that the user chose DuckDB takes * and [ for patterns.
            index = Path(temporary, "index")
            index.symlink_to(index_folder.resolve(), target_is_directory=True)
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY_LIMIT,
            "threads": _THREADS,
            "temp_directory": str(Path(temporary, "spill")),
            "max_temp_directory_size": _SPILL_LIMIT,
            "python_enable_replacements": False,  # else `FROM name` reads this process's variables
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(":memory:", config=config) as connection:
            folders = [] if index is None else [str(index)]
            connection.execute("SET allowed_directories = $folders", {"folders": folders})
            connection.execute("SET enable_external_access = false")
            yield Engine(connection, index)


def fix_settings(connection: duckdb.DuckDBPyConnection) -> None:
    """Nothing that is executed from now on can change a setting."""
    connection.execute("SET lock_configuration = true")
