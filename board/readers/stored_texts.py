"""Texts of a column of a table, of which as much is decoded as is looked at."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from board.readers.texts import Texts, Values, cut_text


class StoredTexts(Texts):
    """A pyarrow Array of type string or large_string."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def whole(self) -> Values:
        """As Texts."""
        return self._whole

    def kept(self, kept: Sequence[bool]) -> StoredTexts:
        """As Texts."""
        return StoredTexts(self._column.filter(pa.array(kept)))

    def lengths(self) -> Values:
        """As Texts."""
        return pc.utf8_length(self._column).to_pylist()

    def cut(self, longest: int, sign: bytes) -> Values:
        """As Texts."""
        data = self._data
        return [None if at is None else _cut(data, at, longest, sign) for at in self._places]

    def ends(self, size: int) -> Values:
        """As Texts."""
        data = self._data
        return [None if at is None else _ends(data, at, size) for at in self._places]

    @cached_property
    def _whole(self) -> Values:
        return self._column.to_pylist()

    @cached_property
    def _data(self) -> memoryview:
        """The texts as UTF-8, one after the other."""
        content = self._column.buffers()[2]
        return memoryview(b"" if content is None else content)

    @cached_property
    def _places(self) -> list[slice | None]:
        """Where each text stands in the data."""
        column = self._column
        kind = np.int64 if pa.types.is_large_string(column.type) else np.int32
        first, count = column.offset, len(column)
        offsets = np.frombuffer(column.buffers()[1], kind, count + 1, first * kind().itemsize)
        bounds: list[int] = offsets.tolist()
        places: list[slice | None] = list(map(slice, bounds[:-1], bounds[1:]))
        if column.null_count:
            for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                places[row] = None
        return places


def _cut(data: memoryview, at: slice, longest: int, sign: bytes) -> str | bytes:
    """As cut_text."""
    if at.stop - at.start <= longest:
        return bytes(data[at])
    beginning = bytes(data[at.start : at.start + longest])
    if beginning.isascii():
        return beginning[:-1] + sign
    # A sign takes four bytes at most, and one that is cut in two is left out.
    beginning = bytes(data[at.start : min(at.start + 4 * (longest + 1), at.stop)])
    return cut_text(beginning.decode("utf-8", "ignore"), longest, sign)


def _ends(data: memoryview, at: slice, size: int) -> bytes:
    """As ends_of."""
    if at.stop - at.start <= size:
        return bytes(data[at]) * 2
    return bytes(data[at.start : at.start + size]) + bytes(data[at.stop - size : at.stop])
