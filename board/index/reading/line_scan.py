"""Lines of a shard, each read for itself: a row, several rows, an event, or a problem."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from board.core.records import ReadOptions, Record, Remark
from board.core.tokens.vocabulary import Vocabulary
from board.errors import RecordError
from board.formats import known_mapping, reader_named, source_of
from board.formats.base import Event, Place, Reader
from board.formats.io.lines import MAX_LINE_BYTES, Line
from board.formats.io.locations import Location
from board.formats.number_arrays import LineParser
from board.formats.parse import parse_whole
from board.formats.sources import Row
from board.index.discovery.run_info import AT_REST_SECONDS
from board.index.reading.record_row import row_of
from board.index.reading.row_batch import PartBuilder
from board.index.reading.shard import END_BYTES, Shard, ShardIndex
from board.index.repeat_keys import BY_FILE, join_keys, line_key, repeat_key

MENDED: Final = Remark(
    None, "text that is not valid UTF-8 is shown as U+FFFD", "write UTF-8", "partial"
)


def reader_of(shard: Shard) -> Reader:
    """The reader of a shard's lines."""
    return known_mapping(shard.mapping) if shard.mapping else reader_named(shard.reader)


@lru_cache(maxsize=256)
def _parser_of(path: Location) -> LineParser:
    """The parser of a file, kept from shard to shard: learning the layout of long lines takes longer than
    reading a dozen of them.
    """
    return LineParser()


class LineScan:
    """The state of reading one shard, line by line or row by row."""

    def __init__(self, shard: Shard, options: ReadOptions, vocabulary: Vocabulary | None) -> None:
        self._shard = shard
        self._options = options
        self._vocabulary = vocabulary
        self._reader = reader_of(shard)
        several = type(self._reader).rows is not Reader.rows
        self._by_rows = several or not source_of(shard.origin).appends
        self._place = Place(shard.origin, options, self._reader.layout)
        self._parser = _parser_of(shard.path)
        self._number = shard.first_line - 1
        self._consumed = shard.start
        self._last_bytes = b""
        self._tail: ShardIndex | None = None
        self.batch = PartBuilder(shard.display_path)

    def take(self, line: Line) -> None:
        """Reads one line: a row, an event, or a problem. A line without its newline makes the tail."""
        if not line.ended:
            self._tail = self._index_of_tail(line)
            return
        self.take_row(line)
        self._consumed = line.offset + line.size
        self._remember(line)

    def take_row(self, line: Line) -> None:
        """Reads one row of a file that is no lines of text."""
        self._number += 1
        try:
            if self._by_rows:
                self._take_rows(line)
            elif (result := self._read(line)) is not None:
                self._add(result, line)
        except RecordError as error:
            self.batch.lose(error, self._number)

    def last_part(self) -> ShardIndex:
        """What was read since the last part, of a file of which nothing is left to be read."""
        end = self._shard.end
        self._consumed = self._shard.path.stat().st_size if end is None else end
        return self.part()

    def part(self) -> ShardIndex:
        """What was read since the last part."""
        built, self.batch = self.batch, PartBuilder(self._shard.display_path)
        return ShardIndex(
            table=built.table(),
            events=tuple(built.events),
            problems=built.problems,
            consumed=self._consumed,
            lines=self._number - self._shard.first_line + 1,
            last_bytes=self._last_bytes,
            tail=self._tail,
        )

    def _take_rows(self, line: Line) -> None:
        """Reads a line of several rollouts, each for itself: one that can't be used costs no other."""
        self._place.line = self._number
        parsed, mended = _parsed_whole(line)
        if parsed is None:
            return
        for part, row in enumerate(self._reader.rows(parsed, self._place)):
            try:
                result = self._reader.read(row, self._place)
                if result is not None:
                    self._add(result, line, part)
            except RecordError as error:
                self.batch.lose(error, self._number)
        if mended:
            self.batch.remark(MENDED, self._number)

    def _read(self, line: Line) -> Record | Event | None:
        text = _text_of(line)
        if not text or text.isspace():
            return None
        record, mended = self._parser.parse(text)
        self._place.line = self._number
        result = self._reader.read(record, self._place)
        if mended:
            self.batch.remark(MENDED, self._number)
        return result

    def _add(self, result: Record | Event, line: Line, part: int = 0) -> None:
        if isinstance(result, Event):
            self.batch.add_event(result, self._number)
            return
        # May raise: arrays of ids are parsed here.
        row = row_of(result, self._vocabulary, is_joined=self._shard.joined)
        self.batch.add_row(row, self._address(result, line, part), result, self._number)

    def _address(self, record: Record, line: Line, part: int) -> dict[str, Any]:
        """Where a rollout stands, and by what it is known again, here and in logs that are joined."""
        address: dict[str, Any] = {"line": self._number, "offset": line.offset, "size": line.size}
        if part:
            address["part"] = part
        repeats = self._reader.repeats
        if repeats != "never":
            by_line = repeats in BY_FILE
            key = line_key(line.text, part) if by_line else repeat_key(record, repeats)
            address["repeat_key"] = key
        if self._shard.joined:
            address |= join_keys(record, self._reader.join_keys(record, part))
        return address

    def _index_of_tail(self, line: Line) -> ShardIndex | None:
        """The last line alone, when it is a whole record or there to stay; None: it is waited for."""
        number = self._number + 1
        shard = replace(self._shard, start=line.offset, end=None, first_line=number)
        scan = LineScan(shard, self._options, self._vocabulary)
        scan.take_row(line)
        return None if scan.batch.is_empty and not self._is_finished() else scan.part()

    def _is_finished(self) -> bool:
        """Whether the file has been unchanged so long that a torn last line is there to stay."""
        return time.time() - self._shard.path.stat().st_mtime >= AT_REST_SECONDS

    def _remember(self, line: Line) -> None:
        """Stores the last bytes that were read, by which the file is known again when it grows."""
        text = (line.text or b"")[-END_BYTES:]
        self._last_bytes = (self._last_bytes + text + b"\n")[-END_BYTES:]


def _parsed_whole(line: Line) -> tuple[Mapping[str, Any] | None, bool]:
    if isinstance(line, Row):
        return line.record, False
    text = _text_of(line)
    return (None, False) if not text or text.isspace() else parse_whole(text)


def _text_of(line: Line) -> bytes:
    if line.text is None:
        raise RecordError(
            f"the line is longer than {MAX_LINE_BYTES >> 20} MB", hint="one rollout per line"
        )
    return line.text
