"""Rollouts read again from the log by the addresses that the index has, many lines at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from board.core.arrays import IntArray
from board.core.joined_records import LoggedRecord
from board.core.records import ReadOptions, Record
from board.errors import RecordError
from board.formats import reader_named, source_read_by
from board.formats.base import LineContext, Reader
from board.formats.io.lines import Line
from board.formats.number_arrays import LineParser
from board.formats.parse import parse_whole
from board.formats.sources import Row
from board.index.discovery.packed import readable
from board.index.discovery.run_info import LogFile
from board.index.segments import PART
from board.query.open_run import Run
from board.query.rollouts import joined_places

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[int, int], None]
"""Called with rollouts done and rollouts in all; raising from it stops the reading."""

PLACES: Final = ("step", "index", "file", "line", "offset", "size", PART)
"""Columns of the rollouts table that `StepRecords` takes, as far as the run has them."""

_ADDRESS: Final = ("step", "file", "line", "offset", "size", PART)
_BATCH_ROLLOUTS: Final = 512
_BATCH_TABLE_ROWS: Final = 64
_BATCH_BYTES: Final = 1 << 20
"""At most so much is read at a time, and never less than one line."""
_SHORT_LINE_BYTES: Final = 1 << 10
"""Shorter lines are parsed whole sooner than their arrays are found."""
_MOST_OPEN: Final = 4
"""Files of a joined run at hand at once: one of each log, as a rule."""

_Placed = Iterator[tuple[int, Record | None]]
"""Rollouts with their places in the table of addresses; None for those that can't be read any more."""


def with_reward(record: Record, reward: float) -> Record:
    """The Record with a reward that the log has the parts of alone; NaN: not recorded."""
    if math.isnan(reward):
        return record
    return replace(record, scores={"reward": float(reward), **record.scores})


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
        """Every rollout with its place in rows."""
        part = rows[PART].to_numpy(np.int64, na_value=0) if PART in rows else np.zeros(len(rows))
        numbers = (rows[name].to_numpy() for name in _ADDRESS[:-1])
        table = np.column_stack((*numbers, part)).astype(np.int64)
        is_joined = self._run.info.is_joined
        records = self._joined(table) if is_joined else self._of_files(table)
        sizes: list[int] = table[:, 4].tolist()
        has_rewards = self._run.rows.derived.reward is not None and "reward" in rows
        rewards = rows["reward"].to_numpy(np.float64, na_value=np.nan) if has_rewards else None
        unreported = 0
        for done, (place, record) in enumerate(records, start=1):
            if record is not None:
                yield place, record if rewards is None else with_reward(record, rewards[place])
            unreported += sizes[place]
            if unreported >= _BATCH_BYTES or done % _BATCH_ROLLOUTS == 0 or done == len(rows):
                if progress is not None:
                    progress(done, len(rows))
                unreported = 0

    def _of_files(self, table: IntArray) -> _Placed:
        files, at = table[:, 1], table[:, 2:]
        order = np.lexsort((at[:, 3], at[:, 1], files))
        for places in np.split(order, np.flatnonzero(np.diff(files[order])) + 1):
            if not len(places):
                continue
            unread = iter(places.tolist())
            with suppress(OSError):
                file = self._file(int(files[places[0]]))
                for own in _cut(places, at[places, 2], file.most_together):
                    for record in file.records(at[own].tolist()):
                        yield next(unread), record
            for place in unread:
                yield place, None

    def _joined(self, table: IntArray) -> _Placed:
        """Of a run that is joined of several logs, in the order of the last one's files: its arrays are
        the longest, so that they are read once.
        """
        open_file = lru_cache(_MOST_OPEN)(self._file)
        rows: list[dict[str, Any]] = [
            dict(zip(_ADDRESS, row, strict=True)) for row in table.tolist()
        ]
        places = [[row, *joined_places(self._run, row)] for row in rows]
        names = ("file", "line", PART)
        keys = [[tuple(p[name] for name in names) for p in reversed(own)] for own in places]
        for place in sorted(range(len(keys)), key=keys.__getitem__):
            yield place, self._joined_record(open_file, places[place])

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
            other = logged(file.reader, record)
            joined = other if joined is None else joined.with_other(other, compare=False)
        return None if joined is None else joined.record

    def _file(self, number: int) -> _File:
        return _File(self._run.info.files[number], self._run.options.read, self._parsers)


def bytes_again(run: Run, rows: pd.DataFrame) -> int:
    """How many bytes `StepRecords` reads: of a table its whole file. Not for joined runs."""
    total = 0
    for number, size in rows.groupby("file", observed=True)["size"].sum().items():
        file = run.info.files[int(str(number))]
        total += int(size) if source_read_by(file.reader, file.path).appends else file.size
    return total


def _cut(places: IntArray, sizes: IntArray, most: int) -> Iterator[IntArray]:
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
        self.reader = reader_named(file.reader)
        self._source, self._path = source_read_by(file.reader, file.path), readable(file).path
        self._place = LineContext(file.path, options, self.reader.layout)
        self._parser = parsers.setdefault(file.reader, LineParser())
        self._by_rows = type(self.reader).rows is not Reader.rows or not self._source.appends
        self.most_together = _BATCH_ROLLOUTS if self._source.appends else _BATCH_TABLE_ROWS
        self._last: tuple[int, Sequence[Mapping[str, Any]]] = (-1, ())

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
            yield self._record(self._last[1][part : part + 1])

    def _record(self, row: Sequence[Mapping[str, Any]]) -> Record | None:
        """The rollout of a row; None where there is none, or it can't be read any more."""
        with suppress(RecordError):
            record = self.reader.record(row[0], self._place) if row else None
            return record if isinstance(record, Record) else None
        return None

    def _rows(self, line: Line) -> Sequence[Mapping[str, Any]]:
        if isinstance(line, Row):
            return self.reader.rows(line.record, self._place)
        text = line.text or b""
        if self._by_rows:
            return self.reader.rows(parse_whole(text)[0], self._place)
        parse = self._parser.parse if len(text) > _SHORT_LINE_BYTES else parse_whole
        return (parse(text)[0],)


def logged(reader: Reader, record: Record) -> LoggedRecord:
    """A rollout as what one of several logs tells of it."""
    return LoggedRecord(record, reader.title, reader.join is not None and reader.join.is_trainer)
