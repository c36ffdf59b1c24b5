"""What of a file is to be read, and how it is cut into shards at the ends of lines."""

from __future__ import annotations

import os
from dataclasses import dataclass

from board.readers import mapping_text, source_of
from board.readers.local_files import open_descriptor
from board.readers.locations import Location
from board.readers.remote import RemoteLocation
from board.store.batch import Work
from board.store.line_ends import after_newline, newlines
from board.store.log_file import LogFile
from board.store.shard import Shard


@dataclass(frozen=True, slots=True)
class Rest:
    """What of a file is to be read: bytes [start, its size), the first line being `line`.

    line: 0 for the one after those that were taken. named: its path as the framework gave it. joined:
    as in Shard.
    """

    file: LogFile
    id: int
    shown: str
    start: int
    line: int
    named: Location
    joined: bool

    def work(self, end: int) -> Work:
        """To read it up to a byte."""
        place = (self.file.path, self.shown, self.file.reader, self.start, end, self.line)
        return Work(Shard(*place, self.named, mapping_text(self.file.reader), self.joined), self.id)

    def is_object_above(self, size: int) -> bool:
        """Whether it is an object of lines in a store, with more than so many bytes."""
        is_large = self.file.size - self.start > size
        is_object = isinstance(self.file.path, RemoteLocation)
        return is_large and is_object and source_of(self.named).appends

    def cut(self, size: int, *, counted: bool) -> tuple[int, int]:
        """Where its first shard ends, after a line, and how many lines that has: 0 if not counted or if
        nothing is left after it. size: of the shard in bytes, to its last line.
        """
        path, is_small = self.file.path, self.file.size - self.start <= size
        if is_small or isinstance(path, RemoteLocation) or not source_of(self.named).appends:
            return self.file.size, 0
        try:
            descriptor = open_descriptor(path)
        except OSError:  # whoever reads the shard will say so
            return self.file.size, 0
        aim = self.start + size - 1
        try:
            counts = list(newlines(descriptor, self.start, aim)) if counted else []
            end = after_newline(descriptor, aim)
        finally:
            os.close(descriptor)
        return min(end, self.file.size), sum(counts) + 1 if counted else 0
