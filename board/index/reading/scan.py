"""A byte range of a log file -> one table row per rollout, with where its line stands in the file.

`index_shard` is a plain function of plain data: what it returns for a range does not depend on any
other range, so that ranges can be read in any process and put together afterwards. Lines are taken
together where their reader makes columns of them, and each for itself elsewhere (line_scan).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from board.core.records import ReadOptions
from board.core.tokens.vocabulary import Vocabulary
from board.formats import source_of
from board.formats.base import Reader
from board.formats.columns import Block
from board.formats.io.lines import LineBlock, read_line_blocks, read_lines
from board.formats.io.parquet_files import ParquetFiles
from board.formats.io.remote import RemoteLocation
from board.formats.parse import parse_plain_lines
from board.formats.sources import RowBlock
from board.index.reading.file_steps import IntArray
from board.index.reading.line_scan import LineScan, reader_of
from board.index.reading.record_row import add_token_columns, table_columns
from board.index.reading.shard import END_BYTES, Shard, ShardIndex
from board.index.repeat_keys import BY_FILE, line_key, repeat_keys

PART_ROWS: Final = 16_384
"""A part of a shard ends after so many rollouts, so that short lines take no more memory than long."""
PART_BYTES: Final = 32 << 20
"""Or after so many characters of whole texts."""
_TEXT_BLOCK_BYTES: Final = 2 << 20
"""Lines that are taken together: enough of them that what each block costs does not count."""
_MIN_LINES_PER_FALLBACK: Final = 8
"""Lines are taken together where at most one of so many has to be looked at for itself."""
_LONG_LINE_BYTES: Final = 128 << 10
"""Bytes; lines with more values than these are parsed faster one by one, in the processor's cache."""
_MAX_SKIPPED_BLOCKS: Final = 64


def index_shard(
    shard: Shard, options: ReadOptions | None = None, vocabulary: Vocabulary | None = None
) -> Iterator[ShardIndex]:
    """Reads every line of a shard, a bounded part after the other; at least one part.

    `consumed` and `lines` of a part count from the beginning of the shard. Raises OSError when the file
    can't be read.
    """
    options = options or ReadOptions()
    source = source_of(shard.origin)
    together = makes_columns(shard)
    scan = (ColumnScan if together else LineScan)(shard, options, vocabulary)
    for _ in _read(scan, shard):
        if scan.batch.rows >= PART_ROWS or scan.batch.text_chars >= PART_BYTES:
            yield scan.part()
    # A file of rows is read from its beginning to its end or not at all.
    yield scan.part() if source.appends else scan.last_part()


def _read(scan: LineScan, shard: Shard) -> Iterator[None]:
    """Gives the scan the lines or rows of the shard, and yields after each or after some of them."""
    source = source_of(shard.origin)
    if not source.appends:
        if isinstance(source, ParquetFiles) and isinstance(scan, ColumnScan):
            yield from map(scan.take_table, source.line_blocks(shard.path))
        else:
            yield from map(scan.take_row, source.lines(shard.path))
        return
    if not isinstance(scan, ColumnScan):
        yield from map(scan.take, read_lines(shard.path, shard.start, shard.end))
        return
    usual = isinstance(shard.path, RemoteLocation) or scan.has_tokens
    block = None if usual else _TEXT_BLOCK_BYTES
    for lines in read_line_blocks(shard.path, shard.start, shard.end, block):
        unread = lines
        while len(unread.sizes):
            part, unread = unread.cut(PART_ROWS - scan.batch.rows)
            yield scan.take_lines(part)


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
        self._blocks_to_skip = self._skipped = 0
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
        """After failures it is tried less and less often: such lines are parsed twice then."""
        if self.has_tokens and source.size > _LONG_LINE_BYTES * len(source.sizes):
            return False
        if self._blocks_to_skip:
            self._blocks_to_skip -= 1
            return False
        records = self._parser.parse_plain(source.texts) if self.has_tokens else None
        if records is None:
            records = parse_plain_lines(source.texts)
        lines = [line for line, record in enumerate(records) if record is not None]
        block = Block.of([record for record in records if record is not None])
        was_read = self._take_block(block, lines, source)
        self._skipped = 0 if was_read else min(2 * self._skipped + 1, _MAX_SKIPPED_BLOCKS)
        self._blocks_to_skip = self._skipped
        return was_read

    def _take_block(self, block: Block, lines: list[int], source: LineBlock) -> bool:
        """Whether lines of one rollout each could be taken together; if not, nothing was taken.

        lines: which lines the rows of the block are. The other lines, and fallback rows, are read each
        for itself.
        """
        try:
            tokens = self._reader.token_columns(block, self._place) if lines else None
            rollouts = self._reader.columns(block, self._place) if lines else None
            rollouts = tokens.columns if tokens else rollouts
            count = len(source.sizes)
            if rollouts is None or count - len(rollouts.steps) > count // _MIN_LINES_PER_FALLBACK:
                return False
            made = table_columns(rollouts)
        except RecursionError:  # which row it is of is found when each is read for itself
            return False
        if made is None or not self.batch.has_place_for(made[1]):
            return False
        columns = made[0]
        if tokens and not add_token_columns(columns, tokens, self._vocabulary):
            return False
        if rollouts.fallback_rows:
            lines = [line for row, line in enumerate(lines) if row not in rollouts.fallback_rows]
        columns |= self._addresses(lines, source)
        repeats = self._reader.repeats
        if repeats != "never":
            texts = source.texts if repeats in BY_FILE else None
            columns["repeat_key"] = (
                [line_key(texts[line], 0) for line in lines]
                if texts is not None
                else repeat_keys(rollouts, repeats)
            )
        arrays = tokens.arrays if tokens else None
        before, added = self._number, 0
        alone = set(range(count)).difference(lines) if len(lines) < count else ()
        for line in sorted(alone):
            until = bisect_left(lines, line)
            self.batch.add_columns(columns, added, until, rollouts.remarks, arrays)
            self._number, added = before + line, until
            self.take_row(source.line(line))
        self.batch.add_columns(columns, added, len(lines), rollouts.remarks, arrays)
        self._number = before + count
        return True

    def _addresses(self, lines: Sequence[int], source: LineBlock) -> dict[str, IntArray]:
        """Columns of where the rows stand."""
        first, sizes = self._number + 1, source.sizes
        addresses = {
            "line": np.arange(first, first + len(sizes)),
            "offset": source.offset + np.cumsum(sizes) - sizes,
            "size": sizes,
        }
        if len(lines) == len(sizes):
            return addresses
        return {name: values[lines] for name, values in addresses.items()}
