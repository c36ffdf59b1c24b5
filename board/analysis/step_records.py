"""Rollouts read again from the log by the addresses that the index has, many lines at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.joined_records import LoggedRecord
from board.core.options import ReadOptions
from board.core.records import Record
from board.errors import RecordError
from board.formats import reader_named, source_of
from board.formats.base import Place, Reader
from board.formats.columns import Block
from board.formats.io.lines import Line, read_bytes
from board.formats.number_arrays import LineParser
from board.formats.parse import parse_whole
from board.formats.sources import Row
from board.formats.token_columns import TokenColumns
from board.index.discovery.packed import readable
from board.index.discovery.run_info import LogFile
from board.index.segments import PART
from board.query.open_run import Run

Progress = Callable[[int, int], None]
"""Called with rollouts done and rollouts in all; raising from it stops the reading."""

PLACES: Final = ("step", "index", "file", "line", "offset", "size", PART)
"""Columns of the rollouts table that `StepRecords` takes, as far as the run has them."""

_BATCH_ROLLOUTS: Final = 512
_BATCH_TABLE_ROWS: Final = 64
_BATCH_BYTES: Final = 1 << 20
"""At most so much is read at a time, and never less than one line."""
_GAP_BYTES: Final = 16 << 10
"""Lines are read by one request unless they are further apart."""
_LONG_LINE_BYTES: Final = 128 << 10
"""Longer lines are parsed faster one by one, in the processor's cache."""
_MOST_OPEN: Final = 4
"""Files of a joined run at hand at once: one of each log, as a rule."""

_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rollouts that were read together, each with its place in the table of addresses.

    columns: what the lines at `places` hold; None: there are none. records: of the other lines, those
    that can't be read any more left out. done: rollouts of the table that are read by now, these ones
    included.
    """

    columns: TokenColumns | None
    places: Sequence[int]
    records: Sequence[tuple[int, Record]]
    done: int


class StepRecords:
    """Reads rollouts of a run again, keeping what it learned of the layout of lines.

    Tables of addresses have the columns of PLACES, as far as the run has them. They are read file
    after file in the order of the file, in bounded memory. What can't be read is left out.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parsers: dict[str, LineParser] = {}

    def of(
        self, rows: pd.DataFrame, progress: Progress | None = None
    ) -> Iterator[tuple[int, Record]]:
        """Every rollout as a Record, with its place in rows."""
        for batch in self._batches(rows, progress, together=False):
            yield from batch.records

    def batches(self, rows: pd.DataFrame, progress: Progress | None = None) -> Iterator[Batch]:
        """What the log holds of the tokens of rollouts. Where its format allows, no Record is made."""
        return self._batches(rows, progress, together=True)

    def _batches(
        self, rows: pd.DataFrame, progress: Progress | None, *, together: bool
    ) -> Iterator[Batch]:
        batches = self._joined(rows) if self._run.info.is_joined else self._of_files(rows, together)
        for batch in batches:
            yield batch
            if progress is not None:
                progress(batch.done, len(rows))

    def _of_files(self, rows: pd.DataFrame, together: bool) -> Iterator[Batch]:
        numbers, lines, offsets, sizes = (
            rows[name].to_numpy(np.int64) for name in ("file", "line", "offset", "size")
        )
        parts = _parts(rows)
        done = 0
        for own in _by_file(numbers, np.lexsort((parts, offsets, numbers))):
            file, end = self._run.info.files[int(numbers[own[0]])], done + len(own)
            try:
                source = _File(file, self._run.options.read, self._parsers)
                for places in _cut(own, sizes, source.most_together):
                    done += len(places)
                    at = (a[places] for a in (lines, offsets, sizes, parts))
                    yield source.batch(places, _Addresses(*at), done, together)
            except OSError:
                done = end
                yield Batch(None, (), (), done)

    def _joined(self, rows: pd.DataFrame) -> Iterator[Batch]:
        """Of a run that is joined of several logs, in the order of the last one's files: its arrays are
        the longest, so that they are read once.
        """
        logs = _Logs(self._run, self._parsers)
        places = [[row, *self._run.joined_places(row)] for row in _located(rows)]
        order = sorted(range(len(places)), key=lambda i: [_at(place) for place in places[i][::-1]])
        for done, place in enumerate(order, start=1):
            record = logs.joined(places[place])
            yield Batch(None, (), () if record is None else ((place, record),), done)


def bytes_again(run: Run, rows: pd.DataFrame) -> int:
    """How many bytes `StepRecords` reads: of a table its whole file. Not for joined runs."""
    numbers, sizes = rows["file"].to_numpy(), rows["size"].to_numpy()
    total = 0
    present: list[int] = np.unique(numbers).tolist()
    for number in present:
        file, own = run.info.files[number], sizes[numbers == number]
        total += int(own.sum()) if source_of(file.path).appends else file.size
    return total


def _by_file(numbers: _Places, order: _Places) -> list[_Places]:
    """The order, cut where another file begins."""
    if not len(order):
        return []
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def _cut(places: _Places, sizes: _Places, most: int) -> Iterator[_Places]:
    """Places of lines that are read together, at most so many."""
    ends = np.cumsum(sizes[places])
    first = 0
    while first < len(places):
        before = int(ends[first - 1]) if first else 0
        end = int(np.searchsorted(ends, before + _BATCH_BYTES, "right"))
        end = min(max(end, first + 1), first + most)
        yield places[first:end]
        first = end


def _located(rows: pd.DataFrame) -> Iterator[dict[str, int]]:
    """The address of each row."""
    names = ("step", "file", "line", "offset", "size")
    columns = [rows[name].tolist() for name in names]
    for *values, part in zip(*columns, _parts(rows).tolist(), strict=True):
        yield {**dict(zip(names, map(int, values), strict=True)), PART: part}


def _at(place: Mapping[str, int]) -> tuple[int, int, int]:
    return place["file"], place["line"], place[PART]


def _parts(rows: pd.DataFrame) -> _Places:
    """[rows] which of the rollouts of its line each one is."""
    if PART not in rows:
        return np.zeros(len(rows), np.int64)
    return rows[PART].fillna(0).to_numpy(np.int64)


@dataclass(frozen=True, slots=True)
class _Addresses:
    """Where rollouts are in one file, in the order of the file. Offsets and sizes as of Source."""

    lines: _Places
    offsets: _Places
    sizes: _Places
    parts: _Places

    def ranges(self) -> Iterator[slice]:
        """Those of lines that are read by one request."""
        gaps = self.offsets[1:] - (self.offsets + self.sizes)[:-1]
        cuts = [0, *(np.flatnonzero(gaps > _GAP_BYTES) + 1).tolist(), len(self.offsets)]
        return (slice(first, end) for first, end in pairwise(cuts))


class _File:
    """One file: its rollouts again, by their addresses. Raises OSError when the file can't be read."""

    def __init__(self, file: LogFile, options: ReadOptions, parsers: dict[str, LineParser]) -> None:
        self._reader = reader_named(file.reader)
        self._source, self._path = source_of(file.path), readable(file).path
        self._place = Place(file.path, options, self._reader.layout)
        self._parser = parsers.setdefault(file.reader, LineParser())
        kind = type(self._reader)
        self._by_rows = kind.rows is not Reader.rows or not self._source.appends
        self._has_tokens = kind.token_columns is not Reader.token_columns
        self.most_together = _BATCH_TABLE_ROWS if self._by_rows else _BATCH_ROLLOUTS
        self._last: tuple[int, Sequence[Mapping[str, Any]]] = (-1, ())

    def batch(self, places: _Places, at: _Addresses, done: int, together: bool) -> Batch:
        """Rollouts at these addresses. places: theirs in the table. together: as columns, if possible."""
        numbers: list[int] = places.tolist()
        if self._by_rows:
            each = (at.lines, at.offsets, at.sizes, at.parts)
            addresses = list(zip(*(column.tolist() for column in each), strict=True))
            return Batch(None, (), _read(numbers, self.records(addresses)), done)
        lines: list[int] = at.lines.tolist()
        texts = [text for one in at.ranges() for text in self._texts(at, one)]
        short = int(at.sizes.sum()) <= _LONG_LINE_BYTES * len(texts)
        parsed = (
            self._parser.parse_plain(texts) if together and short and self._has_tokens else None
        )
        if parsed is None:
            return Batch(None, (), _read(numbers, map(self._record, lines, texts)), done)
        rows = [row for row, record in enumerate(parsed) if record is not None]
        columns = self._columns([record for record in parsed if record is not None])
        fallback = frozenset(range(len(rows))) if columns is None else columns.columns.fallback_rows
        own = [row for place, row in enumerate(rows) if place not in fallback]
        others = sorted({*range(len(parsed))}.difference(own))
        records = (self._record(lines[row], texts[row], parsed[row]) for row in others)
        alone = _read([numbers[row] for row in others], records)
        return Batch(columns, [numbers[row] for row in own], alone, done)

    def _columns(self, records: Sequence[Mapping[str, Any]]) -> TokenColumns | None:
        return self._reader.token_columns(Block.of(records), self._place) if records else None

    def _texts(self, at: _Addresses, one: slice) -> Iterator[bytes]:
        """The lines of a range. Those that the file ends before are empty."""
        offsets, sizes = at.offsets[one], at.sizes[one]
        first = int(offsets[0])
        content = read_bytes(self._path, first, int(offsets[-1] + sizes[-1]) - first)
        starts: list[int] = (offsets - first).tolist()
        ends: list[int] = (offsets - first + sizes).tolist()
        return (content[start:end].rstrip(b"\n") for start, end in zip(starts, ends, strict=True))

    def _record(
        self, line: int, text: bytes, parsed: Mapping[str, Any] | None = None
    ) -> Record | None:
        """The rollout of a line that holds one; None where it can't be read any more."""
        self._place.line = line
        try:
            record = self._reader.read(parsed or self._parser.parse(text)[0], self._place)
        except RecordError:
            return None
        return record if isinstance(record, Record) else None

    def records(self, addresses: Sequence[tuple[int, int, int, int]]) -> Iterator[Record | None]:
        """Rollouts at (line, offset, size, part), which ascend; None where one can't be read any more."""
        lines = dict.fromkeys((offset, size) for _, offset, size, _ in addresses)
        unread = [place for place in lines if place[0] != self._last[0]]
        fetched = self._source.fetch_many(self._path, unread)
        for line, offset, _, part in addresses:
            self._place.line = line
            try:
                if self._last[0] != offset:  # rollouts of one line follow each other
                    text = next(fetched)
                    self._last = (offset, ())
                    self._last = (offset, self._rows(text))
            except RecordError:
                pass  # none of its rollouts can be read
            yield self._read(self._last[1], part)

    def _read(self, rows: Sequence[Mapping[str, Any]], part: int) -> Record | None:
        try:
            record = self._reader.read(rows[part], self._place) if part < len(rows) else None
        except RecordError:
            return None
        return record if isinstance(record, Record) else None

    def logged(self, record: Record) -> LoggedRecord:
        """A rollout of it as what this log tells of one."""
        join = self._reader.join
        return LoggedRecord(record, self._reader.title, join is not None and join.is_trainer)

    def _rows(self, line: Line) -> Sequence[Mapping[str, Any]]:
        if isinstance(line, Row):
            return self._reader.rows(line.record, self._place)
        text = line.text or b""
        if not self._by_rows:
            return (self._parser.parse(text)[0],)
        return self._reader.rows(parse_whole(text)[0], self._place)


def _read(
    places: Sequence[int], records: Iterable[Record | None]
) -> tuple[tuple[int, Record], ...]:
    """The records that could be read, with their places."""
    return tuple((p, r) for p, r in zip(places, records, strict=True) if r is not None)


class _Logs:
    """Rollouts that several logs tell of, with a few files at hand."""

    def __init__(self, run: Run, parsers: dict[str, LineParser]) -> None:
        self._run, self._parsers = run, parsers
        self._open: dict[int, _File] = {}

    def joined(self, places: Sequence[Mapping[str, int]]) -> Record | None:
        """The record of one rollout; None where one of its logs can't be read any more."""
        joined: LoggedRecord | None = None
        for place in places:
            try:
                file = self._file(place["file"])
                address = (place["line"], place["offset"], place["size"], place[PART])
                record = next(file.records([address]))
            except OSError:
                return None
            if record is None:
                return None
            other = file.logged(record)
            joined = other if joined is None else joined.with_other(other, compare=False)
        return None if joined is None else joined.record

    def _file(self, number: int) -> _File:
        if number not in self._open:
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open)))
            file = self._run.info.files[number]
            self._open[number] = _File(file, self._run.options.read, self._parsers)
        return self._open[number]
