"""The rows of a part of a shard, gathered as they are read, and what was wrong with its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from board.core.conservation import leaves
from board.core.metrics.aggregate import Aggregator
from board.core.problems import MOST_LINES, Problem, ProblemLog
from board.core.records import Record, Remark
from board.core.schema import TOPK_FIELDS
from board.core.tokens.vocabulary import Vocabulary
from board.errors import RecordError
from board.formats.base import Event, LineContext, Reader
from board.formats.columns import gather, outline, usual_columns
from board.formats.fields import record_of
from board.formats.metric_lines import ASIDE, METRICS, METRICS_WITH_TEXT
from board.formats.parse import lacks_digits
from board.index import segments
from board.index.reading import own_tokens
from board.index.reading.cells import cell
from board.index.reading.record_row import (
    arrays_for_aggregates,
    column_name,
    row_of,
    table_columns,
)
from board.index.repeat_keys import BY_FILE, join_keys, repeat_key, repeat_keys

MOST_LOGGED_KEYS: Final = 256
"""Keys unknown to the board that become columns in one part; further ones are counted and left out."""

_NO_ROLLOUT: Final = Remark(
    None,
    "the line has texts and no rollout",
    "a summary or an empty group; the raw log has them",
    "note",
)
_CROWDED: Final = Remark(
    None,
    f"more than {MOST_LOGGED_KEYS} different keys are logged; the rest are not columns",
    "one key per quantity, not per rollout; the opened rollout shows all of them",
)
_CHUNK_ROWS: Final = 4096
_FLUSH_BYTES: Final = 2 << 20
"""Lines of so many bytes are checked together."""
LONG_LINE_BYTES: Final = 128 << 10
"""Bytes; lines with more values than these are parsed faster one by one, in the processor's cache."""


Address = tuple[int, int, int, int, int]
"""Of a rollout: line, offset, size, part (columns of its row), and a hash of its line, where it is asked
for. No class, for one is made per rollout.
"""


class RowBatch:
    """Takes the rollouts, events and problems of lines. path: the file's path as problems name it.

    is_joined: whether rows get the keys by which they are joined with those of other logs. parse_exactly:
    gives the line at an address with all digits of its integers.
    """

    def __init__(
        self,
        path: str,
        reader: Reader,
        place: LineContext,
        vocabulary: Vocabulary | None,
        is_joined: bool,
        parse_exactly: Callable[[Address], Mapping[str, Any]],
    ) -> None:
        self._path = path
        self._reader = reader
        self.reads_columns = type(reader).read is Reader.read
        self._columns = gather
        if self.reads_columns:
            self._columns = lambda lines: reader.read_columns(lines, place)
        if place.options.outline and reader.has_outline and not is_joined:
            columns_of = self._columns
            self._columns = lambda lines: outline(columns_of(lines))
        self._place = place
        self._options = place.options
        self._vocabulary = vocabulary
        self._is_joined = is_joined
        self._parse_exactly = parse_exactly
        self._aggregator = Aggregator()
        self._waiting: list[Mapping[str, Any]] = []
        self._addresses: list[Address] = []
        self._bytes = 0
        self._rows: list[dict[str, Any]] = []
        self._chunks: list[pa.Table] = []
        self._lines: list[int] = []
        self.text_chars = 0
        """Characters of whole texts."""
        self._logged: set[str] = set()
        self.events: list[Event] = []
        self._problems = ProblemLog()

    @property
    def rows(self) -> int:
        """How many rollouts there are."""
        return len(self._lines) + len(self._waiting)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems; all of them are there after `table`."""
        return self._problems.as_tuple()

    def add(self, line: Mapping[str, Any], at: Address) -> None:
        """Adds what a line, or a row of one, says: a rollout, an event or a problem."""
        self._place.line = at[0]
        try:
            if self.reads_columns:
                rollout = self._reader.event_of(line) or line
            else:
                rollout = self._reader.read(line, self._place)
        except RecordError as error:
            self.lose(error, at[0])
            return
        if isinstance(rollout, Event):
            self._add_event(rollout, at[0])
        elif isinstance(rollout, Record) or (rollout is not None and at[2] > LONG_LINE_BYTES):
            self._flush()
            self._add_alone(rollout, at)
        elif rollout is not None:
            self.collect([rollout], [at], at[2])
        elif any(isinstance(value, str) for _, value in leaves(line)):
            self.remark(_NO_ROLLOUT, at[0])

    def are_rollouts(self, lines: Sequence[Mapping[str, Any]]) -> bool:
        """Whether none of the lines of a reader that reads columns is one of metrics."""
        keys = self._reader.rollout_keys
        return not keys or not any(map(keys.isdisjoint, lines))

    def collect(self, rollouts: Iterable[Any], addresses: Iterable[Address], size: int) -> None:
        """Adds rollouts, of so many bytes, once there are enough to be taken together: the lines of a
        reader that reads columns, else the fields of each.
        """
        self._waiting += rollouts
        self._addresses += addresses
        self._bytes += size
        if self._bytes >= _FLUSH_BYTES or len(self._waiting) >= _CHUNK_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Makes rows of what waits, of what needs a closer look one by one."""
        if not self._waiting:
            return
        waiting, addresses = self._waiting, self._addresses
        self._waiting, self._addresses, self._bytes = [], [], 0
        done = () if self._is_joined else self._add_together(waiting, addresses)
        for row in sorted({*range(len(waiting))}.difference(done)):
            self._add_alone(waiting[row], addresses[row])

    def _add_together(
        self, waiting: Sequence[Mapping[str, Any]], addresses: Sequence[Address]
    ) -> Sequence[int]:
        """Adds the rollouts that need no closer look; which ones these are."""
        try:
            rollouts = usual_columns(self._columns(waiting), len(waiting), self._options)
            columns = table_columns(rollouts, self._vocabulary) if rollouts.rows else None
        except (RecordError, RecursionError):  # of which row is found when each is read by itself
            return ()
        if columns is None or not self._has_place_for(columns):
            return ()
        if len(rollouts.rows) < len(addresses):
            addresses = [addresses[row] for row in rollouts.rows]
        lines, offsets, sizes, parts, keys = (list(own) for own in zip(*addresses, strict=True))
        columns |= {"line": lines, "offset": offsets, "size": sizes}
        if any(parts):
            columns[segments.PART] = [part or None for part in parts]
        if (repeats := self._reader.repeats) != "never":
            columns[segments.REPEAT_KEY] = (
                keys if repeats in BY_FILE else repeat_keys(rollouts, repeats)
            )
        self._remark_all(lines, rollouts.remarks or ())
        self._close_chunk()
        table = segments.table_of_columns(columns)
        self._chunks.append(table)
        whole = set(table.column_names).intersection(segments.WHOLE_TEXTS)
        self.text_chars += sum(int(table.column(name).nbytes) for name in whole)
        if rollouts.arrays:
            self._aggregator.add_together(rollouts.arrays)
        else:
            self._aggregator.pass_over(len(lines))
        self._lines += lines
        return rollouts.rows

    def _add_alone(self, rollout: Mapping[str, Any] | Record, at: Address) -> None:
        line, offset, size, part, key = at
        try:
            if isinstance(rollout, Record):
                record = rollout
            else:
                if self.reads_columns and lacks_digits(rollout):
                    rollout = self._parse_exactly(at)
                fields = {name: value for name, (value,) in self._columns([rollout]).items()}
                record = record_of(fields, self._options)
            # Arrays of ids are parsed here.
            row = row_of(record, self._vocabulary, is_joined=self._is_joined)
        except RecordError as error:
            self.lose(error, line)
            return
        self._add_logged(row, record, line)
        row |= {"line": line, "offset": offset, "size": size, segments.PART: part or None}
        if (repeats := self._reader.repeats) != "never":
            row[segments.REPEAT_KEY] = key if repeats in BY_FILE else repeat_key(record, repeats)
        if self._is_joined:
            row |= join_keys(record, self._reader.join_keys(record, part))
        arrays, remarks = arrays_for_aggregates(record)
        for remark in (*record.remarks, *remarks):
            self.remark(remark, line)
        self._aggregator.add(arrays)
        self._rows.append(row)
        self._lines.append(line)
        self.text_chars += sum(len(row[n] or "") for n in segments.WHOLE_TEXTS)
        if len(self._rows) >= _CHUNK_ROWS:
            self._close_chunk()

    def _has_place_for(self, columns: Mapping[str, Any]) -> bool:
        """Whether all columns unknown to the board may be in this part; takes note of them."""
        logged = self._logged | (columns.keys() - segments.FIXED)
        if len(logged) > MOST_LOGGED_KEYS:
            return False
        self._logged = logged
        return True

    def _add_event(self, event: Event, line: int) -> None:
        """Adds what a writer said about its file; numbers of the trainer are read later, see step_end."""
        if event.kind == "metrics":
            has_text = any(isinstance(value, str) for _, value in leaves(event.data))
            self.remark(METRICS_WITH_TEXT if has_text else METRICS, line)
            return
        if event.kind == "aside":
            self.remark(ASIDE, line)
            return
        self.events.append(replace(event, line=line))
        dropped = event.data.get("dropped")
        if event.kind == "step_end" and isinstance(dropped, int) and dropped > 0:
            reason = "rollouts were dropped by the exporter and are not in the log"
            hint = "its warnings in the training output say why"
            details = ("dropped", reason, hint, "lost", dropped)
            self._problems.add(Problem(self._path, line, *details))

    def lose(self, error: RecordError, line: int) -> None:
        """Notes that a line, or a row of it, could not be used."""
        hint = f"expected: {error.hint}" if error.hint else ""
        self._problems.add(Problem(self._path, line, error.field, error.reason, hint, "lost"))

    def remark(self, remark: Remark, *lines: int) -> None:
        """Notes a remark of some lines, in ascending order."""
        details = (remark.field, remark.reason, remark.hint, remark.severity, len(lines))
        numbers = tuple(dict.fromkeys(lines))  # a line may hold several rollouts
        self._problems.add(Problem(self._path, lines[0], *details, numbers[:MOST_LINES]))

    def _remark_all(self, lines: Sequence[int], remarks: Sequence[Sequence[Remark] | None]) -> None:
        """Notes the remarks of each line, nearly always the same objects."""
        known: dict[int, tuple[Remark, list[int]]] = {}
        for line, own in zip(lines, remarks, strict=False):
            for remark in own or ():
                known.setdefault(id(remark), (remark, []))[1].append(line)
        for remark, own in known.values():
            self.remark(remark, *own)

    def table(self) -> Any:
        """All rows as a pyarrow Table, with the aggregates of their tokens; it is called once, last."""
        self._flush()
        self._close_chunk()
        table = segments.joined(self._chunks)
        for name, values in self._aggregator.finish().items():
            column = pa.array(values, from_pandas=True)
            if column.null_count < len(column):
                table = table.append_column(name, column)
        self._note_gaps()
        lines = np.array(self._lines)
        # Rows that were looked at by themselves come after those that were read with them.
        is_in_order = (lines[1:] >= lines[:-1]).all()
        return table if is_in_order else table.take(np.argsort(lines, kind="stable"))

    def _add_logged(self, row: dict[str, Any], record: Record, line: int) -> None:
        """Puts what else the line holds into its row, up to a bound on the number of columns."""
        logged = {key: row.pop(key) for key in [*row] if key not in segments.FIXED}
        cells = (
            (column_name(key), cell(value))
            for key, value in record.extras.items()
            if key not in TOPK_FIELDS
        )
        of_tokens = own_tokens.of_record(record.tokens)
        logged |= {column_name(name): number for name, number in of_tokens}
        logged |= {name: value for name, value in cells if value is not None}
        row |= {name: value for name, value in logged.items() if self._has_place(name)}
        if not row.keys() >= logged.keys():
            self.remark(_CROWDED, line)

    def _has_place(self, name: str) -> bool:
        if name not in self._logged and len(self._logged) < MOST_LOGGED_KEYS:
            self._logged.add(name)
        return name in self._logged

    def _note_gaps(self) -> None:
        for name, places in self._aggregator.gaps().items():
            reason = f"{name} has entries that are null, NaN, infinite or a fill value"
            hint = "they are left out of means, and counted"
            self.remark(Remark(name, reason, hint, "note"), *sorted(self._lines[p] for p in places))

    def _close_chunk(self) -> None:
        if self._rows:
            self._chunks.append(segments.table_of(self._rows))
            self._rows = []
