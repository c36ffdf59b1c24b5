"""Trackio's SQLite files, one for each project: opened for reading only.

Read from trackio 0.43, sqlite_storage.py: the table `metrics` has a row for each call of `log`, its
numbers as JSON text, NaN and infinities as words.
"""

from __future__ import annotations

import os
import sqlite3
import sys
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
_MOST_SECONDS: Final = 30.0
"""That SQLite may take until it has a row: a file can be made so that it never has one."""
_INSTRUCTIONS: Final = 100_000
"""Of SQLite's between two looks at the clock: some milliseconds."""
_REPORT_ROWS: Final = 1000
_MOST_CHARACTERS: Final = 100
"""Characters of a run's name in a note."""


class TrackioDatabase(MetricSource):
    """One run of a project: the one called like the folder of the rollouts, else the newest.

    wanted: that folder's name.
    """

    title = "Trackio"

    def __init__(self, name: str, paths: tuple[Path, ...], wanted: str = "") -> None:
        super().__init__(name, paths)
        self.watched = (*paths, *(_neighbour(path, "-wal") for path in paths))
        self._wanted, self._last_id, self._inode = wanted, 0, 0
        self._run: object = None
        self._done = 0
        self._deadline = 0.0

    def restart(self) -> None:
        super().restart()
        self._last_id = 0

    def read(self, report: Report) -> None:
        (path,) = self.paths
        with open_binary(path) as file:  # refuses a link that leads outside the root
            if file.read(len(_MAGIC)) != _MAGIC:
                self.note("it is no SQLite database", severity="lost", of_reading=True)
                return
            inode = os.fstat(file.fileno()).st_ino
        if inode != self._inode:
            self.restart()
            self._inode = inode
        try:
            with self._connected(path) as database:
                self._read(database, report)
        except sqlite3.Error as error:
            is_late = str(error) == "interrupted"
            reason = f"SQLite took more than {_MOST_SECONDS:.0f} s for a row" if is_late else error
            self.note(f"can't be read: {reason}", severity="lost", of_reading=True)

    def _read(self, database: sqlite3.Connection, report: Report) -> None:
        columns = database.execute("PRAGMA table_info(metrics)").fetchall()
        names, keys = [row[1] for row in columns], [row[1] for row in columns if row[5] == 1]
        kind = "SELECT type FROM sqlite_master WHERE name = 'metrics'"
        if database.execute(kind).fetchone() != ("table",) or keys != ["id"]:
            reason = "it has no table of metrics as Trackio writes it"
            self.note(reason, severity="note", of_reading=True)
            return
        run_key = "run_id" if "run_id" in names else "run_name"
        newest = (
            f"SELECT {run_key}, run_name, max(id) FROM metrics GROUP BY 1, 2 ORDER BY max(id) DESC"
        )
        runs = database.execute(newest).fetchall()
        if not runs:
            self.restart()
            return
        run, name, last_id = next((one for one in runs if one[1] == self._wanted), runs[0])
        if run != self._run or last_id < self._last_id:  # or the database was made anew
            self.restart()
            self._run = run
        if len(runs) > 1:
            others = f"{len(runs) - 1} other run" + ("s" if len(runs) > 2 else "")
            reason = f"it holds {others}; {str(name)[:_MOST_CHARACTERS]} is shown"
            hint = "name the folder of the rollouts like the run"
            self.note(reason, hint, severity="note", of_reading=True)
        # With the plus SQLite takes the rows in their order, and not those of an index to sort them.
        self._read_rows(database, f"FROM metrics WHERE +{run_key} = ? AND id > ?", report)

    def _read_rows(self, database: sqlite3.Connection, rows: str, report: Report) -> None:
        """Adds the new rows. Each is asked for by its number, so that one too long can be passed over."""
        query = f"SELECT id {rows} ORDER BY id"
        for number, (id_,) in enumerate(database.execute(query, (self._run, self._last_id))):
            self._deadline = time.monotonic() + _MOST_SECONDS
            self._last_id = id_
            try:
                one = database.execute("SELECT step, metrics FROM metrics WHERE id = ?", (id_,))
                self._add(*one.fetchone())
            except sqlite3.DataError:  # a value over the limit of the connection
                self.note(f"a row longer than {MOST_RECORD_BYTES >> 20} MB")
            if number % _REPORT_ROWS == 0:
                report(self._done)

    def _add(self, step: object, text: object) -> None:
        number = whole_number(step)
        if number is None or not isinstance(text, str | bytes):
            self.note("a row without a step, or without metrics")
            return
        self._done += len(text)
        try:
            record, _ = parse_whole(text.encode() if isinstance(text, str) else text)
        except RecordError as error:
            self.note(f"a row that can't be read: {error.reason}")
            return
        self.points.add_record(number, record)

    @contextmanager
    def _connected(self, path: Path) -> Generator[sqlite3.Connection]:
        """A connection that changes no file, and takes neither values nor time without a limit."""
        log = _neighbour(path, "-wal")
        is_logged = log.exists() and log.stat().st_size > 0
        if is_logged and not _neighbour(path, "-shm").exists():
            # SQLite would make one: it writes beside a file that it only reads.
            reason = f"the rows in {log.name} are not read: SQLite needs the file -shm for them"
            self.note(reason, "copy it, too, or end the training", of_reading=True)
            is_logged = False
        with pinned_name(path) as name:
            # SQLite looks for the log beside the file, which the name of a descriptor leads to on Linux.
            known = str(path.absolute()) if is_logged and sys.platform != "linux" else name
            mode = "mode=ro&readonly_shm=1" if is_logged else "mode=ro&immutable=1"
            uri = f"file:{quote(os.fsencode(known))}?{mode}"
            with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS)) as connection:
                self._deadline = time.monotonic() + _MOST_SECONDS
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_RECORD_BYTES)
                connection.set_progress_handler(
                    lambda: time.monotonic() > self._deadline, _INSTRUCTIONS
                )
                connection.text_factory = _text
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA query_only = ON")
                yield connection


def _neighbour(path: Path, ending: str) -> Path:
    """A file that SQLite keeps beside a database: -wal has what was written last, -shm its index."""
    return Path(os.path.realpath(path) + ending)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
