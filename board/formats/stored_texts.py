"""Texts of a column of a table, of which as much is decoded as is looked at."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from board.formats.texts import CUT_SIGN, PREVIEW_CHARS, Texts, Values, Words


def array_of(texts: Sequence[str | bytes | None]) -> Any:
    """Texts that were parsed, or UTF-8, as a pyarrow Array of strings."""
    if isinstance(texts, Words) and texts.has_lengths and texts.lengths is not None:
        whole = "".join(texts)
        if whole.isascii():  # half the time, where characters are bytes
            return _cut_at(whole.encode(), texts.lengths)
    # What was parsed is UTF-8 already, and Arrow takes three times as long where it looks for itself.
    return pa.array(texts, pa.binary()).view(pa.string())


def _cut_at(content: bytes, lengths: npt.NDArray[np.int64]) -> Any:
    """Texts that follow each other, each of so many bytes."""
    bounds = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=bounds[1:])
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.string(), len(lengths), buffers)


class StoredTexts(Texts):
    """A pyarrow Array of type string or large_string, of valid UTF-8."""

    def __init__(self, column: Any) -> None:
        self._column = column

    def whole(self) -> Values:
        """As Texts."""
        return self._whole

    def kept(self, kept: Sequence[bool]) -> StoredTexts:
        """As Texts."""
        return StoredTexts(self._column.filter(pa.array(kept, pa.bool_())))

    def lengths(self) -> Values | npt.NDArray[np.int64]:
        """As Texts."""
        if self._column.null_count:
            return self._char_counts.to_pylist()
        return self._char_counts.to_numpy().astype(np.int64)

    def previews(self) -> Any:
        """As Texts, as a pyarrow Array."""
        if (pc.max(self._char_counts).as_py() or 0) <= PREVIEW_CHARS:
            return self._column.cast(pa.string())
        cut = pc.utf8_slice_codeunits(self._column, 0, PREVIEW_CHARS - 1)
        signed = pc.binary_join_element_wise(
            cut, pa.scalar(CUT_SIGN, cut.type), pa.scalar("", cut.type)
        )
        is_long = pc.greater(self._char_counts, PREVIEW_CHARS)
        return pc.if_else(is_long, signed, self._column).cast(pa.string())

    def cut_texts(self) -> Any:
        """As Texts, as a pyarrow Array."""
        is_long = pc.greater(self._char_counts, PREVIEW_CHARS)
        if not pc.any(is_long).as_py():
            return None
        return pc.if_else(is_long, self._column, None).cast(pa.string())

    @cached_property
    def _whole(self) -> Values:
        return self._column.to_pylist()

    @cached_property
    def _char_counts(self) -> Any:
        return pc.utf8_length(self._column)
