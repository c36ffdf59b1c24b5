"""A byte range of a log file, how it is cut into smaller ones, and what one holds.

Shards and what is read of them are plain data that any process can be given.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from board.core.problems import Problem
from board.formats import source_read_by
from board.formats.base import Event
from board.formats.io.locations import Location, open_binary
from board.formats.io.remote import RemoteLocation
from board.formats.sources import Source

END_BYTES: Final = 4096
_BLOCK_BYTES: Final = 256 << 10
"""Fits a core's own cache, where newlines are counted twice as fast."""
_NEWLINE: Final = np.uint8(ord("\n"))


@dataclass(frozen=True, slots=True)
class Shard:
    """Lines of `path` that begin in [start, end), to be read by the reader of that name.

    first_line: 1-based number of the line at `start`. display_path: as problems name it. named: the path
    that the framework gave the file, where `path` is an unpacked copy of it; None: the same. Files that
    are no lines of text are read whole, whatever `start` says. mapping: the text of the mapping file that
    the reader was made of, since other processes have not seen it; empty: it is another reader. joined:
    whether the rows get the keys by which they are joined with those of other logs. file_id: number of
    the file in the index. run: of the file that alone is read; empty: it holds no others.
    """

    path: Location
    display_path: str
    reader: str
    start: int = 0
    end: int | None = None
    first_line: int = 1
    named: Location | None = None
    mapping: str = ""
    joined: bool = False
    file_id: int = 0
    run: str = ""

    @property
    def origin(self) -> Location:
        """Where the framework wrote the file."""
        return self.named or self.path

    @property
    def _source(self) -> Source:
        return source_read_by(self.reader, self.origin)

    @property
    def size(self) -> int:
        """Its bytes, once they are unpacked."""
        return ((self.end or self.start) - self.start) * self._source.unpacks

    @property
    def is_object(self) -> bool:
        """Whether it is of an object of lines in a store. Where a line ends there is known once it was
        read: looking for it would fetch the object twice.
        """
        return isinstance(self.path, RemoteLocation) and self._source.appends

    def end_of_piece(self, size: int) -> int:
        """Offset after a piece of so many bytes and the rest of its last line; of an object, see
        is_object, after so many bytes.
        """
        end = self.end or self.start
        if self.size <= size or not self._source.appends:
            return end
        if isinstance(self.path, RemoteLocation):
            return self.start + size
        try:
            with open_binary(self.path) as file:
                file.seek(self.start + size - 1)
                while (piece := file.readline(_BLOCK_BYTES)) and not piece.endswith(b"\n"):
                    pass
                return min(file.tell(), end)
        except OSError:  # reading the shard will say so
            return end


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """What a shard, or a part of one, holds.

    table: one row per rollout, in file order, as `segments` stores rows. events: header,
    step_end and close lines. consumed: offset after the last line that a newline ends. lines: how many
    lines that are. last_bytes: up to END_BYTES before `consumed`; of lines that have places, these as
    bytes. tail: what the last line holds when no newline ends it yet: it is read again when the file
    grows, and its index is of that line alone.
    """

    table: pa.Table
    events: tuple[Event, ...]
    problems: tuple[Problem, ...]
    consumed: int
    lines: int
    last_bytes: bytes = b""
    tail: ShardIndex | None = None


def bytes_of(places: Sequence[int]) -> bytes:
    """The places of lines as bytes, which are the same for the same places."""
    return np.array(places, np.int64).tobytes()


def count_newlines(path: Location, start: int, end: int) -> int:
    """Newlines in [start, end) of a file on this machine; 0 if it can't be read.

    Takes about a thirtieth of the time of reading the lines.
    """
    if start >= end or isinstance(path, RemoteLocation):
        return 0
    count = 0
    # Reading the shard will say what is wrong with a file.
    with suppress(OSError), open_binary(path) as file:
        file.seek(start)
        while start < end and (block := file.read(min(_BLOCK_BYTES, end - start))):
            count += int(np.count_nonzero(np.frombuffer(block, np.uint8) == _NEWLINE))
            start += len(block)
    return count
