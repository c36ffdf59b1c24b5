"""The elements of a JSON array, one after the other, in little more memory than one of them takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from board.formats.io.lines import MAX_LINE_BYTES, Line, read_bytes
from board.formats.io.locations import Location

_BLOCK_BYTES: Final = 4 << 20
# A text is one token: its brackets are none. A lone quote begins one that goes on after the block.
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)
_DEPTH: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def array_elements(path: Location) -> Iterator[Line]:
    """Each element of the array that a file is, as a line; the last may be torn.

    One that is longer than MAX_LINE_BYTES has no text, and ends the reading. Raises OSError.
    """
    block, offset = b"", 0  # bytes of the file, and where they begin in it
    begin = at = 0  # where the element begins in the block, and where the next token may begin
    depth = 0
    while more := read_bytes(path, offset + len(block), _BLOCK_BYTES):
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


def _element(text: bytes, offset: int) -> Iterator[Line]:
    """The line of an element, the blanks around it left out; none of an empty array."""
    bare = text.strip()
    if bare:
        yield Line(offset + text.index(bare), len(bare), bare)
