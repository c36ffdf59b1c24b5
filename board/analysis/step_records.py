"""Rollouts read again from the log by the addresses that the index has, many lines at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.joined_records import LoggedRecord
from board.core.records import ReadOptions, Record
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

_IntArray = npt.NDArray[np.int64]


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
        table = rows[["step", "file", "line", "offset", "size"]].astype(np.int64)
        table[PART] = rows[PART].fillna(0).astype(np.int64) if PART in rows else 0
        is_joined = self._run.info.is_joined
        for batch in self._joined(table) if is_joined else self._of_files(table, together):
            yield batch
            if progress is not None:
                progress(batch.done, len(rows))

    def _of_files(self, table: pd.DataFrame, together: bool) -> Iterator[Batch]:
        at = table[["line", "offset", "size", PART]].to_numpy()
        files = table["file"].to_numpy()
        order = np.lexsort((at[:, 3], at[:, 1], files))
        done = 0
        for places in np.split(order, np.flatnonzero(np.diff(files[order])) + 1):
            if not len(places):
                continue
            end = done + len(places)
            try:
                file = self._file(int(files[places[0]]))
                for own in _cut(places, at[places, 2], file.most_together):
                    done += len(own)
                    columns, plain, records = file.read(own.tolist(), at[own], together)
                    yield Batch(columns, plain, records, done)
            except OSError:
                done = end
                yield Batch(None, (), (), done)

    def _joined(self, table: pd.DataFrame) -> Iterator[Batch]:
        """Of a run that is joined of several logs, in the order of the last one's files: its arrays are
        the longest, so that they are read once.
        """
        open_file = lru_cache(_MOST_OPEN)(self._file)
        rows: list[Any] = table.to_dict("records")
        places = [[row, *self._run.joined_places(row)] for row in rows]
        names = ("file", "line", PART)
        keys = [[tuple(p[name] for name in names) for p in reversed(own)] for own in places]
        for done, place in enumerate(sorted(range(len(keys)), key=keys.__getitem__), start=1):
            record = self._joined_record(open_file, places[place])
            yield Batch(None, (), () if record is None else ((place, record),), done)

    def _joined_record(
        self, open_file: Callable[[int], _File], places: Sequence[Mapping[str, int]]
    ) -> Record | None:
        """The record of one rollout; None where one of its logs can't be read any more."""
        joined: LoggedRecord | None = None
        for place in places:
            address = [place[name] for name in ("line", "offset", "size", PART)]
            try:
                file = open_file(place["file"])
                record = next(file.records([address]))
            except OSError:
                return None
            if record is None:
                return None
            other = file.logged(record)
            joined = other if joined is None else joined.with_other(other, compare=False)
        return None if joined is None else joined.record

    def _file(self, number: int) -> _File:
        return _File(self._run.info.files[number], self._run.options.read, self._parsers)


def bytes_again(run: Run, rows: pd.DataFrame) -> int:
    """How many bytes `StepRecords` reads: of a table its whole file. Not for joined runs."""
    total = 0
    for number, size in rows.groupby("file", observed=True)["size"].sum().items():
        file = run.info.files[int(str(number))]
        total += int(size) if source_of(file.path).appends else file.size
    return total


def _cut(places: _IntArray, sizes: _IntArray, most: int) -> Iterator[_IntArray]:
    """Places of lines that are read together, at most so many."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(places):
        before = int(ends[first - 1]) if first else 0
        end = int(np.searchsorted(ends, before + _BATCH_BYTES, "right"))
        end = min(max(end, first + 1), first + most)
        yield places[first:end]
        first = end


class _File:
    """One file: its rollouts again, by their addresses. Raises OSError when the file can't be read.

    An address is (line, offset, size, part), offset and size as of Source; several are in the order of
    the file.
    """

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

    def read(
        self, places: list[int], at: _IntArray, together: bool
    ) -> tuple[TokenColumns | None, Sequence[int], Sequence[tuple[int, Record]]]:
        """The fields of a Batch. places: in the table of addresses; at: [places, 4] addresses.
        together: as columns, if possible.
        """
        if self._by_rows:
            return None, (), _with_places(places, self.records(at.tolist()))
        lines: list[int] = at[:, 0].tolist()
        texts = self._texts(at)
        is_short = int(at[:, 2].sum()) <= _LONG_LINE_BYTES * len(texts)
        can_parse = together and is_short and self._has_tokens
        parsed = self._parser.parse_plain(texts) if can_parse else None
        if parsed is None:
            parsed = [None] * len(texts)
        rows = [row for row, record in enumerate(parsed) if record is not None]
        block = [record for record in parsed if record is not None]
        columns = self._reader.token_columns(Block.of(block), self._place) if block else None
        fallback = range(len(rows)) if columns is None else columns.columns.fallback_rows
        own = [row for place, row in enumerate(rows) if place not in fallback]
        others = sorted({*range(len(parsed))}.difference(own))
        records = (self._record(lines[row], parsed[row], texts[row]) for row in others)
        alone = _with_places([places[row] for row in others], records)
        return columns, [places[row] for row in own], alone

    def _texts(self, at: _IntArray) -> list[bytes]:
        """The lines, near ones read by one request. Those that the file ends before are empty."""
        ends = at[:, 1] + at[:, 2]
        texts: list[bytes] = []
        for near in np.split(at, np.flatnonzero(at[1:, 1] - ends[:-1] > _GAP_BYTES) + 1):
            first = int(near[0, 1])
            content = read_bytes(self._path, first, int(near[-1, 1] + near[-1, 2]) - first)
            spans = zip((near[:, 1] - first).tolist(), near[:, 2].tolist(), strict=True)
            texts += [content[start : start + size].rstrip(b"\n") for start, size in spans]
        return texts

    def records(self, addresses: Sequence[Sequence[int]]) -> Iterator[Record | None]:
        """Rollouts at these addresses; None where one can't be read any more."""
        lines = dict.fromkeys((offset, size) for _, offset, size, _ in addresses)
        unread = [place for place in lines if place[0] != self._last[0]]
        fetched = self._source.fetch_many(self._path, unread)
        for line, offset, _, part in addresses:
            self._place.line = line
            if self._last[0] != offset:  # rollouts of one line follow each other
                self._last = (offset, ())
                with suppress(RecordError):  # none of its rollouts can be read
                    self._last = (offset, self._rows(next(fetched)))
            rows = self._last[1]
            yield self._record(line, rows[part]) if part < len(rows) else None

    def _record(self, line: int, row: Mapping[str, Any] | None, text: bytes = b"") -> Record | None:
        """The rollout of a row, else of a line that holds one; None where it can't be read any more."""
        self._place.line = line
        try:
            row = self._parser.parse(text)[0] if row is None else row
            record = self._reader.read(row, self._place)
        except RecordError:
            return None
        return record if isinstance(record, Record) else None

    def _rows(self, line: Line) -> Sequence[Mapping[str, Any]]:
        if isinstance(line, Row):
            return self._reader.rows(line.record, self._place)
        text = line.text or b""
        if not self._by_rows:
            return (self._parser.parse(text)[0],)
        return self._reader.rows(parse_whole(text)[0], self._place)

    def logged(self, record: Record) -> LoggedRecord:
        """A rollout of it as what this log tells of one."""
        join = self._reader.join
        return LoggedRecord(record, self._reader.title, join is not None and join.is_trainer)


def _with_places(
    places: Sequence[int], records: Iterable[Record | None]
) -> tuple[tuple[int, Record], ...]:
    """The records that could be read, with their places."""
    return tuple((p, r) for p, r in zip(places, records, strict=True) if r is not None)
