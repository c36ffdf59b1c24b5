"""Every on-disk format the board reads, one file each. The order is the order of recognition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from board.errors import RecordError
from board.readers.base import Head, Reader
from board.readers.lines import Line, read_lines
from board.readers.native import NativeReader
from board.readers.parse import parse_whole
from board.readers.places import Place
from board.readers.prime_rl import PrimeRLReader
from board.readers.rllb import RLLoggingBoardReader

READERS: Final[tuple[Reader, ...]] = (PrimeRLReader(), NativeReader(), RLLoggingBoardReader())

_HEAD_LINES: Final = 20
HEAD_BYTES: Final = 1 << 20


def reader_named(name: str) -> Reader:
    """The reader of that name; raises KeyError."""
    return {reader.name: reader for reader in READERS}[name]


def recognise(path: Place, lines: Iterable[Line] | None = None) -> tuple[Reader | None, str]:
    """The reader of a file, and why none was found. Raises OSError when the file can't be read.

    lines: its first lines, where they are not in the file as they are.
    """
    records, first_error = _head(read_lines(path) if lines is None else lines)
    if not records:
        return None, first_error or "the file is empty"
    head = Head(path, records)
    for reader in READERS:
        if reader.recognises(head):
            return reader, ""
    keys = ", ".join(sorted({key for record in records for key in record})[:8])
    formats = ", ".join(reader.title for reader in READERS)
    return None, f"its records (keys {keys}) are of no format read here: {formats}"


def _head(lines: Iterable[Line]) -> tuple[list[Mapping[str, Any]], str]:
    """The first usable records of a file, and what was wrong with its first unusable line."""
    records: list[Mapping[str, Any]] = []
    first_error = ""
    used = 0
    seen = 0
    for number, line in enumerate(lines, start=1):
        used += line.size
        if line.text is None:
            first_error = first_error or f"line {number}: the line is too long to be read"
        elif line.text.strip():
            seen += 1
            try:
                records.append(parse_whole(line.text)[0])
            except RecordError as error:
                first_error = first_error or _first_error(line.text, number, error)
        if seen >= _HEAD_LINES or used >= HEAD_BYTES:
            break
    return records, first_error


def _first_error(text: bytes, number: int, error: RecordError) -> str:
    if text.startswith(b"version https://git-lfs"):
        return "it is a git-lfs pointer, not the file itself: run `git lfs pull`"
    return f"line {number}: {error.reason} (expected: {error.hint})"
