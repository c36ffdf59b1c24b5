"""SQLite databases that somebody else writes: read only, changed by nothing, and trusted in nothing.

Views and triggers of a file are never run: whoever reads one asks first which of its names are tables.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from board.formats.io.locations import open_binary, pinned_name

SQLITE_MAGIC: Final = b"SQLite format 3\x00"
_WAIT_SECONDS: Final = 2.0
_MOST_SECONDS: Final = 30.0
"""That SQLite may take until it has a row: a file can be made so that it never has one."""
_INSTRUCTIONS: Final = 100_000
"""Of SQLite's between two looks at the clock: some milliseconds."""


class Database:
    """An open database. unread_log: why its newest rows are not read; empty: all are."""

    def __init__(self, connection: sqlite3.Connection, most_bytes: int, unread_log: str) -> None:
        self._connection, self.unread_log = connection, unread_log
        self._deadline = time.monotonic() + _MOST_SECONDS
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most_bytes)
        connection.set_progress_handler(lambda: time.monotonic() > self._deadline, _INSTRUCTIONS)
        connection.text_factory = _text
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")

    def rows(self, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query. Raises sqlite3.Error; DataError at a value over the bound."""
        self._deadline = time.monotonic() + _MOST_SECONDS
        for row in self._connection.execute(query, values):
            yield row
            self._deadline = time.monotonic() + _MOST_SECONDS

    def row(self, query: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        """The first row of a query; None where there is none."""
        return next(self.rows(query, values), None)

    def columns(self, table: str) -> dict[str, bool]:
        """By name of each column of a table whether it is its key; none where there is no such table."""
        kind = "SELECT type FROM sqlite_master WHERE name = ?"
        if self.row(kind, (table,)) != ("table",):
            return {}
        return {row[1]: row[5] == 1 for row in self.rows(f'PRAGMA table_info("{table}")')}


def is_sqlite(path: Path) -> bool:
    """Whether a file begins as an SQLite database does. Raises OSError."""
    with open_binary(path) as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC


@contextmanager
def opened_database(path: Path, most_bytes: int) -> Generator[Database]:
    """A database, which takes neither values of more than most_bytes nor time without a limit.

    Raises OSError, and sqlite3.Error where it can't be read.
    """
    log = neighbour(path, "-wal")
    is_logged, unread = log.exists() and log.stat().st_size > 0, ""
    if is_logged and not neighbour(path, "-shm").exists():
        # SQLite would make one: it writes beside a file that it only reads.
        unread = f"the rows in {log.name} are not read: SQLite needs the file -shm for them"
        is_logged = False
    with pinned_name(path) as name:
        # SQLite looks for the log beside the file, which the name of a descriptor leads to on Linux.
        known = str(path.absolute()) if is_logged and sys.platform != "linux" else name
        mode = "mode=ro&readonly_shm=1" if is_logged else "mode=ro&immutable=1"
        uri = f"file:{quote(os.fsencode(known))}?{mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS)) as connection:
            yield Database(connection, most_bytes, unread)


def neighbour(path: Path, ending: str) -> Path:
    """A file that SQLite keeps beside a database: -wal has what was written last, -shm its index."""
    return Path(os.path.realpath(path) + ending)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def sqlite_reason(error: sqlite3.Error) -> str:
    """What is wrong with a database, in words."""
    if str(error) == "interrupted":
        return f"SQLite took more than {_MOST_SECONDS:.0f} s for a row"
    return str(error)
