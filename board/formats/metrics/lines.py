"""Metrics in files of lines that grow: JSON lines with a step and numbers, and CSV with a step column."""

from __future__ import annotations

import csv
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from board.errors import RecordError
from board.formats.io.lines import Line, read_bytes, read_lines
from board.formats.metrics.base import (
    MOST_RECORD_BYTES,
    MetricSource,
    Report,
    number_in,
    step_of,
)
from board.formats.parse import is_object, parse_whole

_HEAD_BYTES: Final = 4096
_REPORT_LINES: Final = 1000
_WRAPPERS: Final = ("data", "metrics")
_TIMES: Final = ("ts", "timestamp")
"""When a line was written, beside what wraps its numbers."""


class LineSource(MetricSource):
    """A file whose lines are read once, from the last newline on when it has grown.

    A last line without a newline is read where it is whole. It may still grow, from 0.12 to 0.125, and is
    read again then.
    """

    place = ("_offset", "_lines", "_before_tail")

    def __init__(self, name: str, paths: tuple[Path, ...]) -> None:
        super().__init__(name, paths)
        self._forget()

    def restart(self) -> None:
        super().restart()
        self._forget()

    def _forget(self) -> None:
        self._offset, self._lines, self._head = 0, 0, b""
        self._before_tail: dict[str, int] | None = None
        """Points.lengths before those of a line without a newline; None where there is none."""

    def read(self, report: Report) -> None:
        (path,) = self.paths
        stat = path.stat()
        if read_bytes(path, 0, len(self._head)) != self._head or stat.st_size < self._offset:
            self.restart()  # it was replaced
        self._head = read_bytes(path, 0, min(_HEAD_BYTES, stat.st_size))
        if self._before_tail is not None:
            self.points.cut(self._before_tail)
            self._before_tail = None
        for line in read_lines(path, self._offset, stat.st_size):
            if not line.ended:
                self._add_tail(line)
                break
            self._lines += 1
            if line.text is None or line.size > MOST_RECORD_BYTES:
                reason = f"the line is longer than {MOST_RECORD_BYTES >> 20} MB"
                self.note(reason, line=self._lines)
            elif line.text.strip():
                self.add_line(line.text, self._lines)
            self._offset = line.offset + line.size
            if self._lines % _REPORT_LINES == 0:
                report(self._offset)
        report(self._offset)

    def _add_tail(self, line: Line) -> None:
        if line.text is None or line.size > MOST_RECORD_BYTES or not self.is_whole(line.text):
            self.torn_at = line.offset
            return
        self._before_tail = self.points.lengths()
        self.add_line(line.text, self._lines + 1)

    @abstractmethod
    def is_whole(self, text: bytes) -> bool:
        """Whether a last line without a newline is a whole record."""

    @abstractmethod
    def add_line(self, text: bytes, number: int) -> None:
        """Adds the numbers of a line; number: of the line, from 1."""


class JsonLines(LineSource):
    """One record of scalars a line; verl's file logger has them below `data`, miles below `metrics`."""

    title = "JSON lines"

    def is_whole(self, text: bytes) -> bool:
        try:
            return step_of(parse_whole(text)[0]) is not None
        except RecordError:
            return False

    def add_line(self, text: bytes, number: int) -> None:
        try:
            record, _ = parse_whole(text)
        except RecordError as error:
            self.note(f"a line that can't be read: {error.reason}", line=number)
            return
        counted = step_of(record)
        if counted is None:
            self.note("a line without a step", "a key such as step or global_step", line=number)
            return
        key, step = counted
        self.points.add_record(step, scalars_of(record), key)


def scalars_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record with what a wrapper holds beside what stands next to the wrapper."""
    inner = [record[key] for key in _WRAPPERS if is_object(record.get(key))]
    if not inner:
        return record
    siblings = {
        key: value
        for key, value in record.items()
        if key not in _TIMES and not (key in _WRAPPERS and is_object(value))
    }
    return {**siblings, **{key: value for own in inner for key, value in own.items()}}


class Csv(LineSource):
    """A table with a column of steps, such as progress.csv; an empty cell is not recorded."""

    title = "CSV"
    place = (*LineSource.place, "_names")

    def _forget(self) -> None:
        super()._forget()
        self._names: list[str] = []

    def is_whole(self, text: bytes) -> bool:
        cells = _cells(text)
        if cells is None or len(cells) != len(self._names):
            return False
        return step_of(dict(zip(self._names, cells, strict=True))) is not None

    def add_line(self, text: bytes, number: int) -> None:
        cells = _cells(text)
        if cells is None:
            self.note("a row that can't be read", line=number)
            return
        if not self._names:
            self._names = [cell.strip() for cell in cells]
            return
        if len(cells) != len(self._names):
            self.note(f"a row that does not have {len(self._names)} cells", line=number)
            return
        record = dict(zip(self._names, cells, strict=True))
        counted = step_of(record)
        if counted is None:
            self.note("a row without a step", line=number)
            return
        key, step = counted
        for name, cell in record.items():
            if name != key and (value := number_in(cell)) is not None:
                self.points.add(step, name, value)


def _cells(text: bytes) -> list[str] | None:
    """The cells of a row; None where it can't be read."""
    try:
        return next(csv.reader([text.decode("utf-8-sig").rstrip("\r")], strict=True))
    except (UnicodeDecodeError, csv.Error, StopIteration):
        return None


def has_step_column(path: Path) -> bool:
    """Whether a CSV file has a column of steps. Raises OSError."""
    first = read_bytes(path, 0, 1 << 16).partition(b"\n")[0]
    try:
        names = next(csv.reader([first.decode("utf-8-sig").rstrip("\r")]))
    except (UnicodeDecodeError, csv.Error, StopIteration):
        return False
    return len(names) > 1 and step_of(dict.fromkeys(map(str.strip, names), 0)) is not None
