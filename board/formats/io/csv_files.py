"""Tables as text (CSV, TSV): a row is a rollout, the first row names the columns.

A cell is text unless its column is of numbers, of true and false, or of lists and objects, as far as the
first rows say. What a rollout's text is by its name stays text: an answer of 42 is no number.
"""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final

from board.formats.io.lines import MAX_LINE_BYTES, Fault, Line, read_bytes, read_lines
from board.formats.io.locations import Location, state_of
from board.formats.key_names import holds_texts
from board.formats.messages import is_messages, with_usual_names
from board.formats.parse import is_list, is_object
from board.formats.sources import JSON_LINES, Row, Source

SUFFIXES: Final = (".csv", ".tsv")
_SAMPLED_ROWS: Final = 200
_HEAD_BYTES: Final = 1 << 19
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_TRUTHS: Final[Mapping[str, bool]] = {"True": True, "true": True, "False": False, "false": False}
_DELIMITERS: Final = (",", "\t", ";")
csv.field_size_limit(MAX_LINE_BYTES)  # a response may be longer than the 128 kB that are usual

_Convert = Callable[[str], Any]


class CsvFiles(Source):
    """One table per file, read line by line; to readers its rows are lines of JSON."""

    suffixes = (*SUFFIXES, *(kind + end for kind in SUFFIXES for end in (".gz", ".zst")))
    is_text = True

    @property
    def like(self) -> Source:
        """To readers they are lines of JSON."""
        return JSON_LINES

    def together(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The rows, each in the place of its first line; a header and further lines are blank ones."""
        several = iter(lines)
        head = list(islice(several, _SAMPLED_ROWS))
        layout = _layout_of(head)
        if layout is None:
            return
        yield from _numbered(layout, _cells(chain(head, several), layout.delimiter))

    def lines(self, path: Location) -> Iterator[Line]:
        layout = _layout(path, *state_of(path)[1:3])
        if layout is not None:
            yield from _numbered(layout, _cells(read_lines(path), layout.delimiter))

    def head(self, path: Location) -> Iterator[Line]:
        return self.lines(path)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        layout = _layout(path, *state_of(path)[1:3])
        content = read_bytes(path, offset, size)
        line = Line(offset, size, content)
        if layout is None:
            return Fault(offset, size, None, reason="the table has no columns")
        parsed = next(_cells(_split(line), layout.delimiter))
        return layout.row(parsed)

    def between(self, path: Location, offset: int, size: int) -> Iterator[Line]:
        layout = _layout(path, *state_of(path)[1:3])
        if layout is not None:
            rows = _cells(read_lines(path, offset, offset + size), layout.delimiter)
            yield from map(layout.row, rows)


CSV: Final = CsvFiles()


@dataclass(frozen=True, slots=True)
class _Cells:
    """The cells of a row, or what is wrong with it. lines: that it stands on."""

    offset: int
    size: int
    lines: int
    cells: Sequence[str]
    fault: str = ""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How the rows of a table are read. names, converts: of each column name and conversion."""

    delimiter: str
    names: Sequence[str]
    converts: Sequence[_Convert]

    def row(self, of: _Cells) -> Line:
        """The row as a line, a blank one where it has no cells, a Fault where it can't be used."""
        if of.fault:
            return Fault(of.offset, of.size, None, reason=of.fault)
        if not of.cells:
            return Line(of.offset, of.size, b"")
        if len(of.cells) != len(self.names):
            reason = f"the row does not have {len(self.names)} cells: it is torn, or not quoted"
            return Fault(of.offset, of.size, None, reason=reason)
        record = {
            name: convert(cell) if cell else None
            for name, convert, cell in zip(self.names, self.converts, of.cells, strict=True)
        }
        return Row(of.offset, of.size, None, record=record)


def column_names(head: bytes) -> tuple[str, ...]:
    """The names of the columns of a table that begins so; none where there is no header."""
    layout = _layout_of(list(_split(Line(0, len(head), head))))
    return () if layout is None else tuple(layout.names)


def _numbered(layout: _Layout, rows: Iterable[_Cells]) -> Iterator[Line]:
    """Rows as lines, with blank ones that keep the numbers of lines: for the header, and within a row."""
    for number, row in enumerate(rows):
        yield Line(row.offset, row.size, b"") if number == 0 else layout.row(row)
        for _ in range(row.lines - 1):
            yield Line(row.offset + row.size, 0, b"")


def _split(content: Line) -> Iterator[Line]:
    offset = content.offset
    for text in (content.text or b"").splitlines(keepends=True):
        yield Line(offset, len(text), text.rstrip(b"\n"))
        offset += len(text)


def _cells(lines: Iterable[Line], delimiter: str) -> Iterator[_Cells]:
    """The cells of each row, quoted newlines within them."""
    row_lines: list[Line] = []

    def texts() -> Iterator[str]:
        for line in lines:
            row_lines.append(line)
            text = (line.text or b"").decode("utf-8", "replace")
            yield (text.removeprefix("\ufeff") if line.offset == 0 else text) + "\n"

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        row_lines.clear()
        cells: Sequence[str] = ()
        fault = ""
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fault = f"the row can't be read: {error}"
        if any(line.text is None for line in row_lines):
            fault = f"the row is longer than {MAX_LINE_BYTES >> 20} MB"
        if row_lines:
            size = sum(line.size for line in row_lines)
            yield _Cells(row_lines[0].offset, size, len(row_lines), cells, fault)


@lru_cache(maxsize=64)
def _layout(path: Location, size: int, mtime: int) -> _Layout | None:
    """The layout of a table in this state. Raises OSError."""
    return _layout_of(list(_split(Line(0, size, read_bytes(path, 0, min(size, _HEAD_BYTES))))))


def _layout_of(lines: Sequence[Line]) -> _Layout | None:
    """The layout by the first lines of a table; None of an empty one."""
    first = next((line.text or b"" for line in lines), b"").decode("utf-8-sig", "replace")
    delimiter = max(_DELIMITERS, key=first.count)
    rows = list(islice(_cells(lines, delimiter), _SAMPLED_ROWS))
    if not rows or not rows[0].cells:
        return None
    names: dict[str, None] = {}
    for number, cell in enumerate(rows[0].cells, 1):
        name = cell.strip() or f"column_{number}"
        names[name if name not in names else f"{name}_{number}"] = None
    whole = [row.cells for row in rows[1:] if len(row.cells) == len(names) and not row.fault]
    columns = [[row[place] for row in whole if row[place]] for place in range(len(names))]
    converts = [_convert_of(name, cells) for name, cells in zip(names, columns, strict=True)]
    return _Layout(delimiter, [*names], converts)


def _convert_of(name: str, cells: Sequence[str]) -> _Convert:
    """What makes values of the cells of a column. cells: its first ones that hold something."""
    if not cells:
        return str if holds_texts(name) else _number
    if all(_is_container(cell) for cell in cells):
        values = [_container(cell) for cell in cells]
        is_text = holds_texts(name)
        if not is_text or all(is_messages(with_usual_names(value)) for value in values):
            return _container
    if holds_texts(name):
        return str
    if all(cell in _TRUTHS for cell in cells):
        return _truth
    return _number if all(_NUMBER.fullmatch(cell) for cell in cells) else str


def _number(cell: str) -> Any:
    if not _NUMBER.fullmatch(cell):
        return cell
    return int(cell) if cell.lstrip("-").isdigit() and len(cell) < 19 else float(cell)


def _truth(cell: str) -> Any:
    return _TRUTHS.get(cell, cell)


def _is_container(cell: str) -> bool:
    return cell[:1] in ("[", "{") and not isinstance(_container(cell), str)


def _container(cell: str) -> Any:
    """A list or an object, of JSON or as Python prints it, which pandas does; another cell as it is."""
    if cell[:1] not in ("[", "{"):
        return cell
    for parse in (json.loads, ast.literal_eval):
        try:
            value: object = parse(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if is_list(value) or is_object(value):
            return value
    return cell
