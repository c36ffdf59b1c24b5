"""The rows of an index of files that are still there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from board.index import segments
from board.index.manifest import Segment
from board.index.reading.batch import put_rows
from board.index.reading.scan import PART_BYTES, PART_ROWS
from board.index.storage import Storage

_MOST_SMALL: Final = 4
"""So many segments of PART_ROWS rows and PART_BYTES together are written as one; fewer are not worth
writing again."""


def merged(storage: Storage, several: Iterable[Segment], files: Collection[int]) -> list[Segment]:
    """The segments without the rows of other files than these (by id). Small ones at the end become one,
    so that there are never many: a row is written again until it is among PART_ROWS others.
    """
    live = list(_live(storage, several, files))
    small = rows = size = 0
    for segment in reversed(live):
        rows, size = rows + segment.rows, size + segment.bytes
        if rows > PART_ROWS or size > PART_BYTES:
            break
        small += 1
    if small >= _MOST_SMALL:
        live[-small:] = _rewritten(storage, live[-small:], files)
    return live


def _live(
    storage: Storage, several: Iterable[Segment], files: Collection[int]
) -> Iterator[Segment]:
    """The segments, those that have rows of other files written again without them."""
    for segment in several:
        if all(number in files for number in segment.files):
            yield segment
        elif any(number in files for number in segment.files):
            yield from _rewritten(storage, [segment], files)


def _rewritten(
    storage: Storage, several: Sequence[Segment], files: Collection[int]
) -> list[Segment]:
    """One segment of the rows of several that are of these files; none where there are none."""
    import pyarrow.compute as pc

    table = segments.joined(storage.get(segment.name) for segment in several)
    table = table.filter(pc.is_in(table.column("file"), pa.array(sorted(files), pa.int64())))
    return [put_rows(storage, table)] if table.num_rows else []


class UnendedRows:
    """The rows of unended last lines, by the id of their file, and the segment that they are in."""

    def __init__(self, storage: Storage, segment: Segment | None) -> None:
        self._storage, self._segment = storage, segment
        self._is_stored = True
        self._rows: dict[int, pa.Table] = {}
        if segment is not None:
            import pyarrow.compute as pc

            table = storage.get(segment.name)
            files = table.column("file")
            for number in segment.files:
                self._rows[number] = table.filter(pc.equal(files, pa.scalar(number)))

    def put(self, number: int, rows: pa.Table | None) -> None:
        """Replaces the rows of a file; None removes them."""
        if rows is not None:
            self._rows[number] = rows
        elif self._rows.pop(number, None) is None:
            return
        self._is_stored = False

    def segment(self) -> Segment | None:
        """The segment of them all, written again where they changed."""
        if not self._is_stored:
            rows = self._rows.values()
            self._segment = put_rows(self._storage, segments.joined(rows)) if rows else None
            self._is_stored = True
        return self._segment
