r"""A byte range of a file, cut into lines. Only `\\n` ends a line.

Positioned reads of bounded blocks: a memory map would end the process with SIGBUS when a log is
truncated under it, and `str.splitlines` would break lines at U+2028 inside a response.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

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


def read_lines(
    path: Location, start: int = 0, end: int | None = None, block: int | None = None
) -> Iterator[Line]:
    """All lines that begin in [start, end) of the file; `start` must be the beginning of a line.

    block: bytes to read at once, where the usual number is not wanted. Blank lines are yielded too, so
    that counting them gives line numbers. Raises OSError.
    """
    usual = REMOTE_BLOCK_BYTES if isinstance(path, RemoteLocation) else BLOCK_BYTES
    end = path.stat().st_size if end is None else end
    with opened(path, end) as preadinto:
        yield from _lines(preadinto, start, end, block or usual)


def read_bytes(path: Location, offset: int, size: int) -> bytes:
    """Bytes [offset, offset + size) of the file, fewer at its end. Raises OSError."""
    if isinstance(path, RemoteLocation):
        return path.read(offset, size)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def _lines(preadinto: Preadinto, start: int, end: int, block_bytes: int) -> Iterator[Line]:
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
        cut = 0
        while (newline := block.find(b"\n", cut, filled)) >= 0:
            if begin >= end:
                return
            size = carried_bytes + newline + 1 - cut
            piece = bytes(view[cut:newline])
            text = (
                None if size > MAX_LINE_BYTES else b"".join((*carried, piece)) if carried else piece
            )
            yield Line(begin, size, text)
            begin += size
            carried, carried_bytes = [], 0
            cut = newline + 1
        if begin >= end:
            return
        rest = bytes(view[cut:filled])
        carried_bytes += len(rest)
        # Once a line is known to be too long its bytes are no longer kept, only counted.
        carried = [] if carried_bytes > MAX_LINE_BYTES else [*carried, rest] if rest else carried
    if carried_bytes:
        text = None if carried_bytes > MAX_LINE_BYTES else b"".join(carried)
        yield Line(begin, carried_bytes, text, ended=False)
