"""Trackio's SQLite files, one for each project: opened for reading only.

Read from trackio 0.43, sqlite_storage.py: the table `metrics` has a row for each call of `log`, its
numbers as JSON text, NaN and infinities as words.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from board.errors import RecordError
from board.formats.io.locations import open_binary
from board.formats.metrics.base import MOST_RECORD_BYTES, MetricSource, Report, whole_number
from board.formats.parse import parse_whole

_MAGIC: Final = b"SQLite format 3\x00"
_WAIT_SECONDS: Final = 2.0
_REPORT_ROWS: Final = 1000


class TrackioDatabase(MetricSource):
    """One run of a project: the one called like the folder of the rollouts, else the newest.

    wanted: that folder's name.
    """

    title = "Trackio"

    def __init__(self, name: str, paths: tuple[Path, ...], wanted: str = "") -> None:
        super().__init__(name, paths)
        self._wanted, self._last_id, self._run = wanted, 0, ""
        self._done = 0

    def restart(self) -> None:
        super().restart()
        self._last_id = 0

    def read(self, report: Report) -> None:
        (path,) = self.paths
        with open_binary(path) as file:  # refuses a link that leads outside the root
            if file.read(len(_MAGIC)) != _MAGIC:
                self.note("it is no SQLite database", severity="lost")
                return
        try:
            with closing(_connected(path)) as database:
                self._read(database, report)
        except sqlite3.Error as error:
            self.note(f"can't be read: {error}", severity="lost")

    def _read(self, database: sqlite3.Connection, report: Report) -> None:
        names = [row[1] for row in database.execute("PRAGMA table_info(metrics)")]
        kind = "SELECT type FROM sqlite_master WHERE name = 'metrics'"
        if database.execute(kind).fetchone() != ("table",) or "metrics" not in names:
            self.note("it has no table of metrics as Trackio writes it", severity="note")
            return
        run_key = "run_id" if "run_id" in names else "run_name"
        newest = f"SELECT {run_key}, run_name FROM metrics GROUP BY 1, 2 ORDER BY max(id) DESC"
        runs = database.execute(newest).fetchall()
        if not runs:
            return
        run, name = next((one for one in runs if one[1] == self._wanted), runs[0])
        if run != self._run:
            self.restart()
            self._run = run
            if len(runs) > 1:
                others = f"{len(runs) - 1} other run" + ("s" if len(runs) > 2 else "")
                reason = f"it holds {others}; {name} is shown"
                self.note(reason, "name the folder of the rollouts like the run", severity="note")
        query = (
            f"SELECT id, step, length(metrics), metrics FROM metrics WHERE {run_key} = ? AND id > ? "
            "ORDER BY id"
        )
        for number, row in enumerate(database.execute(query, (run, self._last_id))):
            self._last_id = row[0]
            self._add(whole_number(row[1]), row[2], row[3])
            if number % _REPORT_ROWS == 0:
                report(self._done)

    def _add(self, step: int | None, size: int, text: str | bytes) -> None:
        self._done += size
        if step is None or size > MOST_RECORD_BYTES:
            self.note("a row without a step, or one that is too long")
            return
        try:
            record, _ = parse_whole(text.encode() if isinstance(text, str) else text)
        except RecordError as error:
            self.note(f"a row that can't be read: {error.reason}")
            return
        self.points.add_record(step, record)


def _connected(path: Path) -> sqlite3.Connection:
    log = path.with_name(f"{path.name}-wal")
    # Without a log of what is new SQLite would make one: it writes beside a file that it only reads.
    is_written = log.exists() and log.stat().st_size > 0
    mode = "mode=ro" if is_written else "mode=ro&immutable=1"
    name = f"file:{quote(str(path.absolute()))}?{mode}"
    connection = sqlite3.connect(name, uri=True, timeout=_WAIT_SECONDS)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    return connection
