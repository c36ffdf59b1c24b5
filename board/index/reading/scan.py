"""A byte range of a log file -> one table row per rollout, with the place of its line in the file.

`index_shard` is a plain function of plain data: what it returns for a range does not depend on any
other range, so that ranges can be read in any process and put together afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import count, repeat
from typing import Any, Final

from board.core.records import ReadOptions, Remark
from board.core.tokens.vocabulary import Vocabulary
from board.errors import RecordError
from board.formats import known_mapping, reader_named, source_of
from board.formats.base import LineContext, Reader
from board.formats.io.lines import (
    MAX_LINE_BYTES,
    Fault,
    Line,
    LineBlock,
    read_bytes,
    read_line_blocks,
)
from board.formats.io.locations import Location
from board.formats.number_arrays import LineParser
from board.formats.parse import lacks_digits, parse_exactly, parse_whole
from board.formats.sources import Row
from board.index.discovery.run_info import AT_REST_SECONDS
from board.index.reading.row_batch import LONG_LINE_BYTES, Address, RowBatch
from board.index.reading.shard import END_BYTES, Shard, ShardIndex, bytes_of
from board.index.repeat_keys import BY_FILE, NO_KEY, keys_of, line_key

PART_ROWS: Final = 16_384
"""A part of a shard ends after so many rollouts, so that short lines take no more memory than long."""
PART_BYTES: Final = 32 << 20
"""Or after so many characters of whole texts."""
MENDED: Final = Remark(
    None, "text that is not valid UTF-8 is shown as U+FFFD", "write UTF-8", "partial"
)


def index_shard(
    shard: Shard, options: ReadOptions | None = None, vocabulary: Vocabulary | None = None
) -> Iterator[ShardIndex]:
    """Reads every line of a shard, a bounded part after the other; at least one part.

    `consumed` and `lines` of a part count from the beginning of the shard. Raises OSError when the file
    can't be read.
    """
    scan = _Scan(shard, options or ReadOptions(), vocabulary)
    source = scan.source
    if source.appends:
        for lines in read_line_blocks(shard.path, shard.start, shard.end):
            yield from scan.take_lines(lines)
        yield scan.part()
        return
    # A file of rows is read to its end or not at all, and from its beginning unless they have places.
    end = shard.path.stat().st_size if shard.end is None else shard.end
    lines, places = source.lines(shard.path), source.places(shard.path)
    if places is not None:
        new = places[shard.first_line - 1 :]
        lines = source.fetch_many(shard.path, [(place, 1) for place in new])
    for line in lines:
        if not line.ended and not scan.is_finished():
            end = line.offset
            break
        scan.take_row(line)
        if scan.is_full:
            yield scan.part()
    yield replace(scan.part(), consumed=end, last_bytes=bytes_of(places or ()))


@lru_cache(maxsize=256)
def _parser_of(path: Location, *, leaves_texts: bool) -> LineParser:
    """The parser of a file, the same for all its shards: learning the layout of long lines takes longer
    than reading a dozen of them.
    """
    return LineParser(leaves_texts=leaves_texts)


class _Scan:
    """The state of reading one shard."""

    def __init__(self, shard: Shard, options: ReadOptions, vocabulary: Vocabulary | None) -> None:
        self._shard = shard
        self._options = options
        self._vocabulary = vocabulary
        known = known_mapping(shard.mapping) if shard.mapping else reader_named(shard.reader)
        self._reader = known
        source = known.source(source_of(shard.origin))
        if options.outline:
            source = source.outline
        self.source = source.of_run(shard.run) if shard.run else source
        self._has_rows = type(known).rows is not Reader.rows
        self._is_hashed = known.repeats in BY_FILE
        self._place = LineContext(shard.origin, options, known.layout)
        # Of an outline nobody looks into arrays.
        leaves_texts = options.outline and known.has_outline and not shard.joined
        self._parser = _parser_of(shard.path, leaves_texts=leaves_texts)
        self._number = shard.first_line - 1
        self._consumed = shard.start
        self._last_bytes = b""
        self._tail: ShardIndex | None = None
        self._batch = self._new_batch()

    def _new_batch(self) -> RowBatch:
        shard = self._shard
        return RowBatch(
            shard.display_path,
            self._reader,
            self._place,
            self._vocabulary,
            shard.joined,
            self._parse_exactly,
        )

    def _parse_exactly(self, at: Address) -> Mapping[str, Any]:
        _, offset, size, _, _ = at
        return parse_exactly(read_bytes(self._shard.path, offset, size))[0]

    @property
    def is_full(self) -> bool:
        """Whether a part ends here."""
        return self._batch.rows >= PART_ROWS or self._batch.text_chars >= PART_BYTES

    def take_lines(self, lines: LineBlock) -> Iterator[ShardIndex]:
        """Reads lines; gives the parts that end among them. A line without its newline makes the tail."""
        if not lines.ended:
            self._tail = self._index_of_tail(next(lines.lines()))
            return
        while len(lines.sizes):
            block, lines = lines.cut(PART_ROWS - self._batch.rows)
            self._take_block(block)
            # By its last bytes a file is known again when it grows.
            content = block.content or b"\n"
            self._last_bytes = (self._last_bytes + bytes(content[-END_BYTES:]))[-END_BYTES:]
            if self.is_full:
                yield self.part()

    def _take_block(self, lines: LineBlock) -> None:
        texts = lines.texts
        sizes: list[int] = lines.sizes.tolist()
        offsets: list[int] = (lines.offset + lines.sizes.cumsum() - lines.sizes).tolist()
        records = [None] * len(texts) if self._has_rows else self._parser.parse_plain(texts)
        plain = [record for record in records if record is not None]
        self._consumed = lines.offset + lines.size
        is_plain = len(plain) == len(sizes) and max(sizes) <= LONG_LINE_BYTES
        if self._batch.reads_columns and is_plain and self._batch.are_rollouts(plain):
            keys = keys_of(filter(None, texts)) if self._is_hashed else repeat(NO_KEY)
            addresses = zip(count(self._number + 1), offsets, sizes, repeat(0), keys)
            self._batch.collect(plain, addresses, lines.size)
            self._number += len(sizes)
            return
        for record, text, offset, size in zip(records, texts, offsets, sizes, strict=True):
            if record is None:
                self.take_row(Line(offset, size, None if text is None else bytes(text)))
            else:
                self._number += 1
                at = (self._number, offset, size, 0, self._key(text))
                self._batch.add(self._parse_exactly(at) if lacks_digits(record) else record, at)

    def take_row(self, line: Line) -> None:
        """Reads a line or a row by itself."""
        self._number += 1
        try:
            record, is_mended = self._parsed(line)
            if record is None:
                return
            self._place.line = self._number
            rows = self._reader.rows(record, self._place) if self._has_rows else (record,)
        except RecordError as error:
            self._batch.lose(error, self._number)
            return
        for part, row in enumerate(rows):
            at = (self._number, line.offset, line.size, part, self._key(line.text, part))
            self._batch.add(row, at)
        if is_mended:
            self._batch.remark(MENDED, self._number)

    def _parsed(self, line: Line) -> tuple[Mapping[str, Any] | None, bool]:
        """The record of a line, None of a blank one, and whether its text was mended."""
        if isinstance(line, Row):
            return line.record, False
        if isinstance(line, Fault):
            raise RecordError(line.reason)
        if line.text is None:
            reason = f"the line is longer than {MAX_LINE_BYTES >> 20} MB"
            raise RecordError(reason, hint="one rollout per line")
        if not line.text or line.text.isspace():
            return None, False
        is_whole = self._has_rows or not self.source.appends
        record, mended = parse_whole(line.text) if is_whole else self._parser.parse(line.text)
        return parse_exactly(line.text) if lacks_digits(record) else (record, mended)

    def _key(self, text: bytes | memoryview | None, part: int = 0) -> int:
        return line_key(text, part) if self._is_hashed else NO_KEY

    def part(self) -> ShardIndex:
        """What was read since the last part."""
        built, self._batch = self._batch, self._new_batch()
        return ShardIndex(
            table=built.table(),
            events=tuple(built.events),
            problems=built.problems,
            consumed=self._consumed,
            lines=self._number - self._shard.first_line + 1,
            last_bytes=self._last_bytes,
            tail=self._tail,
        )

    def _index_of_tail(self, line: Line) -> ShardIndex | None:
        """The last line alone, when it is a whole record or there to stay; None: it is waited for."""
        number = self._number + 1
        shard = replace(self._shard, start=line.offset, end=None, first_line=number)
        scan = _Scan(shard, self._options, self._vocabulary)
        scan.take_row(line)
        part = scan.part()
        is_nothing = not part.table.num_rows and not part.events
        return None if is_nothing and not self.is_finished() else part

    def is_finished(self) -> bool:
        """Whether the file has been unchanged so long that a torn last line is there to stay."""
        return time.time() - self._shard.path.stat().st_mtime >= AT_REST_SECONDS
