"""A byte range of a log file, what it holds, and how the unread bytes of a file are cut into such ranges.

Shards and what is read of them are plain data that any process can be given.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from board.core.problems import Problem
from board.formats import mapping_text, source_of
from board.formats.base import Event
from board.formats.io.locations import Location, open_descriptor
from board.formats.io.remote import RemoteLocation
from board.index.discovery.run_info import LogFile

END_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Shard:
    """Lines of `path` that begin in [start, end), to be read by the reader of that name.

    first_line: 1-based number of the line at `start`. display_path: as problems name it. named: the path
    that the framework gave the file, where `path` is an unpacked copy of it; None: the same. Files that
    are no lines of text are read whole, whatever `start` says. mapping: the text of the mapping file that
    the reader was made of, since other processes have not seen it; empty: it is another reader. joined:
    whether the rows get the keys by which they are joined with those of other logs.
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

    @property
    def origin(self) -> Location:
        """Where the framework wrote the file."""
        return self.named or self.path


@dataclass(frozen=True, slots=True)
class Work:
    """A shard, and the number its file has in the index."""

    shard: Shard
    file_id: int

    @property
    def size(self) -> int:
        """The bytes of the shard, where it says its end."""
        return (self.shard.end or self.shard.start) - self.shard.start


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """What a shard, or a part of one, holds.

    table: one row per rollout, in file order, as `store.segments` stores rows. events: header,
    step_end and close lines. consumed: offset after the last line that a newline ends. lines: how many
    lines that are. last_bytes: up to END_BYTES before `consumed`. tail: what the last line holds when no
    newline ends it yet: it is read again when the file grows, and its index is of that line alone.
    """

    shard: Shard
    table: pa.Table
    events: tuple[Event, ...]
    problems: tuple[Problem, ...]
    consumed: int
    lines: int
    last_bytes: bytes = b""
    tail: ShardIndex | None = None


def digest(content: bytes) -> str:
    """Hash of a few bytes, as text."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


_BLOCK_BYTES: Final = 256 << 10
"""Fits a core's own cache, where newlines are counted twice as fast."""
_MAX_SEARCHES: Final = 32
"""Newlines of a block that are searched for one by one; from there on each byte is compared."""
_NEWLINE: Final = np.uint8(ord("\n"))


@dataclass(frozen=True, slots=True)
class UnreadRange:
    """Bytes [start, size of the file) of a file. id: its number in the index. display_path: as
    problems name it. named: its path as the framework gave it. joined: as in Shard.
    """

    file: LogFile
    id: int
    display_path: str
    start: int
    named: Location
    joined: bool

    @property
    def size(self) -> int:
        """Its bytes, once they are unpacked."""
        return self.size_to(self.file.size)

    def size_to(self, end: int) -> int:
        """Its bytes before an offset of the file, once they are unpacked."""
        return (end - self.start) * source_of(self.named).unpacks

    def work_to(self, end: int, first_line: int) -> Work:
        """What a worker needs to read it up to an offset. first_line: number of its first line."""
        file = self.file
        place = (file.path, self.display_path, file.reader, self.start, end, first_line)
        return Work(Shard(*place, self.named, mapping_text(file.reader), self.joined), self.id)

    def is_object_above(self, size: int) -> bool:
        """Whether it is an object of lines in a store, with more than so many bytes: where its shards end
        is known once they were read, since looking for it would fetch the object twice.
        """
        is_object = isinstance(self.file.path, RemoteLocation)
        return is_object and self.size > size and source_of(self.named).appends

    def end_of_shard(self, size: int) -> int:
        """Where its first shard ends. size: of the shard in bytes, to which its last line is added."""
        path, is_small = self.file.path, self.size <= size
        if self.is_object_above(size):
            return min(self.start + size, self.file.size)
        if is_small or isinstance(path, RemoteLocation) or not source_of(self.named).appends:
            return self.file.size
        try:
            descriptor = open_descriptor(path)
        except OSError:  # reading the shard will say so
            return self.file.size
        try:
            return min(_after_newline(descriptor, self.start + size - 1), self.file.size)
        finally:
            os.close(descriptor)

    def after(self, end: int) -> UnreadRange:
        """What follows an offset."""
        return replace(self, start=end)


def count_newlines(path: Location, start: int, end: int) -> int:
    """Newlines in [start, end) of a file on this machine; 0 if it can't be read."""
    if start >= end or isinstance(path, RemoteLocation):
        return 0
    try:
        descriptor = open_descriptor(path)
    except OSError:  # reading the shard will say so
        return 0
    try:
        return _count_newlines(descriptor, start, end)
    finally:
        os.close(descriptor)


def _count_newlines(descriptor: int, start: int, end: int) -> int:
    """Takes about a thirtieth of the time of reading the lines: searching skips what is between them."""
    block = bytearray(_BLOCK_BYTES)
    codes = np.frombuffer(block, np.uint8)
    count = 0
    while start < end and (filled := os.preadv(descriptor, [block], start)):
        filled = min(filled, end - start)
        searches, at = 0, block.find(b"\n", 0, filled)
        while at >= 0 and searches < _MAX_SEARCHES:
            searches, at = searches + 1, block.find(b"\n", at + 1, filled)
        count += searches
        if at >= 0:
            count += int(np.count_nonzero(codes[at:filled] == _NEWLINE))
        start += filled
    return count


def _after_newline(descriptor: int, position: int) -> int:
    """Offset after the first newline at `position` or later; after the last byte where there is none."""
    while block := os.pread(descriptor, _BLOCK_BYTES, position):
        newline = block.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(block)
    return position
