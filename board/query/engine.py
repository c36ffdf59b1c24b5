"""DuckDB as an engine over the index of one run: a connection in memory that can read that index alone."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb

MEMORY_LIMIT: Final = "400MB"
_SPILL_LIMIT: Final = "20GB"
_THREADS: Final = 2


@contextmanager
def connection(index_folder: Path | None) -> Generator[duckdb.DuckDBPyConnection]:
    """A connection that reads files of `index_folder` alone (None: no files), and whose settings are
    fixed.

    What does not fit into MEMORY_LIMIT goes to a temporary folder, which is removed at the end.
    """
    with TemporaryDirectory(prefix="rollout-board-") as spill:
        config: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY_LIMIT,
            "threads": _THREADS,
            "temp_directory": spill,
            "max_temp_directory_size": _SPILL_LIMIT,
            "python_enable_replacements": False,  # else `FROM name` reads this process's variables
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(":memory:", config=config) as opened:
            folders = [] if index_folder is None else [str(index_folder)]
            opened.execute("SET allowed_directories = $folders", {"folders": folders})
            opened.execute("SET enable_external_access = false")
            yield opened


def fix_settings(opened: duckdb.DuckDBPyConnection) -> None:
    """Nothing that is executed from now on can change a setting."""
    opened.execute("SET lock_configuration = true")
