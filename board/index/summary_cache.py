"""Summaries of runs on disk: one SQLite file in the user's cache, which may be deleted at any time.

Runs that are too small for an index on disk are read anew by each process; their summaries are not.
Whatever goes wrong with the file costs time and nothing else, so no error of it is raised. Versions of
the board share the file, and none reads the rows of another.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

from board.formats.io.locations import cache_folder

Answer = TypeVar("Answer")
_MOST: Final = 20_000
"""Summaries that are kept; those written longest ago go first."""
_AT_ONCE: Final = 500
_WAIT_SECONDS: Final = 2.0
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS summaries (
        run TEXT PRIMARY KEY, signature TEXT NOT NULL, document BLOB NOT NULL, written REAL NOT NULL)
"""


class SummaryCache:
    """Documents by run, each with the signature of what it was made of.

    made_by: what documents they are, and the versions of the code that makes and reads them.
    """

    def __init__(self, made_by: str, path: Path | None = None) -> None:
        self._made_by = made_by
        self._path = path or cache_folder() / "summaries.sqlite3"

    def read(self, runs: Iterable[str]) -> dict[str, tuple[str, bytes]]:
        """Signature and document of those of the runs that have one."""
        by_key = {self._key(run): run for run in runs}
        wanted = [*by_key]

        def ask(file: sqlite3.Connection) -> dict[str, tuple[str, bytes]]:
            known: dict[str, tuple[str, bytes]] = {}
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = file.execute(
                    f"SELECT run, signature, document FROM summaries WHERE run IN ({marks})", some
                )
                known |= {by_key[key]: (signature, document) for key, signature, document in rows}
            return known

        return self._asked(ask) or {}

    def write(self, run: str, signature: str, document: bytes) -> None:
        """Keeps the document of a run, in place of the one before."""

        def put(file: sqlite3.Connection) -> None:
            row = (self._key(run), signature, document, time.time())
            file.execute("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?)", row)
            file.execute(
                "DELETE FROM summaries WHERE run IN "
                "(SELECT run FROM summaries ORDER BY written DESC LIMIT -1 OFFSET ?)",
                (_MOST,),
            )

        self._asked(put)

    def _key(self, run: str) -> str:
        # A path may hold bytes that are no text.
        return f"{self._made_by}\n{run}".encode("utf-8", "backslashreplace").decode()

    def _asked(self, question: Callable[[sqlite3.Connection], Answer]) -> Answer | None:
        """The answer of the file; None where it has none."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_WAIT_SECONDS)) as file, file:
                file.execute("PRAGMA synchronous = OFF")  # what a crash costs is made again
                file.execute(_TABLE)
                return question(file)
        except sqlite3.OperationalError:  # locked, or no room: the next time may be better
            return None
        except sqlite3.DatabaseError:  # damaged, or something else of that name
            with suppress(OSError):
                self._path.unlink()
            return None
        except OSError:
            return None
