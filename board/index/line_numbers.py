"""Which line a shard begins with, where whoever planned it did not know.

Shards of a file are planned before the lines of those in front of them were counted. Most often whoever
reads a shard has read the one before it as well; else the lines between are counted, which takes about a
thirtieth of the time of reading them.
"""

from __future__ import annotations

import os
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from board.formats.io.local_files import open_descriptor
from board.formats.io.locations import Location
from board.formats.io.remote import RemoteLocation
from board.index.batch import BatchResult, Work
from board.index.line_ends import newlines


class LineNumbers:
    """What one process knows of the lines of files that it reads."""

    def __init__(self) -> None:
        self._known: dict[int, list[tuple[int, int]]] = {}
        """By file, offsets in ascending order and the number of the line that begins there."""

    def numbered(self, batch: Sequence[Work]) -> list[Work]:
        """The batch with the first line of every shard. Of a file that can't be read no line counts."""
        return list(self._numbered(batch))

    def told(self, batch: Sequence[Work]) -> list[Work]:
        """The batch with what is known of its lines here, for another process that numbers them."""
        return [replace(work, known=self._nearest(work)) for work in batch]

    def _numbered(self, batch: Sequence[Work]) -> Iterator[Work]:
        for work in batch:
            shard = work.shard
            if shard.first_line:
                yield work
                continue
            offset, line = self._nearest(work)
            line += lines_between(shard.path, offset, shard.start)
            yield replace(work, shard=replace(shard, first_line=line))

    def learn(self, result: BatchResult) -> None:
        """Takes note of where a batch ended."""
        for found in result.files:
            line = found.work.shard.first_line + found.lines
            insort(self._known.setdefault(found.work.file_id, []), (found.consumed, line))

    def _nearest(self, work: Work) -> tuple[int, int]:
        """The last known pair, here or by the plan, that is not behind the shard's start."""
        known = ((0, 1), work.known, self._before(work))
        return max(pair for pair in known if pair[0] <= work.shard.start)

    def _before(self, work: Work) -> tuple[int, int]:
        """The last pair that was learned and is not behind the shard's start."""
        pairs = self._known.get(work.file_id, [])
        place = bisect_right(pairs, work.shard.start, key=itemgetter(0))
        return pairs[place - 1] if place else (0, 1)


def lines_between(path: Location, start: int, end: int) -> int:
    """How many newlines there are in [start, end) of a file on this machine; 0 if it can't be read."""
    if start >= end or isinstance(path, RemoteLocation):
        return 0
    try:
        descriptor = open_descriptor(path)
    except OSError:  # whoever reads the shard will say so
        return 0
    try:
        return sum(newlines(descriptor, start, end))
    finally:
        os.close(descriptor)
