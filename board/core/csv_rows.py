"""Rows as comma-separated values that every reader takes for the same rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any, Final, Protocol

_FORMULA: Final = tuple("=+-@\t\r\n＝＋－＠")


class TextFile(Protocol):
    """What text is written to."""

    def write(self, text: str, /) -> object:
        """Writes a text."""
        ...


class CsvRows:
    """Writes rows to a text file, each ended by a newline.

    Python's writer quotes a cell for what ends a row alone: a cell with a carriage return stays bare
    where rows end with a newline, and readers end the row there. So rows end with both for the writer.
    """

    def __init__(self, file: TextFile) -> None:
        self._file = file
        self._writer = csv.writer(self, lineterminator="\r\n")

    def write(self, row: str) -> None:
        """Takes a row of the writer's."""
        self._file.write(row.removesuffix("\r\n") + "\n")

    def add(self, cells: Iterable[Any]) -> None:
        """Writes a row."""
        self._writer.writerow(cells)


def harmless_cell(cell: Any) -> Any:
    """Return a cell that no spreadsheet runs: one that begins like a formula gets a quote in front."""
    is_formula = isinstance(cell, str) and cell.startswith(_FORMULA)
    return f"'{cell}" if is_formula else cell


def csv_text(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows below their names, as one text."""
    file = io.StringIO()
    writer = CsvRows(file)
    writer.add(names)
    for row in rows:
        writer.add(row)
    return file.getvalue()
