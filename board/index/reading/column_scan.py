"""Lines or rows of a shard that are taken together, where its reader makes columns of them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from board.core.options import ReadOptions
from board.core.tokens.vocabulary import Vocabulary
from board.formats.base import Reader
from board.formats.block import Block, parse_block
from board.formats.columns import Columns
from board.formats.io.lines import LineBlock
from board.formats.sources import RowBlock
from board.formats.token_columns import TokenColumns
from board.index.reading.file_steps import IntArray
from board.index.reading.line_scan import LineScan, reader_of
from board.index.reading.shard import END_BYTES, Shard
from board.index.reading.table_columns import Backoff, table_columns
from board.index.reading.token_rows import add_token_columns
from board.index.repeat_keys import BY_FILE, line_keys, repeat_keys

_MIN_LINES_PER_FALLBACK: Final = 8
"""Lines are taken together where at most one of so many has to be looked at for itself."""
_LONG_LINE_BYTES: Final = 128 << 10
"""Bytes; lines with more values than these are parsed faster one by one, in the processor's cache."""


def makes_columns(shard: Shard) -> bool:
    """Whether the shard's reader can take many of its lines together."""
    kind = type(reader_of(shard))
    together = kind.columns is not Reader.columns or _has_tokens(kind)
    return together and kind.rows is Reader.rows and not shard.joined


def _has_tokens(kind: type[Reader]) -> bool:
    return kind.token_columns is not Reader.token_columns


class ColumnScan(LineScan):
    """The state of reading one shard, many lines or rows at once."""

    def __init__(self, shard: Shard, options: ReadOptions, vocabulary: Vocabulary | None) -> None:
        super().__init__(shard, options, vocabulary)
        self._backoff = Backoff()
        self.has_tokens = _has_tokens(type(self._reader))

    def take_lines(self, source: LineBlock) -> None:
        """Reads lines: together where the reader makes columns of them, else each as `take` does."""
        if not source.ended or not self._take_together(source):
            for line in source.lines():
                self.take(line)
            return
        self._consumed = source.offset + source.size
        for line in source.last_lines(END_BYTES):
            self._remember(line)

    def take_table(self, rows: RowBlock) -> None:
        """Reads rows of a file that is no lines of text, as take_lines does lines."""
        if not self._take_block(rows.block, list(range(rows.block.rows)), rows):
            for line in rows.lines():
                self.take_row(line)

    def _take_together(self, source: LineBlock) -> bool:
        if self.has_tokens and source.size > _LONG_LINE_BYTES * len(source.sizes):
            return False
        if not self._backoff.should_try():
            return False
        records = self._parser.parse_plain(source.texts) if self.has_tokens else None
        if records is None:
            block, places = parse_block(source.texts)
        else:
            places = [place for place, record in enumerate(records) if record is not None]
            block = Block.of([record for record in records if record is not None])
        return self._backoff.record(self._take_block(block, places, source))

    def _take_block(self, block: Block, places: Sequence[int], source: LineBlock) -> bool:
        """Whether lines of one rollout each could be taken together; if not, nothing was taken.

        places: which lines the rows of the block stand. The other lines, and fallback rows, are read
        each for itself.
        """
        tokens = self._token_columns(block) if places and self.has_tokens else None
        found = tokens.columns if tokens else self._columns(block) if places else None
        count = len(source.sizes)
        if found is None or count - len(found.steps) > count // _MIN_LINES_PER_FALLBACK:
            return False
        made = _table_columns(found)
        if made is None or not self._part.has_place_for(made[1]):
            return False
        columns = made[0]
        arrays = tokens.arrays if tokens else None
        if tokens and not add_token_columns(columns, tokens, self._vocabulary):
            return False
        if found.fallback_rows:
            places = [place for row, place in enumerate(places) if row not in found.fallback_rows]
        columns |= self._places(places, source)
        repeats = self._reader.repeats
        if repeats != "never":
            by_line = repeats in BY_FILE
            keys = line_keys(source)[places] if by_line else repeat_keys(found, repeats)
            columns["repeat_key"] = keys
        before, taken = self._number, 0
        alone = set(range(count)).difference(places) if len(places) < count else ()
        for at in sorted(alone):
            until = bisect_left(places, at)
            self._part.add_columns(columns, taken, until, found.remarks, arrays)
            self._number, taken = before + at, until
            self.take_row(source.line(at))
        self._part.add_columns(columns, taken, len(places), found.remarks, arrays)
        self._number = before + count
        return True

    def _columns(self, block: Block) -> Columns | None:
        try:
            return self._reader.columns(block, self._place)
        except RecursionError:  # which row it is of is found when each is read for itself
            return None

    def _token_columns(self, block: Block) -> TokenColumns | None:
        try:
            return self._reader.token_columns(block, self._place)
        except RecursionError:
            return None

    def _places(self, places: Sequence[int], source: LineBlock) -> dict[str, IntArray]:
        """Where the rows stand."""
        first, sizes = self._number + 1, source.sizes
        lines = np.arange(first, first + len(sizes))
        offsets = source.offset + np.cumsum(sizes) - sizes
        found = {"line": lines, "offset": offsets, "size": sizes}
        if len(places) == len(sizes):
            return found
        return {name: values[places] for name, values in found.items()}


def _table_columns(found: Columns) -> tuple[dict[str, Any], list[str]] | None:
    try:
        return table_columns(found)
    except RecursionError:
        return None
