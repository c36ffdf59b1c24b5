"""The rollouts of a step as records, read again from the log by the places that the index keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.joined_records import Told
from board.core.options import ReadOptions
from board.core.records import Record
from board.errors import RecordError
from board.readers import reader_named, source_of
from board.readers.base import Place, Reader
from board.readers.line_parser import LineParser
from board.readers.parse import parse_whole
from board.readers.sources import Row
from board.store.log_file import LogFile
from board.store.packed import readable
from board.store.run import Run
from board.store.segments import PART

Progress = Callable[[int, int], None]
"""Called with rollouts done and rollouts in all; raising from it stops the reading."""

PLACES: Final = ("step", "index", "file", "line", "offset", "size", PART)
"""Columns of the rollouts table that `StepRecords.of` takes, as far as the run has them."""

_MOST_OPEN: Final = 4
"""Files of a joined run at hand at once: one of each log, as a rule."""


class StepRecords:
    """Reads rollouts of a run again, keeping what it learned of lines."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._parsers: dict[str, LineParser] = {}

    def of(
        self, rows: pd.DataFrame, progress: Progress | None = None
    ) -> Iterator[tuple[int, Record]]:
        """The rollouts that can be read with their places in rows, file after file in the order of
        their bytes.
        """
        if self._run.info.is_joined:
            yield from self._joined(rows, progress)
            return
        numbers, parts = rows["file"].to_numpy(), _parts(rows)
        lines, offsets, sizes = (rows[name].to_numpy() for name in ("line", "offset", "size"))
        done = 0
        present: list[int] = np.unique(numbers).tolist()
        for number in present:
            try:
                file = _Lines(self._run.info.files[number], self._run.options.read, self._parsers)
                for place in np.flatnonzero(numbers == number).tolist():
                    at = (int(lines[place]), int(offsets[place]), int(sizes[place]))
                    record = file.record(*at, int(parts[place]))
                    if record is not None:
                        yield place, record
                    done += 1
                    if progress is not None:
                        progress(done, len(rows))
            except OSError:
                continue

    def _joined(
        self, rows: pd.DataFrame, progress: Progress | None
    ) -> Iterator[tuple[int, Record]]:
        """As records, of a run that is joined of several logs, in the order of the last one's files: its
        arrays are the longest, so that they are read once.
        """
        logs = _Logs(self._run, self._parsers)
        places = [[row, *self._run.joined_places(row)] for row in _located(rows)]
        order = sorted(range(len(places)), key=lambda i: [_at(place) for place in places[i][::-1]])
        for done, place in enumerate(order, start=1):
            record = logs.joined(places[place])
            if record is not None:
                yield place, record
            if progress is not None:
                progress(done, len(rows))


def bytes_again(run: Run, rows: pd.DataFrame) -> int:
    """How many bytes `StepRecords.of` reads: of a table its file for each row. Not for joined runs."""
    numbers, sizes = rows["file"].to_numpy(), rows["size"].to_numpy()
    total = 0
    present: list[int] = np.unique(numbers).tolist()
    for number in present:
        file, own = run.info.files[number], sizes[numbers == number]
        total += int(own.sum()) if source_of(file.path).appends else len(own) * file.size
    return total


def _located(rows: pd.DataFrame) -> Iterator[dict[str, int]]:
    """Where each row stands."""
    names = ("step", "file", "line", "offset", "size")
    columns = [rows[name].tolist() for name in names]
    for *values, part in zip(*columns, _parts(rows).tolist(), strict=True):
        yield {**dict(zip(names, map(int, values), strict=True)), PART: part}


def _at(place: Mapping[str, int]) -> tuple[int, int, int]:
    return place["file"], place["line"], place[PART]


def _parts(rows: pd.DataFrame) -> npt.NDArray[np.int64]:
    """[rows] which of the rollouts of its line each one is."""
    if PART not in rows:
        return np.zeros(len(rows), np.int64)
    return rows[PART].fillna(0).to_numpy(np.int64)


class _Lines:
    """One file: its rollouts again, by their places. Raises OSError when the file can't be read."""

    def __init__(self, file: LogFile, options: ReadOptions, parsers: dict[str, LineParser]) -> None:
        self._reader = reader_named(file.reader)
        self._source, self._path = source_of(file.path), readable(file).path
        self._place = Place(file.path, options, self._reader.layout)
        self._parser = parsers.setdefault(file.reader, LineParser())
        several = type(self._reader).rows is not Reader.rows
        self._by_rows = several or not self._source.appends
        self._last: tuple[int, Sequence[Mapping[str, Any]]] = (-1, ())

    def record(self, line: int, offset: int, size: int, part: int) -> Record | None:
        """The rollout at that place; None where it can't be read any more."""
        self._place.line = line
        try:
            if self._last[0] != offset:  # rollouts of one line follow each other
                self._last = (offset, self._rows(offset, size))
            rows = self._last[1]
            found = self._reader.read(rows[part], self._place) if part < len(rows) else None
        except RecordError:
            return None
        return found if isinstance(found, Record) else None

    def told(self, record: Record) -> Told:
        """A rollout of it as what this log tells of one."""
        join = self._reader.join
        return Told(record, self._reader.title, join is not None and join.is_trainer)

    def _rows(self, offset: int, size: int) -> Sequence[Mapping[str, Any]]:
        line = self._source.fetch(self._path, offset, size)
        if isinstance(line, Row):
            return self._reader.rows(line.record, self._place)
        text = line.text or b""
        if not self._by_rows:
            return (self._parser.parse(text)[0],)
        return self._reader.rows(parse_whole(text)[0], self._place)


class _Logs:
    """Rollouts that several logs tell of, with a few files at hand."""

    def __init__(self, run: Run, parsers: dict[str, LineParser]) -> None:
        self._run, self._parsers = run, parsers
        self._open: dict[int, _Lines] = {}

    def joined(self, places: Sequence[Mapping[str, int]]) -> Record | None:
        """The record of one rollout; None where one of its logs can't be read any more."""
        told: Told | None = None
        for place in places:
            try:
                lines = self._lines(place["file"])
                record = lines.record(*(place[name] for name in ("line", "offset", "size", PART)))
            except OSError:
                return None
            if record is None:
                return None
            other = lines.told(record)
            told = other if told is None else told.with_other(other, compare=False)
        return None if told is None else told.record

    def _lines(self, number: int) -> _Lines:
        if number not in self._open:
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open)))
            file = self._run.info.files[number]
            self._open[number] = _Lines(file, self._run.options.read, self._parsers)
        return self._open[number]
