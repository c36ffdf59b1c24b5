"""Kinds of files, and how lines or rows are had of them. A reader names those it can make sense of.

A line or row is addressed by (offset, size). Of files of lines these are bytes; of files of rows they
are the row's number and 1; of a file that is one document they are 0 and its whole size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from board.formats.block import Block
from board.formats.io.lines import MAX_LINE_BYTES, Line, LineBlock, read_bytes, read_lines
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation


class DamagedError(OSError):
    """A file that is not whole, or not what its name says. `strerror` says what was found."""

    def __init__(self, reason: str) -> None:
        super().__init__(0, reason)


@dataclass(frozen=True, slots=True)
class Row(Line):
    """A line that is no text: a row of a table, or a document that was parsed already."""

    record: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class RowBlock(LineBlock):
    """Rows that follow each other in a table. block: what they hold."""

    block: Block = field(default_factory=lambda: Block({}, 0))

    def line(self, place: int) -> Row:
        """One of the rows, counted from 0."""
        return Row(self.offset + place, 1, None, record=self.block.row(place))

    def lines(self) -> Iterator[Line]:
        """The rows one by one."""
        return map(self.line, range(self.block.rows))


class Source(ABC):
    """A kind of files. All of it raises OSError, or DamagedError, when a file can't be read."""

    suffixes: tuple[str, ...]
    """How the names of such files end, in lower case."""
    appends: bool
    """Whether such files grow at their end; others are read anew when they change."""
    by_layout: bool
    """Whether only files that a reader's layout matches are looked into: most others are no logs."""

    def takes(self, path: PurePath | RemoteLocation) -> bool:
        """Whether a file is of this kind, by its name."""
        return has_suffix(path, self.suffixes)

    unpacks: int = 1
    """About so many times as large as it is is what has to be read of a file."""

    @property
    def like(self) -> Source:
        """The kind that readers name in `sources` to be given such files."""
        return self

    def together(self, lines: Iterable[Line]) -> Iterable[Line]:
        """Lines that stood in such a file, each record as one of them."""
        return lines

    @abstractmethod
    def head(self, path: Location) -> Iterator[Line]:
        """Enough of a file to recognise it: its first lines, or one row of its columns without values."""

    @abstractmethod
    def lines(self, path: Location, start: int = 0, end: int | None = None) -> Iterator[Line]:
        """The lines or rows, in bounded memory; start, end in bytes, where files grow at their end."""

    @abstractmethod
    def fetch(self, path: Location, offset: int, size: int) -> Line:
        """One line or row again, by its place."""


class JsonLines(Source):
    """One JSON object per line."""

    suffixes = (".jsonl", ".ndjson")
    appends = True
    by_layout = False

    def head(self, path: Location) -> Iterator[Line]:
        """As Source."""
        return read_lines(path)

    def lines(self, path: Location, start: int = 0, end: int | None = None) -> Iterator[Line]:
        """As Source."""
        return read_lines(path, start, end)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        """As Source."""
        return Line(offset, size, read_bytes(path, offset, size).rstrip(b"\n"))


class JsonDocument(Source):
    """One JSON object per file. It is one line, whatever line breaks it holds."""

    suffixes = (".json",)
    appends = False
    by_layout = True

    def head(self, path: Location) -> Iterator[Line]:
        """As Source."""
        return self.lines(path)

    def lines(self, path: Location, start: int = 0, end: int | None = None) -> Iterator[Line]:
        """As Source."""
        size = path.stat().st_size
        if size:
            text = read_bytes(path, 0, size) if size <= MAX_LINE_BYTES else None
            yield Line(0, size, text)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        """As Source."""
        return Line(offset, size, read_bytes(path, offset, size))


JSON_LINES = JsonLines()
JSON_DOCUMENT = JsonDocument()


def lfs_pointer(head: bytes) -> bool:
    """Whether a file that begins so is a git-lfs pointer."""
    return head.startswith(b"version https://git-lfs")


LFS_REASON = "it is a git-lfs pointer, not the file itself: run `git lfs pull`"


def has_suffix(path: PurePath | RemoteLocation, suffixes: tuple[str, ...]) -> bool:
    """Whether a path's name ends with one of the suffixes, in whatever case."""
    return path.name.lower().endswith(suffixes)
