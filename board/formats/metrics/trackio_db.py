"""Trackio's SQLite files, one for each project: opened for reading only.

Read from trackio 0.43, sqlite_storage.py: the table `metrics` has a row for each call of `log`, its
numbers as JSON text, NaN and infinities as words.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from board.errors import RecordError
from board.formats.io.locations import open_binary
from board.formats.io.sqlite_files import (
    SQLITE_MAGIC,
    Database,
    neighbour,
    opened_database,
    sqlite_reason,
)
from board.formats.metrics.base import MOST_RECORD_BYTES, MetricSource, Report, whole_number
from board.formats.parse import parse_whole

_REPORT_ROWS: Final = 1000
_MOST_CHARACTERS: Final = 100
"""Characters of a run's name in a note."""


class TrackioDatabase(MetricSource):
    """One run of a project: the one that is wanted, by its name or id, else the newest."""

    title = "Trackio"
    place = ("_last_id", "_inode", "_run", "_done")
    rewrites = True

    def __init__(self, name: str, paths: tuple[Path, ...], wanted: str = "") -> None:
        super().__init__(name, paths)
        self.watched = (*paths, *(neighbour(path, "-wal") for path in paths))
        self.variant, self._last_id, self._inode = wanted, 0, 0
        self._run: object = None
        self._done = 0

    def restart(self) -> None:
        super().restart()
        self._last_id = 0

    def read(self, report: Report) -> None:
        (path,) = self.paths
        with open_binary(path) as file:  # refuses a link that leads outside the root
            if file.read(len(SQLITE_MAGIC)) != SQLITE_MAGIC:
                self.note("it is no SQLite database", severity="lost", of_reading=True)
                return
            inode = os.fstat(file.fileno()).st_ino
        if inode != self._inode:
            self.restart()
            self._inode = inode
        try:
            with opened_database(path, MOST_RECORD_BYTES) as database:
                if database.unread_log:
                    hint = "copy it, too, or end the training"
                    self.note(database.unread_log, hint, of_reading=True)
                self._read(database, report)
        except sqlite3.Error as error:
            reason = f"can't be read: {sqlite_reason(error)}"
            self.note(reason, severity="lost", of_reading=True)

    def _read(self, database: Database, report: Report) -> None:
        columns = database.columns("metrics")
        if [name for name, is_key in columns.items() if is_key] != ["id"]:
            reason = "it has no table of metrics as Trackio writes it"
            self.note(reason, severity="note", of_reading=True)
            return
        run_key = "run_id" if "run_id" in columns else "run_name"
        newest = (
            f"SELECT {run_key}, run_name, max(id) FROM metrics GROUP BY 1, 2 ORDER BY max(id) DESC"
        )
        runs = [*database.rows(newest)]
        if not runs:
            self.restart()
            return
        run, name, last_id = next((one for one in runs if self.variant in one[:2]), runs[0])
        if run != self._run or last_id < self._last_id:  # or the database was made anew
            self.restart()
            self._run = run
        if len(runs) > 1 and self.variant not in (run, name):
            others = f"{len(runs) - 1} other run" + ("s" if len(runs) > 2 else "")
            reason = f"it holds {others}; {str(name)[:_MOST_CHARACTERS]} is shown"
            hint = "name the folder of the rollouts like the run"
            self.note(reason, hint, severity="note", of_reading=True)
        # With the plus SQLite takes the rows in their order, and not those of an index to sort them.
        self._read_rows(database, f"FROM metrics WHERE +{run_key} = ? AND id > ?", report)

    def _read_rows(self, database: Database, rows: str, report: Report) -> None:
        """Adds the new rows. Each is asked for by its number, so that one too long can be passed over."""
        query = f"SELECT id {rows} ORDER BY id"
        for number, (id_,) in enumerate(database.rows(query, (self._run, self._last_id))):
            self._last_id = id_
            try:
                row = database.row("SELECT step, metrics FROM metrics WHERE id = ?", (id_,))
                self._add(*row or (None, None))
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
