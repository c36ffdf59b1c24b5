"""Files with a row for each turn, read as if they had a line for each trajectory.

The rows of a trajectory need not follow each other: a batch may be written turn by turn, or shuffled. All
rows between the first and the last one of a trajectory are one line then, with several rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from board.errors import RecordError
from board.formats.io.lines import Line
from board.formats.io.locations import Location
from board.formats.parse import parse_whole
from board.formats.sources import Row, Source

_MOST_BYTES: Final = 64 << 20
"""Rows of so many bytes are looked at together; a trajectory that goes on after them may be in pieces."""
_MOST_OPEN_BYTES: Final = 256 << 20
"""Of rows between which no trajectory begins and ends so many are one line at most."""

KeysOf = Callable[[Mapping[str, Any]], Collection[Hashable]]
"""Of a row what tells its trajectories; none: it is of none."""


class Together(dict[str, Any]):
    """A line of `rows`: those from the first to the last of one or several trajectories.

    in_pieces: whether rows of one of them were in a line before.
    """

    in_pieces: bool = False

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The rows, in the order of the file."""
        return self["rows"]


@dataclass(slots=True)
class _Entry:
    """A line of the file. record: None of one that can't be used."""

    line: Line
    record: Mapping[str, Any] | None
    keys: Collection[Hashable] = ()


class JoinedRows(Source):
    """The rows of files of JSON lines or of tables, those of each trajectory together.

    Such a file is read again when it grows, since its last rows may be followed by others of theirs.
    """

    def __init__(self, source: Source, keys_of: KeysOf) -> None:
        self._source = source
        self._keys_of = keys_of
        self.unpacks = source.unpacks

    def lines(self, path: Location) -> Iterator[Line]:
        """Each group of rows as one line, followed by blank ones, so that counting them gives numbers."""
        waiting: list[_Entry] = []
        size, limit = 0, _MOST_BYTES
        done: set[int] = set()
        for line in self._source.lines(path):
            waiting.append(self._entry(line))
            size += _size_of(line)
            if size < limit:
                continue
            *groups, last = _groups(waiting)
            if size >= _MOST_OPEN_BYTES and not groups:
                groups, last = [last], []
            yield from self._lines_of(groups, done)
            waiting = last
            size = sum(_size_of(entry.line) for entry in last)
            limit = max(_MOST_BYTES, min(2 * size, _MOST_OPEN_BYTES))
        yield from self._lines_of(_groups(waiting), done)

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return next(self.fetch_many(path, [(offset, size)]))

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        for offset, size in places:
            rows = [
                entry.record for entry in map(self._entry, self._source.between(path, offset, size))
            ]
            records = [record for record in rows if record is not None]
            yield Row(offset, size, None, record=Together(rows=records))

    def _entry(self, line: Line) -> _Entry:
        if isinstance(line, Row):
            return _Entry(line, line.record, self._keys_of(line.record))
        try:
            if line.text is None or not line.text.strip():
                return _Entry(line, None)
            record, _ = parse_whole(line.text)
        except RecordError:  # which is said where it is read by itself
            return _Entry(line, None)
        return _Entry(line, record, self._keys_of(record))

    def _lines_of(self, groups: Iterable[Sequence[_Entry]], done: set[int]) -> Iterator[Line]:
        """The lines of groups of rows. done: hashes of the trajectories of groups before."""
        for group in groups:
            first = group[0]
            if first.record is None:
                yield from (entry.line for entry in group)
                continue
            keys = {hash(key) for entry in group for key in entry.keys}
            together = Together(rows=[entry.record for entry in group if entry.record is not None])
            together.in_pieces = not keys.isdisjoint(done)
            done |= keys
            end = group[-1].line.offset + group[-1].line.size
            yield Row(first.line.offset, end - first.line.offset, None, record=together)
            for entry in group[1:]:
                yield entry.line if entry.record is None else Line(end, 0, b"")


def _size_of(line: Line) -> int:
    """About the bytes of a row of a table."""
    return len(str(line.record)) if isinstance(line, Row) else line.size


def _groups(entries: Sequence[_Entry]) -> list[list[_Entry]]:
    """The rows cut wherever no trajectory has rows on both sides."""
    last = {key: place for place, entry in enumerate(entries) for key in entry.keys}
    groups: list[list[_Entry]] = [[]]
    end = 0
    for place, entry in enumerate(entries):
        groups[-1].append(entry)
        end = max(end, *(last[key] for key in entry.keys), place)
        if place == end:
            groups.append([])
            end = place + 1
    return groups[:-1] if not groups[-1] else groups
