"""Trackio's projects: SQLite databases, and the Parquet files that it exports of them.

A line is what one call of `trackio.log` wrote beside numbers: tables, traces, texts. Read from trackio
0.43, sqlite_storage.py: `bulk_log` puts the traces of a call into the table `traces` and all else, as
JSON, into a row of `metrics`, both under one log_id; before there was that table traces were in the JSON,
too. `export_to_parquet` writes both tables, the JSON spread over columns.

A row of `metrics` is at the offset of twice its id, a trace without such a row at twice its rowid and 1.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, Self

from board.errors import RecordError
from board.formats.io.lines import MAX_LINE_BYTES, Fault, Line
from board.formats.io.locations import Location
from board.formats.io.parquet_files import PARQUET
from board.formats.io.remote import RemoteStat
from board.formats.io.sqlite_files import (
    Database,
    is_sqlite,
    neighbour,
    opened_database,
    sqlite_reason,
)
from board.formats.io.trackio_records import JSON_COLUMNS, TABLE, TRACE, record_of_call, trace_of
from board.formats.parse import is_list, is_object, parse_whole
from board.formats.sources import DamagedError, FileStat, Row, RunInFile, Source

_NEEDLES: Final = (TABLE.encode(), TRACE.encode())
_HAS_CONTENT: Final = " OR ".join(["instr(CAST(metrics AS BLOB), ?) > 0"] * len(_NEEDLES))
_CALL: Final = ("id", "run_id", "run_name", "timestamp", "step", "log_id", "space_id")
"""Columns that say of a row when and by whom it was logged."""
_TRACE: Final = ("id", "key", "trace_index", "messages", "metadata", "spans")
_TRACE_BYTES: Final = " + ".join(
    f"CASE typeof({name}) WHEN 'blob' THEN length({name}) ELSE 1 END"
    for name in ("messages", "metadata")
)
"""Of blobs, as Trackio writes them, SQLite knows the length without reading them."""
_HEAD_ROWS: Final = 5
_MOST_RUNS: Final = 2000
"""Of one file; real projects have dozens."""
NO_PROJECT: Final = "its records are no project of Trackio"


class TrackioFiles(Source):
    """One SQLite database for each project, which may hold many runs.

    run: the key of the one whose lines are wanted; None: those of all.
    """

    suffixes = (".db",)

    def __init__(self, run: str | None = None) -> None:
        self._run = run

    @property
    def like(self) -> Source:
        return TRACKIO

    def stat(self, path: Location) -> FileStat:
        """The database and its log together: what was written last is in the log alone."""
        stat = super().stat(path)
        log = neighbour(path, "-wal") if isinstance(path, Path) else None
        if log is None or not log.is_file():
            return stat
        beside = log.stat()
        newest = max(stat.st_mtime_ns, beside.st_mtime_ns)
        return RemoteStat(stat.st_size + beside.st_size, newest, stat.st_ino)

    def of_run(self, run: str) -> Self:
        return type(self)(run)

    def runs(self, path: Location) -> Sequence[RunInFile]:
        with _project(path, self._run) as project:
            return project.runs()

    def head(self, path: Location) -> Iterator[Line]:
        """A line, or the first numbers of a project that holds nothing else."""
        with _project(path, self._run) as project:
            lines = project.first_line() or [*project.numbers()]
        yield from lines

    def lines(self, path: Location) -> Iterator[Line]:
        with _project(path, self._run) as project:
            yield from project.lines()

    def places(self, path: Location) -> Sequence[int]:
        # What a call logged is written at once, and rows are never changed.
        with _project(path, self._run) as project:
            return [*project.places()]

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return next(self.fetch_many(path, [(offset, size)]))

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        with _project(path, self._run) as project:
            for offset, _ in places:
                yield project.line(offset)


class _Project:
    """An open database: which columns its tables have, and its lines. run: as of TrackioFiles."""

    def __init__(self, database: Database, run: str | None) -> None:
        self._database, self._run = database, run
        metrics, self._traces = database.columns("metrics"), database.columns("traces")
        if not {"id", "run_name", "timestamp", "step", "metrics"} <= metrics.keys():
            metrics = {}
        self._metrics = metrics
        self._key = "run_id" if "run_id" in metrics else "run_name"
        if not {self._key, "timestamp", "step", *JSON_COLUMNS[:2]} <= self._traces.keys():
            self._traces = {}
        self._is_joined = "log_id" in self._traces and "log_id" in metrics
        self._call = [name for name in _CALL[1:] if name in metrics]
        self._trace = [name for name in _TRACE if name in self._traces]

    def runs(self) -> Sequence[RunInFile]:
        """The runs with a table or a trace, in the order of their first rows."""
        return named_runs(self._content())

    def _content(self) -> Iterator[tuple[str, str, int, str]]:
        """By table and run its key, its name, the bytes of its lines and the time of the last one."""
        if self._metrics:
            with_content = f"metrics WHERE {_HAS_CONTENT}"
            yield from self._by_run("length(metrics)", with_content, "id", _NEEDLES)
        if self._traces:
            yield from self._by_run(_TRACE_BYTES, "traces", "rowid")

    def _by_run(
        self, size: str, rows: str, order: str, values: Sequence[object] = ()
    ) -> Iterator[tuple[Any, ...]]:
        names = f"{self._key} AS key, run_name, {size} AS size, timestamp, {order} AS place"
        # With a limit SQLite makes these rows first, and does not sort by them with their texts.
        query = f"""
            SELECT key, run_name, sum(size), max(timestamp)
            FROM (SELECT {names} FROM {rows} LIMIT -1) GROUP BY key ORDER BY min(place)"""
        return self._database.rows(query, values)

    def numbers(self) -> Iterator[Line]:
        """The first rows that hold numbers, each as one record."""
        if not self._metrics:
            yield Fault(0, 0, None, reason=NO_PROJECT)
            return
        first = f"SELECT step, metrics FROM metrics ORDER BY id LIMIT {_HEAD_ROWS}"
        for step, content in self._database.rows(first):
            line = _line(0, lambda step=step, content=content: {"step": step} | _parsed(content))
            yield line

    def lines(self) -> Iterator[Line]:
        """What was logged with content, and the traces of no call that is there, by time."""
        return map(self.line, self.places())

    def places(self) -> Iterator[int]:
        """The offsets of the lines, without a look at what they hold."""
        both = heapq.merge(self._calls(), self._lone_traces(), key=lambda pair: pair[0])
        return (offset for _, offset in both)

    def first_line(self) -> list[Line]:
        """A line, the first of its kind; none where there is none."""
        first = islice(
            chain(self._calls(), self._lone_traces()), 1
        )  # the second looks at all traces
        return [self.line(offset) for _, offset in first]

    def line(self, offset: int) -> Line:
        """The line at an offset; one that is too long is without a text."""
        number, is_trace = divmod(offset, 2)
        try:
            return _line(offset, lambda: self._lone(number) if is_trace else self._logged(number))
        except sqlite3.DataError:  # a value over the limit of the connection
            return Line(offset, 1, None)

    def _calls(self) -> Iterator[tuple[str, int]]:
        if not self._metrics:
            return
        has_traces = "FALSE"
        if self._is_joined:
            has_traces = f"EXISTS (SELECT 1 FROM traces AS t WHERE {self._same_call('t', 'm')})"
        # With the plus SQLite takes the rows in their order, and not those of an index to sort them.
        where = f"(({_HAS_CONTENT}) OR {has_traces}) {self._of_run('+m')}"
        query = f"SELECT timestamp, id FROM metrics AS m WHERE {where} ORDER BY id"
        for time, number in self._database.rows(query, (*_NEEDLES, *self._values)):
            yield str(time), 2 * number

    def _lone_traces(self) -> Iterator[tuple[str, int]]:
        if not self._traces:
            return
        has_no_call = "TRUE"
        if self._is_joined:
            has_no_call = (
                f"NOT EXISTS (SELECT 1 FROM metrics AS m WHERE {self._same_call('m', 't')})"
            )
        where = f"{has_no_call} {self._of_run('+t')}"
        query = f"SELECT timestamp, rowid FROM traces AS t WHERE {where} ORDER BY rowid"
        for time, number in self._database.rows(query, self._values):
            yield str(time), 2 * number + 1

    def _same_call(self, table: str, of: str) -> str:
        # The run and the step are what both tables have an index of.
        names = (self._key, "step", "log_id")
        return " AND ".join(f"{table}.{name} = {of}.{name}" for name in names)

    def _of_run(self, table: str) -> str:
        return "" if self._run is None else f"AND {table}.{self._key} = ?"

    @property
    def _values(self) -> tuple[str, ...]:
        return () if self._run is None else (self._run,)

    def _logged(self, number: int) -> dict[str, Any]:
        """What one call logged."""
        names = ", ".join(self._call)
        query = f"SELECT metrics, {names} FROM metrics WHERE id = ?"
        content, *call = self._of(query, number)
        said = dict(zip(self._call, call, strict=True))
        traces: list[dict[str, Any]] = []
        if self._is_joined and said["log_id"] is not None:
            same = f"{self._key} = ? AND step = ? AND log_id = ? ORDER BY rowid"
            values = [said[name] for name in (self._key, "step", "log_id")]
            query = f"SELECT {', '.join(self._trace)} FROM traces WHERE {same}"
            traces = [self._trace_of(row) for row in self._database.rows(query, values)]
        return record_of_call(said, _parsed(content), traces)

    def _lone(self, rowid: int) -> dict[str, Any]:
        """A trace whose call is not there."""
        call = [name for name in _CALL[1:] if name in self._traces]
        names = ", ".join((*call, *self._trace))
        row = self._of(f"SELECT {names} FROM traces WHERE rowid = ?", rowid)
        said = dict(zip(call, row, strict=False))
        return record_of_call(said, {}, [self._trace_of(row[len(call) :])])

    def _of(self, query: str, number: int) -> tuple[Any, ...]:
        row = self._database.row(query, (number,))
        if row is None:
            raise DamagedError("it has fewer rows than before")
        return row

    def _trace_of(self, row: Sequence[Any]) -> dict[str, Any]:
        return trace_of(dict(zip(self._trace, row, strict=True)))


class TrackioTables(Source):
    """The Parquet files of a project: of its metrics, or of its traces. run: as of TrackioFiles."""

    suffixes = PARQUET.suffixes
    unpacks = PARQUET.unpacks

    def __init__(self, run: str | None = None) -> None:
        self._run = run

    @property
    def like(self) -> Source:
        return PARQUET

    def of_run(self, run: str) -> Self:
        return type(self)(run)

    def runs(self, path: Location) -> Sequence[RunInFile]:
        rows = (line.record for line in PARQUET.lines(path) if isinstance(line, Row))
        own = ((_run_of(row), str(row.get("run_name")), 0, "") for row in rows if _has_content(row))
        return named_runs(own)

    def lines(self, path: Location) -> Iterator[Line]:
        for line in PARQUET.lines(path):
            if not isinstance(line, Row) or not _has_content(line.record):
                continue
            if self._run in (None, _run_of(line.record)):
                yield _called(line)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return _called(PARQUET.fetch(path, offset, size))

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        yield from map(_called, PARQUET.fetch_many(path, places))


def named_runs(content: Iterable[tuple[object, object, int, object]]) -> list[RunInFile]:
    """The runs of rows (key, name, bytes, time), each once and under a name of its own: of equal ones the
    beginning of the key is part of it. Raises DamagedError where they are too many.
    """
    runs: dict[str, RunInFile] = {}
    for key, name, size, time in content:
        known = runs.get(str(key), RunInFile(str(key), str(name)))
        newest = max(known.mtime_ns, _nanoseconds(time))
        runs[known.key] = replace(known, size=known.size + size, mtime_ns=newest)
        if len(runs) > _MOST_RUNS:
            raise DamagedError(f"it holds more than {_MOST_RUNS:,} runs: move some elsewhere")
    counts = Counter(run.name for run in runs.values())
    return [
        run if counts[run.name] == 1 else replace(run, name=f"{run.name} ({run.key[:8]})")
        for run in runs.values()
    ]


def _nanoseconds(time: object) -> int:
    """Nanoseconds of Unix time; 0 of what is no time."""
    try:
        return max(int(datetime.fromisoformat(str(time)).timestamp() * 1e9), 0)
    except (ValueError, OverflowError):
        return 0


def _has_content(row: Mapping[str, Any]) -> bool:
    """Whether a row of a Parquet file is a trace, or has a table."""
    return "trace_index" in row or any(
        is_object(one) and one.get("_type") in (TABLE, TRACE)
        for value in row.values()
        for one in (value if is_list(value) else (value,))
    )


def _run_of(row: Mapping[str, Any]) -> str:
    return str(row.get("run_id") or row.get("run_name"))


def _called(line: Line) -> Line:
    """A row of a Parquet file as the line of its call."""
    if not isinstance(line, Row):
        return line
    row = line.record
    call = {name: row.get(name) for name in _CALL[1:] if name in row}
    rest = {n: v for n, v in row.items() if n not in _CALL and v is not None}
    if "trace_index" not in row:
        return Row(line.offset, 1, None, record=record_of_call(call, rest, ()))
    trace = {name: row.get(name) for name in _TRACE}
    return _line(line.offset, lambda: record_of_call(call, {}, [trace_of(trace)]))


def _line(offset: int, read: Any) -> Line:
    """A line by what makes its record; one that can't be used says why."""
    try:
        return Row(offset, 1, None, record=read())
    except RecordError as error:
        return Fault(offset, 1, None, reason=error.reason)


def _parsed(content: object) -> dict[str, Any]:
    if not isinstance(content, str | bytes):
        raise RecordError("the row has no metrics", hint="JSON")
    return parse_whole(content.encode() if isinstance(content, str) else content)[0]


@contextmanager
def _project(path: Location, run: str | None) -> Generator[_Project]:
    """A project, with what is wrong with its file said in words."""
    if not isinstance(path, Path):
        raise DamagedError("a database in a store can't be read there: copy it")
    if not is_sqlite(path):
        raise DamagedError("it is not an SQLite database, despite its name")
    try:
        with opened_database(path, MAX_LINE_BYTES) as database:
            yield _Project(database, run)
    except sqlite3.Error as error:
        raise DamagedError(f"SQLite can't read it: {sqlite_reason(error)}") from error


TRACKIO: Final = TrackioFiles()
TRACKIO_TABLES: Final = TrackioTables()
