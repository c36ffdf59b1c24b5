"""Metrics in files of lines that grow: JSON lines with a step and numbers, and CSV with a step column."""

from __future__ import annotations

import csv
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from board.errors import RecordError
from board.formats.io.lines import Line, read_bytes, read_lines
from board.formats.metrics.base import MOST_RECORD_BYTES, MetricSource, Report, step_of
from board.formats.parse import is_object, parse_whole

_HEAD_BYTES: Final = 4096
_REPORT_LINES: Final = 1000
_WRAPPERS: Final = ("data", "metrics")


class LineSource(MetricSource):
    """A file whose lines are read once, from the last newline on when it has grown."""

    def __init__(self, name: str, paths: tuple[Path, ...]) -> None:
        super().__init__(name, paths)
        self._offset, self._lines = 0, 0
        self._head = b""

    def restart(self) -> None:
        super().restart()
        self._offset, self._lines, self._head = 0, 0, b""

    def read(self, report: Report) -> None:
        (path,) = self.paths
        stat = path.stat()
        if read_bytes(path, 0, len(self._head)) != self._head or stat.st_size < self._offset:
            self.restart()  # it was replaced
        self._head = read_bytes(path, 0, min(_HEAD_BYTES, stat.st_size))
        for line in read_lines(path, self._offset, stat.st_size):
            if not (line.ended or self.is_whole(line)):
                self.torn_at = line.offset
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

    def is_whole(self, line: Line) -> bool:
        """Whether a last line without a newline is whole."""
        return False

    @abstractmethod
    def add_line(self, text: bytes, number: int) -> None:
        """Adds the numbers of a line; number: of the line, from 1."""


class JsonLines(LineSource):
    """One record of scalars a line; verl's file logger has them below `data`, miles below `metrics`."""

    title = "JSON lines"

    def is_whole(self, line: Line) -> bool:
        try:
            return line.text is not None and bool(parse_whole(line.text))
        except RecordError:
            return False

    def add_line(self, text: bytes, number: int) -> None:
        try:
            record, _ = parse_whole(text)
        except RecordError as error:
            self.note(f"a line that can't be read: {error.reason}", line=number)
            return
        found = step_of(record)
        if found is None:
            self.note("a line without a step", "a key such as step or global_step", line=number)
            return
        key, step = found
        self.points.add_record(step, scalars_of(record), key)


def scalars_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record without what wraps its numbers."""
    inner = next((record[key] for key in _WRAPPERS if is_object(record.get(key))), None)
    return record if inner is None else inner


class Csv(LineSource):
    """A table with a column of steps, such as progress.csv; an empty cell is not recorded."""

    title = "CSV"

    def restart(self) -> None:
        super().restart()
        self._names: list[str] = []

    def __init__(self, name: str, paths: tuple[Path, ...]) -> None:
        super().__init__(name, paths)
        self._names = []

    def add_line(self, text: bytes, number: int) -> None:
        try:
            cells = next(csv.reader([text.decode("utf-8-sig").rstrip("\r")], strict=True))
        except (UnicodeDecodeError, csv.Error, StopIteration):
            self.note("a row that can't be read", line=number)
            return
        if not self._names:
            self._names = [cell.strip() for cell in cells]
            return
        if len(cells) != len(self._names):
            self.note(f"a row that does not have {len(self._names)} cells", line=number)
            return
        record = dict(zip(self._names, cells, strict=True))
        found = step_of(record)
        if found is None:
            self.note("a row without a step", line=number)
            return
        key, step = found
        for name, cell in record.items():
            if name != key and (value := number_in(cell)) is not None:
                self.points.add(step, name, value)


def number_in(cell: str) -> float | None:
    """The number that a cell holds; None for a text and an empty cell."""
    try:
        return float(cell)  # takes nan, inf and -inf in any case, as writers spell them
    except ValueError:
        return None


def has_step_column(path: Path) -> bool:
    """Whether a CSV file has a column of steps. Raises OSError."""
    first = read_bytes(path, 0, 1 << 16).partition(b"\n")[0]
    try:
        names = next(csv.reader([first.decode("utf-8-sig").rstrip("\r")]))
    except (UnicodeDecodeError, csv.Error, StopIteration):
        return False
    return len(names) > 1 and step_of(dict.fromkeys(map(str.strip, names), 0)) is not None
