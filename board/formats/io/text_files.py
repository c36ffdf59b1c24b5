"""Text files (.txt) that hold rollouts: a file is one row, {text: its content}."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from board.formats.io.lines import MAX_LINE_BYTES, Line, read_bytes
from board.formats.io.locations import Location
from board.formats.sources import LFS_REASON, DamagedError, Row, Source, lfs_pointer

_HEAD_BYTES: Final = 1 << 16


class TextFiles(Source):
    """One text per file, read whole."""

    suffixes = (".txt",)
    appends = False
    by_layout = True

    def head(self, path: Location) -> Iterator[Line]:
        """One row of the file's beginning; of an empty file none."""
        text = _text(path, _HEAD_BYTES)
        if lfs_pointer(text.encode()):
            raise DamagedError(LFS_REASON)
        if text:
            yield Row(0, 1, None, record={"text": text})

    def lines(self, path: Location, start: int = 0, end: int | None = None) -> Iterator[Line]:
        """As Source."""
        yield self.fetch(path, 0, 1)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        """As Source."""
        if (held := path.stat().st_size) > MAX_LINE_BYTES:
            raise DamagedError(f"it is larger than {MAX_LINE_BYTES >> 20} MB")
        return Row(offset, size, None, record={"text": _text(path, held)})


def _text(path: Location, size: int) -> str:
    """The beginning of a file; bytes that are no UTF-8 stand as U+FFFD."""
    return read_bytes(path, 0, size).decode("utf-8", "replace")


TEXT: Final = TextFiles()
