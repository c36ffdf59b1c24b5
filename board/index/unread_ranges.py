"""What of a file is to be read, and how it is cut into shards at the ends of lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from board.formats import mapping_text, source_of
from board.formats.io.local_files import open_descriptor
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation
from board.index.batch import Work
from board.index.discovery.log_file import LogFile
from board.index.line_ends import after_newline
from board.index.line_numbers import lines_between
from board.index.shard import Shard


@dataclass(frozen=True, slots=True)
class Rest:
    """What of a file is to be read: bytes [start, its size), the first line being `line`.

    line: 0 where it is not known. named: its path as the framework gave it. joined: as in Shard.
    reader: which of an engine's processes was given what is before it.
    """

    file: LogFile
    id: int
    shown: str
    start: int
    line: int
    named: Location
    joined: bool
    reader: int | None = None

    @property
    def size(self) -> int:
        """Its bytes, once they are unpacked."""
        return self.size_to(self.file.size)

    def size_to(self, end: int) -> int:
        """As size, of what is before a byte of the file."""
        return (end - self.start) * source_of(self.named).unpacks

    def work(self, end: int, known: tuple[int, int] = (0, 1)) -> Work:
        """To read it up to a byte. known: as in Work."""
        place = (self.file.path, self.shown, self.file.reader, self.start, end, self.line)
        told = (self.named, mapping_text(self.file.reader), self.joined)
        shard = Shard(*place, *told)
        return Work(shard, self.id, known)

    def is_object_above(self, size: int) -> bool:
        """Whether it is an object of lines in a store, with more than so many bytes."""
        is_large = self.size > size
        is_object = isinstance(self.file.path, RemoteLocation)
        return is_large and is_object and source_of(self.named).appends

    def cut(self, size: int) -> int:
        """Where its first shard ends, after a line. size: of the shard in bytes, to its last line."""
        path, is_small = self.file.path, self.size <= size
        if is_small or isinstance(path, RemoteLocation) or not source_of(self.named).appends:
            return self.file.size
        try:
            descriptor = open_descriptor(path)
        except OSError:  # whoever reads the shard will say so
            return self.file.size
        try:
            return min(after_newline(descriptor, self.start + size - 1), self.file.size)
        finally:
            os.close(descriptor)

    def after(self, end: int, reader: int | None) -> Rest:
        """What follows the shard that ends there. reader: of that shard; None where any may get it, and
        each by itself: its lines are counted then.
        """
        line = 0
        if reader is None and self.line:
            line = self.line + lines_between(self.file.path, self.start, end)
        return replace(self, start=end, line=line, reader=reader)


def next_for(reader: int | None, waiting: Sequence[Rest], *, shared: bool) -> int:
    """Where among those that wait the first is whose lines that reader need not count; else 0.

    shared: whether there are other readers. Then the last file that nobody has begun is left to them
    while this one has all that are begun.
    """
    place = next((n for n, rest in enumerate(waiting) if rest.reader in (None, reader)), 0)
    if not shared or reader is None or len(waiting) < 2 or waiting[place].reader is not None:
        return place
    others = (rest for number, rest in enumerate(waiting) if number != place)
    has_all = all(rest.reader == reader for rest in others)
    return (0 if place else 1) if has_all else place
