r"""A byte range of a file, cut into lines. Only `\\n` ends a line.

Positioned reads of bounded blocks: a memory map would end the process with SIGBUS when a log is
truncated under it, and `str.splitlines` would break lines at U+2028 inside a response.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from board.readers.local_files import open_descriptor
from board.readers.locations import Location, Preadinto, opened
from board.readers.remote import RemoteLocation

BLOCK_BYTES = 512 << 10
"""Small enough that what was just read is still in the processor's cache when it is searched."""
REMOTE_BLOCK_BYTES = 4 << 20
"""What a store is asked for at once: each request takes as long as some megabytes of its answer."""
MAX_LINE_BYTES = 256 << 20
"""A longer line is passed over and counted, so that one broken file has a bounded cost."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. offset, size: where it stands in the file, in bytes, its newline included.

    text: its bytes without the newline; None when the line was longer than MAX_LINE_BYTES.
    ended: whether a newline ends it; only the last line of a file may lack one.
    """

    offset: int
    size: int
    text: bytes | None
    ended: bool = True


@dataclass(frozen=True, slots=True)
class Stretch:
    """Lines that follow each other. offset: where the first begins, in bytes.

    texts: as Line.text of each, or a view of it that holds until the next stretch is asked for. sizes: as
    Line.size of each. ended: whether a newline ends each; where none does it is one line, the last.
    """

    offset: int
    texts: list[bytes | memoryview | None]
    sizes: list[int]
    ended: bool = True

    def lines(self) -> Iterator[Line]:
        """The lines one by one."""
        offset = self.offset
        for text, size in zip(self.texts, self.sizes, strict=True):
            yield Line(offset, size, bytes(text) if text is not None else None, self.ended)
            offset += size

    def line(self, place: int) -> Line:
        """One of the lines, counted from 0."""
        offset = self.offset + sum(self.sizes[:place])
        text = self.texts[place]
        return Line(offset, self.sizes[place], None if text is None else bytes(text), self.ended)

    def last_lines(self, size: int) -> list[Line]:
        """So many lines at the end as have that many bytes together, or all."""
        first = len(self.sizes)
        while first and size > 0:
            first -= 1
            size -= self.sizes[first]
        return [self.line(place) for place in range(first, len(self.sizes))]

    def cut(self, count: int) -> tuple[Stretch, Stretch]:
        """The first lines, and those after them, of which there may be none."""
        head, rest = self.sizes[:count], self.sizes[count:]
        after = Stretch(self.offset + sum(head), self.texts[count:], rest, self.ended)
        return Stretch(self.offset, self.texts[:count], head, self.ended), after


def read_lines(
    path: Location, start: int = 0, end: int | None = None, block: int | None = None
) -> Iterator[Line]:
    """All lines that begin in [start, end) of the file; `start` must be the beginning of a line.

    block: bytes to read at once, where the usual number is not wanted. Blank lines are yielded too, so
    that counting them gives line numbers. Raises OSError.
    """
    for stretch in read_stretches(path, start, end, block):
        yield from stretch.lines()


def read_stretches(
    path: Location, start: int = 0, end: int | None = None, block: int | None = None
) -> Iterator[Stretch]:
    """As read_lines, the lines of a block together; a stretch has at least one."""
    usual = REMOTE_BLOCK_BYTES if isinstance(path, RemoteLocation) else BLOCK_BYTES
    end = path.stat().st_size if end is None else end
    with opened(path, end) as preadinto:
        yield from _stretches(preadinto, start, end, block or usual)


def read_bytes(path: Location, offset: int, size: int) -> bytes:
    """Bytes [offset, offset + size) of the file, fewer at its end. Raises OSError."""
    if isinstance(path, RemoteLocation):
        return path.read(offset, size)
    descriptor = open_descriptor(path)
    try:
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def _stretches(preadinto: Preadinto, start: int, end: int, block_bytes: int) -> Iterator[Stretch]:
    position = begin = start
    carried: list[bytes] = []
    carried_bytes = 0
    # One buffer for all blocks: memory fresh from the system costs more than what is read into it.
    block = bytearray(block_bytes)
    view = memoryview(block)
    while position < end or carried_bytes:
        filled = preadinto(block, position)
        if not filled:
            break
        position += filled
        texts: list[bytes | memoryview | None] = []
        sizes: list[int] = []
        first, cut = begin, 0
        while begin < end and (newline := block.find(b"\n", cut, filled)) >= 0:
            text, size = view[cut:newline], newline + 1 - cut
            if carried_bytes:
                size += carried_bytes
                text = b"".join((*carried, text))
                carried, carried_bytes = [], 0
            texts.append(None if size > MAX_LINE_BYTES else text)
            sizes.append(size)
            begin += size
            cut = newline + 1
        if texts:
            yield Stretch(first, texts, sizes)
        if begin >= end:
            return
        rest = bytes(view[cut:filled])
        carried_bytes += len(rest)
        # Once a line is known to be too long its bytes are no longer kept, only counted.
        carried = [] if carried_bytes > MAX_LINE_BYTES else [*carried, rest] if rest else carried
    if carried_bytes:
        text = None if carried_bytes > MAX_LINE_BYTES else b"".join(carried)
        yield Stretch(begin, [text], [carried_bytes], ended=False)
