"""A byte range of a log file -> one table row per rollout, with where its line stands in the file.

`index_shard` is a plain function of plain data: what it returns for a range does not depend on any
other range, so that ranges can be read in any process and put together afterwards.

    shard           the range, and what it holds, as plain data
    record_row      a Record -> its row
    table_columns   many Records as columns -> the table's columns
    part            rows, events and problems of a bounded part, until it is a table
    line_scan       lines or rows, each for itself
    column_scan     many lines or rows together
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from board.core.options import ReadOptions
from board.core.tokens.vocabulary import Vocabulary
from board.formats import source_of
from board.formats.io.lines import read_line_blocks, read_lines
from board.formats.io.parquet_files import ParquetFiles
from board.formats.io.remote import RemoteLocation
from board.formats.sources import Source
from board.index.reading.column_scan import ColumnScan, makes_columns
from board.index.reading.line_scan import LineScan
from board.index.reading.shard import Shard, ShardIndex

PART_ROWS: Final = 16_384
"""A part of a shard ends after so many rollouts, so that short lines take no more memory than long."""
PART_BYTES: Final = 32 << 20
"""Or after so many characters of whole texts."""
_TEXT_BLOCK_BYTES: Final = 2 << 20
"""Lines that are taken together: enough of them that what each block costs does not count."""


def index_shard(
    shard: Shard, options: ReadOptions | None = None, vocabulary: Vocabulary | None = None
) -> Iterator[ShardIndex]:
    """Reads every line of a shard, a bounded part after the other; at least one part.

    `consumed` and `lines` of a part count from the beginning of the shard. Raises OSError when the file
    can't be read.
    """
    options = options or ReadOptions()
    source = source_of(shard.origin)
    if not makes_columns(shard):
        scan = LineScan(shard, options, vocabulary)
        return _by_line(scan, shard) if source.appends else _by_row(scan, source, shard)
    together = ColumnScan(shard, options, vocabulary)
    if source.appends:
        return _by_block(together, shard)
    if isinstance(source, ParquetFiles):
        return _by_table(together, source, shard)
    return _by_row(together, source, shard)


def _is_full(scan: LineScan) -> bool:
    return scan.rows >= PART_ROWS or scan.text_chars >= PART_BYTES


def _by_line(scan: LineScan, shard: Shard) -> Iterator[ShardIndex]:
    for line in read_lines(shard.path, shard.start, shard.end):
        scan.take(line)
        if _is_full(scan):
            yield scan.part()
    yield scan.part()


def _by_block(scan: ColumnScan, shard: Shard) -> Iterator[ShardIndex]:
    usual = isinstance(shard.path, RemoteLocation) or scan.has_tokens
    block = None if usual else _TEXT_BLOCK_BYTES
    for lines in read_line_blocks(shard.path, shard.start, shard.end, block):
        rest = lines
        while len(rest.sizes):
            taken, rest = rest.cut(PART_ROWS - scan.rows)
            scan.take_lines(taken)
            if _is_full(scan):
                yield scan.part()
    yield scan.part()


def _by_row(scan: LineScan, source: Source, shard: Shard) -> Iterator[ShardIndex]:
    """Of a file that is read from its beginning to its end or not at all."""
    for line in source.lines(shard.path):
        scan.take_row(line)
        if _is_full(scan):
            yield scan.part()
    yield scan.last_part()


def _by_table(scan: ColumnScan, source: ParquetFiles, shard: Shard) -> Iterator[ShardIndex]:
    """As _by_row, the rows of a batch together."""
    for rows in source.line_blocks(shard.path):
        scan.take_table(rows)
        if _is_full(scan):
            yield scan.part()
    yield scan.last_part()
