"""A byte range of a log file -> one table row per rollout, with where its line stands in the file.

`index_shard` is a plain function of plain data: what it returns for a range does not depend on any
other range, so that ranges can be read in any process and put together afterwards.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

import pandas as pd
import pyarrow as pa

from board.core.aggregate import NEEDED, Aggregator
from board.core.options import ReadOptions
from board.core.problems import Problem, ProblemLog
from board.core.records import FloatArray, Record, Remark, Sparse
from board.core.vocabulary import Vocabulary, id_texts
from board.errors import RecordError
from board.readers import known_mapping, reader_named, source_of
from board.readers.base import Event, Place, Reader, Repeats
from board.readers.columns import Block, Values
from board.readers.lines import MAX_LINE_BYTES, Line, Stretch, read_lines, read_stretches
from board.readers.locations import Location
from board.readers.messages import message_text
from board.readers.parquet_files import ParquetFiles
from board.readers.parse import LineParser, first_values, last_values, parse_plain, parse_whole
from board.readers.remote import RemoteLocation
from board.readers.sources import Row, RowStretch, Source
from board.store import segments
from board.store.joins import join_keys
from board.store.log_file import AT_REST_SECONDS
from board.store.repeats import BY_FILE, line_key, repeat_key, repeat_keys
from board.store.table_columns import (
    Patience,
    PendingColumns,
    cell,
    column_name,
    preview,
    table_columns,
)

PREVIEW_TOKENS: Final = 80
PART_ROWS: Final = 16_384
"""A part of a shard ends after so many rollouts, so that short lines take no more memory than long."""
MOST_LOGGED_KEYS: Final = 256
"""Keys unknown to the board that become columns in one part; further ones are counted and left out."""
END_BYTES: Final = 4096

MENDED: Final = Remark(
    None, "text that is not valid UTF-8 is shown with the sign U+FFFD", "write UTF-8", "partial"
)
_CROWDED: Final = Remark(
    None,
    f"more than {MOST_LOGGED_KEYS} different keys are logged; the further ones are no columns",
    "one key per quantity, not per rollout; the opened rollout shows all of them",
)
_CHUNK_ROWS: Final = 4096
_STRETCH_BYTES: Final = 256 << 10
"""Lines that are taken together: they and what they hold stay in the processor's cache."""
_MOST_ODD: Final = 8
"""Lines are taken together where at most one of so many has to be looked at for itself."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Lines of `path` that begin in [start, end), to be read by the reader of that name.

    first_line: 1-based number of the line at `start`. shown: the path as problems name it. named: the
    path that the framework gave the file, where `path` is an unpacked copy of it; None: the same. Files
    that are no lines of text are read whole, whatever `start` says. mapping: the text of the mapping file
    that the reader was made of, since other processes have not seen it; empty: it is another reader.
    joined: whether the rows get the keys by which they are joined with those of other logs.
    """

    path: Location
    shown: str
    reader: str
    start: int = 0
    end: int | None = None
    first_line: int = 1
    named: Location | None = None
    mapping: str = ""
    joined: bool = False

    @property
    def origin(self) -> Location:
        """Where the framework wrote the file."""
        return self.named or self.path


@dataclass(frozen=True, slots=True)
class ShardIndex:
    """What a shard, or a part of one, holds.

    table: one row per rollout, in file order, as `store.segments` stores rows. events: header,
    step_end and close lines. consumed: offset after the last line that a newline ends. lines: how many
    lines that are. last_bytes: up to END_BYTES before `consumed`. tail: what the last line holds when no
    newline ends it yet: it is read again when the file grows, and its index is of that line alone.
    """

    shard: Shard
    table: pa.Table
    events: tuple[Event, ...]
    problems: tuple[Problem, ...]
    consumed: int
    lines: int
    last_bytes: bytes = b""
    tail: ShardIndex | None = None

    @property
    def rows(self) -> pd.DataFrame:
        """The table as a frame, without the last line when no newline ends it."""
        return segments.frame_of(self.table, segments.columns_of(self.table))


def index_shard(
    shard: Shard, options: ReadOptions | None = None, vocabulary: Vocabulary | None = None
) -> Iterator[ShardIndex]:
    """Reads every line of a shard, a bounded part after the other; at least one part.

    `consumed` and `lines` of a part count from the beginning of the shard. Raises OSError when the file
    can't be read.
    """
    scan = _Scan(shard, options or ReadOptions(), vocabulary)
    source = source_of(shard.origin)
    if not source.appends:
        yield from _index_whole(scan, source, shard)
        return
    if scan.by_columns:
        yield from _index_stretches(scan, shard)
        return
    for line in read_lines(shard.path, shard.start, shard.end):
        scan.take(line)
        if scan.is_full:
            yield scan.part()
    yield scan.part()


def _index_stretches(scan: _Scan, shard: Shard) -> Iterator[ShardIndex]:
    """As index_shard, of lines that are taken together."""
    block = None if isinstance(shard.path, RemoteLocation) else _STRETCH_BYTES
    for stretch in read_stretches(shard.path, shard.start, shard.end, block):
        rest = stretch
        while rest.texts:
            taken, rest = rest.cut(scan.room)
            scan.take_stretch(taken)
            if scan.is_full:
                yield scan.part()
    yield scan.part()


def _index_whole(scan: _Scan, source: Source, shard: Shard) -> Iterator[ShardIndex]:
    """As index_shard, of a file that is read from its beginning to its end or not at all."""
    if scan.by_columns and isinstance(source, ParquetFiles):
        for rows in source.stretches(shard.path):
            scan.take_table(rows)
            if scan.is_full:
                yield scan.part()
    else:
        for line in source.lines(shard.path):
            scan.take_row(line)
            if scan.is_full:
                yield scan.part()
    yield scan.last_part()


class _Scan:
    """The state of reading one shard."""

    def __init__(self, shard: Shard, options: ReadOptions, vocabulary: Vocabulary | None) -> None:
        self._shard = shard
        self._options = options
        self._vocabulary = vocabulary
        own = shard.mapping
        self._reader: Reader = known_mapping(own) if own else reader_named(shard.reader)
        several = type(self._reader).rows is not Reader.rows
        self._by_rows = several or not source_of(shard.origin).appends
        has_columns = type(self._reader).columns is not Reader.columns
        self.by_columns = has_columns and not several and not shard.joined
        self._repeats: Repeats = self._reader.repeats
        self._by_line = self._repeats in BY_FILE
        self._place = Place(shard.origin, options, self._reader.layout)
        self._parser = LineParser()
        self._patience = Patience()
        self._number = shard.first_line - 1
        self._consumed = shard.start
        self._last_lines: deque[bytes] = deque()
        self._last_bytes = 0
        self._tail: ShardIndex | None = None
        self._begin_part()

    def _begin_part(self) -> None:
        self._aggregator = Aggregator()
        self._rows: list[dict[str, Any]] = []
        self._columns = PendingColumns()
        self._count = 0
        self._chunks: list[pa.Table] = []
        self._lines_of_rows: list[int] = []
        self._logged: set[str] = set()
        self._events: list[Event] = []
        self._problems = ProblemLog()

    @property
    def is_full(self) -> bool:
        """Whether the part holds as many rollouts as a part may."""
        return self._count >= PART_ROWS

    @property
    def room(self) -> int:
        """How many rollouts there are until the part is full."""
        return PART_ROWS - self._count

    def take(self, line: Line) -> None:
        """Reads one line: a row, an event, or a problem. A line without its newline makes the tail."""
        if not line.ended:
            self._tail = self._index_of_tail(line)
            return
        self._number += 1
        self._take_ended(line)
        self._consumed = line.offset + line.size
        self._remember(line)

    def take_stretch(self, stretch: Stretch) -> None:
        """Reads lines: together where the reader makes columns of them, else each as `take` does."""
        if not stretch.ended or not self._take_together(stretch):
            for line in stretch.lines():
                self.take(line)
            return
        self._consumed = stretch.offset + sum(stretch.sizes)
        for line in stretch.last_lines(END_BYTES):
            self._remember(line)

    def _take_together(self, stretch: Stretch) -> bool:
        if not self._patience.tries():
            return False
        records = parse_plain(stretch.texts)
        places = [place for place, record in enumerate(records) if record is not None]
        block = Block.of([record for record in records if record is not None])
        return self._patience.learns(self._take_block(block, places, stretch))

    def take_table(self, rows: RowStretch) -> None:
        """Reads rows of a file that is no lines of text, as take_stretch does lines."""
        if not self._take_block(rows.block, list(range(rows.block.rows)), rows):
            for line in rows.lines():
                self.take_row(line)

    def _take_block(self, block: Block, places: list[int], stretch: Stretch) -> bool:
        """Whether lines of one rollout each could be taken together; if not, nothing was taken.

        places: where in the stretch the rows of the block stand. The other lines, and odd rows, are read
        each for itself.
        """
        found = self._reader.columns(block, self._place) if places else None
        count = len(stretch.sizes)
        if found is None or count - len(found.steps) > count // _MOST_ODD:
            return False
        made = table_columns(found)
        if made is None or len(self._logged.union(made[1])) > MOST_LOGGED_KEYS:
            return False
        columns, unknown = made
        self._logged.update(unknown)
        places = [place for row, place in enumerate(places) if row not in found.odd]
        self._locate(columns, places, stretch)
        if self._by_line:
            columns["repeat_key"] = [line_key(stretch.texts[place], 0) for place in places]
        elif self._repeats != "never":
            columns["repeat_key"] = repeat_keys(found, self._repeats)
        before, taken = self._number, 0
        for odd in sorted(set(range(count)).difference(places)):
            until = bisect_left(places, odd)
            self._add_columns(columns, taken, until, found.remarks)
            self._number, taken = before + odd + 1, until
            self._take_ended(stretch.line(odd))
        self._add_columns(columns, taken, len(places), found.remarks)
        self._number = before + count
        return True

    def _locate(self, columns: dict[str, Values], places: list[int], stretch: Stretch) -> None:
        """Adds where the rows stand."""
        offsets = list(accumulate(stretch.sizes[:-1], initial=stretch.offset))
        columns["line"] = [self._number + 1 + place for place in places]
        columns["offset"] = [offsets[place] for place in places]
        columns["size"] = [stretch.sizes[place] for place in places]

    def _add_columns(
        self, columns: Mapping[str, Values], start: int, end: int, remarks: Sequence[Remark]
    ) -> None:
        """Adds rows [start, end) of the columns."""
        if start == end:
            return
        lines = columns["line"][start:end]
        for remark in remarks:
            self._remark(remark, lines[0], end - start)
        if self._rows:
            self._close_chunk()
        self._columns.add({name: v[start:end] for name, v in columns.items()}, end - start)
        self._aggregator.pass_over(end - start)
        self._lines_of_rows += lines
        self._count += end - start
        if self._columns.rows >= _CHUNK_ROWS:
            self._close_chunk()

    def take_row(self, line: Line) -> None:
        """Reads one row of a file that is no lines of text."""
        self._number += 1
        self._take_ended(line)

    def _take_ended(self, line: Line) -> None:
        try:
            if self._by_rows:
                self._add_rows(line)
                return
            found = self._read(line)
            if isinstance(found, Record):
                self._add_row(found, line)
            elif found is not None:
                self._add_event(found)
        except RecordError as error:
            self._lose(error)

    def _add_rows(self, line: Line) -> None:
        """Reads a line of several rollouts, each for itself: one that can't be used costs no other."""
        self._place.line = self._number
        parsed, mended = self._parsed_whole(line)
        if parsed is None:
            return
        for part, row in enumerate(self._reader.rows(parsed, self._place)):
            try:
                found = self._reader.read(row, self._place)
                if isinstance(found, Record):
                    self._add_row(found, line, part)
                elif found is not None:
                    self._add_event(found)
            except RecordError as error:
                self._lose(error)
        if mended:
            self._remark(MENDED)

    def _parsed_whole(self, line: Line) -> tuple[Mapping[str, Any] | None, bool]:
        if isinstance(line, Row):
            return line.record, False
        if line.text is None:
            raise _too_long()
        if not line.text or line.text.isspace():
            return None, False
        return parse_whole(line.text)

    def _index_of_tail(self, line: Line) -> ShardIndex | None:
        """The last line alone, when it is a whole record or there to stay; None: it is waited for."""
        shard, number = self._shard, self._number + 1
        scan = _Scan(
            replace(shard, start=line.offset, end=None, first_line=number),
            self._options,
            self._vocabulary,
        )
        scan._number = number
        scan._take_ended(line)
        if scan._count == 0 and not scan._events and not self._is_at_rest():
            return None
        return scan.part()

    def _remember(self, line: Line) -> None:
        """Keeps the last bytes that were read, by which the file is known again when it grows."""
        text = (line.text or b"")[-END_BYTES:]
        self._last_lines.append(text + b"\n")
        self._last_bytes += len(text) + 1
        while self._last_bytes - len(self._last_lines[0]) >= END_BYTES:
            self._last_bytes -= len(self._last_lines.popleft())

    def _read(self, line: Line) -> Record | Event | None:
        if line.text is None:
            raise _too_long()
        if not line.text or line.text.isspace():
            return None
        record, mended = self._parser.parse(line.text)
        self._place.line = self._number
        found = self._reader.read(record, self._place)
        if mended:
            self._remark(MENDED)
        return found

    def _add_event(self, event: Event) -> None:
        self._events.append(event)
        dropped = event.data.get("dropped")
        if event.kind == "step_end" and isinstance(dropped, int) and dropped > 0:
            reason = "rollouts were dropped by the exporter and are not in the log"
            hint = "its warnings in the training's output say why"
            shown = self._shard.shown
            self._problems.add(
                Problem(shown, self._number, "dropped", reason, hint, "lost", dropped)
            )

    def _is_at_rest(self) -> bool:
        """Whether the file has been unchanged so long that a torn last line is there to stay."""
        return time.time() - self._shard.path.stat().st_mtime >= AT_REST_SECONDS

    def _lose(self, error: RecordError) -> None:
        hint = f"expected: {error.hint}" if error.hint else ""
        self._problems.add(
            Problem(self._shard.shown, self._number, error.field, error.reason, hint, "lost")
        )

    def _remark(self, remark: Remark, line: int = 0, count: int = 1) -> None:
        """Notes a remark of so many lines, the first of which is `line`; 0: of the one being read."""
        said = (remark.field, remark.reason, remark.hint, remark.severity)
        self._problems.add(Problem(self._shard.shown, line or self._number, *said, count))

    def _add_row(self, record: Record, line: Line, part: int = 0) -> None:
        row = _row(record, self._vocabulary)  # may raise: arrays of ids are parsed here
        self._add_logged(row, record)
        for remark in record.remarks:
            self._remark(remark)
        self._aggregator.add(self._arrays_for_aggregates(record))
        row["line"], row["offset"], row["size"] = self._number, line.offset, line.size
        if part:
            row["part"] = part
        if self._repeats != "never":
            row["repeat_key"] = (
                line_key(line.text, part) if self._by_line else repeat_key(record, self._repeats)
            )
        if self._shard.joined:
            row |= join_keys(record, self._reader.join_keys(record, part))
        if self._columns.rows:
            self._close_chunk()
        self._rows.append(row)
        self._lines_of_rows.append(self._number)
        self._count += 1
        if len(self._rows) >= _CHUNK_ROWS:
            self._close_chunk()

    def _add_logged(self, row: dict[str, Any], record: Record) -> None:
        """Puts what else the line holds into its row, up to a bound on the number of columns."""
        crowded = False
        for key in [key for key in row if key not in segments.FIXED and not self._has_place(key)]:
            crowded = True
            del row[key]
        for key, value in record.extras.items():
            found = cell(value)
            if found is None:
                continue
            name = column_name(key)
            if self._has_place(name):
                row[name] = found
            else:
                crowded = True
        if crowded:
            self._remark(_CROWDED)

    def _has_place(self, name: str) -> bool:
        """Whether a column that the board does not know may be in this part; takes note of it."""
        if name not in self._logged and len(self._logged) < MOST_LOGGED_KEYS:
            self._logged.add(name)
        return name in self._logged

    def _arrays_for_aggregates(self, record: Record) -> dict[str, FloatArray]:
        """The needed arrays, all of one length; those of another length are left out and named."""
        lengths = {name: len(record.tokens[name]) for name in NEEDED if name in record.tokens}
        if not lengths:
            return {}
        common = next(iter(lengths))
        if len(set(lengths.values())) > 1:
            counts = Counter(lengths.values())
            common = max(lengths, key=lambda name: counts[lengths[name]])
        length = lengths[common]
        arrays: dict[str, FloatArray] = {}
        for name in ("loss_mask", *lengths):
            array = record.tokens.get(name)
            if array is None:
                continue
            if len(array) != length:
                self._remark(_unequal(name, len(array), common, length))
                if name == "loss_mask":
                    return {}
                continue
            try:
                # The tokens in the loss are those that such an array has values for.
                arrays[name] = array.filled() if isinstance(array, Sparse) else array.values()
            except RecordError as error:
                self._remark(Remark(name, f"{name} {error.reason}", f"expected: {error.hint}"))
                if name == "loss_mask":  # without it the means would be over other tokens
                    return {}
        return arrays

    def _note_gaps(self) -> None:
        for name, places in self._aggregator.gaps().items():
            line = self._lines_of_rows[min(places)]
            reason = f"{name} has null, NaN or infinite entries"
            hint = "they are left out of means and counted"
            self._problems.add(
                Problem(self._shard.shown, line, name, reason, hint, "note", len(places))
            )

    def _close_chunk(self) -> None:
        if self._rows:
            self._chunks.append(segments.table_of(self._rows))
            self._rows = []
        if self._columns.rows:
            self._chunks.append(self._columns.table())

    def last_part(self) -> ShardIndex:
        """What was read since the last part, of a file of which nothing is left to be read."""
        self._consumed = (
            self._shard.path.stat().st_size if self._shard.end is None else self._shard.end
        )
        return self.part()

    def part(self) -> ShardIndex:
        """What was read since the last part."""
        self._close_chunk()
        table = segments.joined(self._chunks)
        for name, values in self._aggregator.finish().items():
            column = pa.array(values, from_pandas=True)
            if column.null_count < len(column):
                table = table.append_column(name, column)
        self._note_gaps()
        found = ShardIndex(
            self._shard,
            table,
            tuple(self._events),
            self._problems.as_tuple(),
            self._consumed,
            self._number - self._shard.first_line + 1,
            b"".join(self._last_lines)[-END_BYTES:],
            self._tail,
        )
        self._begin_part()
        return found


def _too_long() -> RecordError:
    return RecordError(
        f"the line is longer than {MAX_LINE_BYTES >> 20} MB", hint="one rollout per line"
    )


def _unequal(name: str, found: int, other: str, length: int) -> Remark:
    # The lengths themselves go into the hint: every line has its own, and a reason is what problems
    # are folded by.
    reason = f"{name} and {other} are of unequal length"
    hint = (
        f"e.g. {found} and {length} entries; metrics that need both are left out for these rollouts"
    )
    return Remark(name, reason, hint)


def _row(record: Record, vocabulary: Vocabulary | None) -> dict[str, Any]:
    """The table row of a rollout, without location and aggregates."""
    row: dict[str, Any] = {"step": record.step, **record.ids, **record.scores}
    length = record.response_length
    if length is not None:
        row["response_tokens"] = length
    if record.prompt_ids is not None:
        row["prompt_tokens"] = len(record.prompt_ids)
    if record.pad_tokens:
        row["pad_tokens"] = record.pad_tokens
    response = record.texts.get("response")
    if response is not None:
        row["response_chars"] = len(response)
    if "finish_reason" in record.texts:
        row["finish_reason"] = record.texts["finish_reason"]
    row["prompt"], row["response"] = previews(record, vocabulary)
    return row


def previews(record: Record, vocabulary: Vocabulary | None) -> tuple[str | None, str | None]:
    """The first characters of prompt and response; decoded from ids where there is no text."""
    prompt = record.texts.get("prompt")
    response = record.texts.get("response")
    if prompt is None and record.messages:
        prompt = next((message_text(m) for m in record.messages if m.get("role") == "user"), None)
    if response is None and record.messages:
        spoken = (
            message_text(m) for m in reversed(record.messages) if m.get("role") == "assistant"
        )
        response = next(spoken, None)
    if response is None and record.response_tokens is not None:
        response = "".join(record.response_tokens[:PREVIEW_TOKENS])
    if prompt is None and record.prompt_ids is not None:
        prompt = _decoded(last_values(record.prompt_ids, PREVIEW_TOKENS), vocabulary)
    if response is None and record.response_ids is not None:
        response = _decoded(first_values(record.response_ids, PREVIEW_TOKENS), vocabulary)
    return preview(prompt), preview(response)


def _decoded(ids: FloatArray, vocabulary: Vocabulary | None) -> str:
    return "".join(vocabulary.texts(ids) if vocabulary else id_texts(ids))
