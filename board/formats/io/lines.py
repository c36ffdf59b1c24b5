r"""A byte range of a file, cut into lines. Only `\\n` ends a line. Of a JSON array each element is one.

Positioned reads of bounded blocks: a memory map would end the process with SIGBUS when a log is
truncated under it, and `str.splitlines` would break lines at U+2028 inside a response.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from board.formats.io.locations import Location, Preadinto, open_descriptor, opened, state_of
from board.formats.io.remote import RemoteLocation
from board.formats.parse import as_object

BLOCK_BYTES = 512 << 10
"""Small enough that what was just read is still in the processor's cache when it is searched."""
REMOTE_BLOCK_BYTES = 4 << 20
"""What a store is asked for at once: each request takes as long as some megabytes of its answer."""
_LEAST_BLOCK = 64 << 10
_FIRST_LINES = 32
"""So many lines say whether lines are short."""
_SHORT_LINE = 1024
_NEWLINE = np.uint8(ord("\n"))
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
class Fault(Line):
    """What stands in a file in the place of a line that can't be used. reason: why, in words."""

    reason: str = ""


NO_END: Final = "the array has no end: it is still being written, or was cut off"


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Lines that follow each other. offset: where the first begins, in bytes.

    sizes: [lines] as Line.size of each. content: all their bytes, which hold until the next block is
    asked for; None where there are none: of a line that was too long. ended: whether a newline ends each;
    where none does it is one line, the last.
    """

    offset: int
    sizes: npt.NDArray[np.int64]
    content: bytes | memoryview | None
    ended: bool = True

    @property
    def size(self) -> int:
        """All of its bytes."""
        return int(self.sizes.sum())

    @property
    def texts(self) -> list[bytes | memoryview | None]:
        """Line.text of each, or a view of it."""
        ends: list[int] = self.sizes.cumsum().tolist()
        content, newline = self.content, int(self.ended)
        if content is None:
            return [None] * len(ends)
        return [
            None if end - begin > MAX_LINE_BYTES else content[begin : end - newline]
            for begin, end in zip([0, *ends], ends, strict=False)
        ]

    def lines(self) -> Iterator[Line]:
        """The lines one by one."""
        offset = self.offset
        for text, size in zip(self.texts, self.sizes.tolist(), strict=True):
            yield Line(offset, size, bytes(text) if text is not None else None, self.ended)
            offset += size

    def cut(self, count: int) -> tuple[LineBlock, LineBlock]:
        """The first lines, and those after them, of which there may be none."""
        if count >= len(self.sizes):
            return self, LineBlock(self.offset + self.size, self.sizes[:0], b"", self.ended)
        size, content = int(self.sizes[:count].sum()), self.content
        first, last = (None, None) if content is None else (content[:size], content[size:])
        return (
            LineBlock(self.offset, self.sizes[:count], first, self.ended),
            LineBlock(self.offset + size, self.sizes[count:], last, self.ended),
        )


def read_lines(
    path: Location, start: int = 0, end: int | None = None, block: int | None = None
) -> Iterator[Line]:
    """All lines that begin in [start, end) of the file; `start` must be the beginning of a line.

    block: bytes to read at once, where the usual number is not wanted. Blank lines are yielded too, so
    that counting them gives line numbers. Raises OSError.
    """
    for lines in read_line_blocks(path, start, end, block):
        yield from lines.lines()


def read_line_blocks(
    path: Location, start: int = 0, end: int | None = None, block: int | None = None
) -> Iterator[LineBlock]:
    """The lines of read_lines, a block at a time; a block has at least one."""
    usual = REMOTE_BLOCK_BYTES if isinstance(path, RemoteLocation) else BLOCK_BYTES
    end = path.stat().st_size if end is None else end
    with opened(path, end) as preadinto:
        yield from _line_blocks(preadinto, start, end, block or usual)


def read_bytes(path: Location, offset: int, size: int) -> bytes:
    """Bytes [offset, offset + size) of the file, fewer at its end. Raises OSError."""
    if isinstance(path, RemoteLocation):
        return path.read(offset, size)
    descriptor = open_descriptor(path)
    try:
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def read_object(path: Location, most_bytes: int) -> dict[str, Any]:
    """The JSON object that a file beside a log is; an empty one where it is too large, or none."""
    try:
        size = state_of(path)[1]
        content = read_bytes(path, 0, size) if size <= most_bytes else b"null"
        try:
            return as_object(orjson.loads(content))
        except orjson.JSONDecodeError:
            return as_object(json.loads(content))  # Python writes NaN
    except (OSError, ValueError, RecursionError):
        return {}


def _line_blocks(
    preadinto: Preadinto, start: int, end: int, block_bytes: int
) -> Iterator[LineBlock]:
    begin, carried, searched = start, 0, 0
    # One buffer for all blocks: memory fresh from the system costs more than what is read into it.
    block = bytearray(min(block_bytes, max(end - start, _LEAST_BLOCK)))
    view = memoryview(block)
    while begin < end:
        to_end = end - begin - carried
        # What lies behind the end is not read unless the last line goes on there.
        room = view[carried : carried + to_end] if to_end > 0 else view[carried:]
        filled = carried + preadinto(room, begin + carried)
        if filled == searched:
            break
        ends = _ends(block, searched, filled)
        if not len(ends):
            carried = searched = filled
            if carried == len(block):
                after = yield from _long_line(preadinto, begin, block)
                if after is None:
                    return
                begin, carried = after
                searched = 0
            continue
        wanted = 1 + int(np.searchsorted(ends[:-1], end - begin))
        cut = int(ends[wanted - 1])
        yield LineBlock(begin, np.diff(ends[:wanted], prepend=0), view[:cut])
        begin += cut
        carried = searched = filled - cut if begin < end else 0
        block[:carried] = block[cut : cut + carried]
    if carried and begin < end:
        yield LineBlock(begin, np.array([carried]), bytes(view[:carried]), ended=False)


def _ends(block: bytearray, start: int, end: int) -> npt.NDArray[np.int64]:
    """Offsets after the newlines in [start, end) of the block.

    A search for the next one skips what lies between them, and is quicker than a look at every byte where
    lines are long.
    """
    ends: list[int] = []
    at, near = start, start + _FIRST_LINES * _SHORT_LINE
    while (newline := block.find(b"\n", at, end)) >= 0:
        at = newline + 1
        ends.append(at)
        if len(ends) == _FIRST_LINES and at < near:
            codes = np.frombuffer(block, np.uint8, end - at, at)
            return np.concatenate((ends, np.flatnonzero(codes == _NEWLINE) + at + 1))
    return np.array(ends, np.int64)


def _long_line(
    preadinto: Preadinto, begin: int, block: bytearray
) -> Generator[LineBlock, None, tuple[int, int] | None]:
    """The line of which the block holds the beginning and no end.

    Returns the offset after it, and with how many bytes of what follows the block begins; None where the
    file ended before it.
    """
    pieces, size = [bytes(block)], len(block)
    while filled := preadinto(block, begin + size):
        newline = block.find(b"\n", 0, filled)
        piece = bytes(memoryview(block)[: newline + 1 if newline >= 0 else filled])
        size += len(piece)
        # Once a line is known to be too long its bytes are no longer kept, only counted.
        pieces = [] if size > MAX_LINE_BYTES else [*pieces, piece]
        if newline >= 0:
            yield LineBlock(begin, np.array([size]), b"".join(pieces) or None)
            carried = filled - len(piece)
            block[:carried] = block[len(piece) : filled]
            return begin + size, carried
    yield LineBlock(begin, np.array([size]), b"".join(pieces) or None, ended=False)
    return None


_ARRAY_BLOCK_BYTES = 4 << 20
# A text is one token: its brackets are none. A lone quote begins one that goes on after the block.
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)
_DEPTH = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def array_elements(path: Location) -> Iterator[Line]:
    """Each element of the array that a file is, as a line; the last may be torn.

    One that is longer than MAX_LINE_BYTES has no text, and ends the reading. Behind the last element of
    an array without an end there is a Fault. Raises OSError.
    """
    return elements(partial(read_bytes, path))


def elements(read: Callable[[int, int], bytes]) -> Iterator[Line]:
    """The elements as of `array_elements`. read: gives bytes by offset and size, fewer at the end."""
    block, offset = b"", 0  # bytes of the file, and where they begin in it
    begin = at = 0  # where the element begins in the block, and where the next token may begin
    depth = 0
    while more := read(offset + len(block), _ARRAY_BLOCK_BYTES):
        block += more
        for token in _TOKEN.finditer(block, at):
            first = block[token.start()]
            if first == ord('"') and len(token[0]) == 1:
                break
            at = token.end()
            before, depth = depth, depth + _DEPTH.get(first, 0)
            if before == 0:
                begin = at
            elif depth == 0 or (depth == 1 and first == ord(",")):
                yield from _element(block[begin : token.start()], offset + begin)
                begin = at
                if depth == 0:
                    return
        if len(block) - begin > MAX_LINE_BYTES:
            yield Line(offset + begin, len(block) - begin, None)
            return
        block, offset, at, begin = block[begin:], offset + begin, at - begin, 0
    yield from _element(block[begin:], offset + begin)
    yield Fault(offset + len(block), 0, None, reason=NO_END)


def _element(text: bytes, offset: int) -> Iterator[Line]:
    """The line of an element, the blanks around it left out; none of an empty array."""
    bare = text.strip()
    if bare:
        yield Line(offset + text.index(bare), len(bare), bare)
