"""Trackio's SQLite files, one for each project: opened for reading only.

Read from trackio 0.43, sqlite_storage.py: the table `metrics` has a row for each call of `log`, its
numbers as JSON text, NaN and infinities as words.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from board.errors import RecordError
from board.formats.io.locations import open_binary, pinned_name
from board.formats.metrics.base import MOST_RECORD_BYTES, MetricSource, Report, whole_number
from board.formats.parse import parse_whole

_MAGIC: Final = b"SQLite format 3\x00"
_WAIT_SECONDS: Final = 2.0
_MOST_SECONDS: Final = 120.0
"""A query that a damaged or hostile file makes endless is interrupted."""
_OPERATIONS: Final = 100_000
_REPORT_ROWS: Final = 1000


class TrackioDatabase(MetricSource):
    """One run of a project: the one called like the folder of the rollouts, else the newest.

    wanted: that folder's name.
    """

    title = "Trackio"

    def __init__(self, name: str, paths: tuple[Path, ...], wanted: str = "") -> None:
        super().__init__(name, paths)
        self._wanted, self._last_id, self._run = wanted, 0, ""
        self._inode = self._done = 0

    def restart(self) -> None:
        super().restart()
        self._last_id = 0

    @property
    def watched_paths(self) -> tuple[Path, ...]:
        """The file, and SQLite's log of what is new beside it."""
        return (*self.paths, *map(_log_of, self.paths))

    def read(self, report: Report) -> None:
        (path,) = self.paths
        with open_binary(path) as file:  # refuses a link that leads outside the root
            inode = os.fstat(file.fileno()).st_ino
            if file.read(len(_MAGIC)) != _MAGIC:
                self.note_now("it is no SQLite database", severity="lost")
                return
        if inode != self._inode:
            self.restart()  # it was replaced
            self._inode = inode
        with _connected(path) as database:
            self._read(database, report)

    def _read(self, database: sqlite3.Connection, report: Report) -> None:
        names = [row[1] for row in database.execute("PRAGMA table_info(metrics)")]
        kind = "SELECT type FROM sqlite_master WHERE name = 'metrics'"
        if database.execute(kind).fetchone() != ("table",) or "metrics" not in names:
            self.note_now("it has no table of metrics as Trackio writes it", severity="note")
            return
        run_key = "run_id" if "run_id" in names else "run_name"
        newest = f"SELECT {run_key}, run_name, max(id) FROM metrics GROUP BY 1, 2 ORDER BY 3 DESC"
        runs = database.execute(newest).fetchall()
        if not runs:
            return
        run, name, last = next((one for one in runs if one[1] == self._wanted), runs[0])
        if run != self._run or last < self._last_id:  # rows that were read are gone
            self.restart()
            self._run = run
        if len(runs) > 1:
            others = f"{len(runs) - 1} other run" + ("s" if len(runs) > 2 else "")
            reason = f"it holds {others}; {name} is shown"
            self.note_now(reason, "name the folder of the rollouts like the run", severity="note")
        query = f"SELECT id, step FROM metrics WHERE {run_key} = ? AND id > ? ORDER BY id"
        rows = database.execute(query, (run, self._last_id))
        for number, (row_id, step) in enumerate(rows):
            try:
                of_row = database.execute("SELECT metrics FROM metrics WHERE id = ?", (row_id,))
                self._add(step, of_row.fetchone()[0])
            except sqlite3.DataError:  # beyond SQLite's limit of length
                self.note(f"a row longer than {MOST_RECORD_BYTES >> 20} MB")
            self._last_id = row_id
            if number % _REPORT_ROWS == 0:
                report(self._done)

    def _add(self, written_step: object, text: object) -> None:
        step = whole_number(written_step)
        if step is None or not isinstance(text, str | bytes):
            self.note("a row without a step or without metrics")
            return
        self._done += len(text)
        try:
            record, _ = parse_whole(text.encode() if isinstance(text, str) else text)
        except RecordError as error:
            self.note(f"a row that can't be read: {error.reason}")
            return
        self.points.add_record(step, record)


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


@contextmanager
def _connected(path: Path) -> Generator[sqlite3.Connection]:
    log = _log_of(path)
    # Without a log of what is new SQLite would make one: it writes beside a file that it only reads.
    is_written = log.exists() and log.stat().st_size > 0
    with pinned_name(path) as pinned:
        # SQLite finds its log by the name of the file.
        name, mode = (path.absolute(), "ro") if is_written else (pinned, "ro&immutable=1")
        connection = sqlite3.connect(
            f"file:{quote(str(name))}?mode={mode}", uri=True, timeout=_WAIT_SECONDS
        )
        with closing(connection):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_RECORD_BYTES)
            end = time.monotonic() + _MOST_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > end, _OPERATIONS)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            yield connection
