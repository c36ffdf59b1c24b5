"""The rows of a part of a shard, gathered as they are read, and what was wrong with its lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from board.core.metrics.aggregate import Aggregator
from board.core.problems import MOST_LINES, Problem, ProblemLog
from board.core.records import FloatArray, Record, Remark
from board.errors import RecordError
from board.formats.base import Event
from board.index import segments
from board.index.reading.record_row import arrays_for_aggregates, cell, column_name

MOST_LOGGED_KEYS: Final = 256
"""Keys unknown to the board that become columns in one part; further ones are counted and left out."""

_CROWDED: Final = Remark(
    None,
    f"more than {MOST_LOGGED_KEYS} different keys are logged; the rest are not columns",
    "one key per quantity, not per rollout; the opened rollout shows all of them",
)
_CHUNK_ROWS: Final = 4096


class PartBuilder:
    """Takes the rollouts, events and problems of lines. path: the file's path as problems name it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._aggregator = Aggregator()
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
        return len(self._lines)

    @property
    def is_empty(self) -> bool:
        """Whether no line was a rollout or an event."""
        return not self._lines and not self.events

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems; all of them are there after `table`."""
        return self._problems.as_tuple()

    def add_row(
        self, row: dict[str, Any], address: Mapping[str, Any], record: Record, line: int
    ) -> None:
        """Adds the rollout of a line: its row, which gets what else was logged, and its address."""
        self._add_logged(row, record, line)
        row |= address
        arrays, remarks = arrays_for_aggregates(record)
        for remark in (*record.remarks, *remarks):
            self.remark(remark, line)
        self._aggregator.add(arrays)
        self._rows.append(row)
        self._lines.append(line)
        self.text_chars += sum(len(row[n]) for n in segments.WHOLE_TEXTS if n in row)
        if len(self._rows) >= _CHUNK_ROWS:
            self._close_chunk()

    def has_place_for(self, unknown: Sequence[str]) -> bool:
        """Whether these columns unknown to the board may be in this part; takes note of them."""
        logged = self._logged.union(unknown)
        if len(logged) > MOST_LOGGED_KEYS:
            return False
        self._logged = logged
        return True

    def add_columns(
        self,
        columns: Mapping[str, Any],
        start: int,
        end: int,
        remarks: Sequence[Remark],
        arrays: Mapping[str, Sequence[FloatArray]] | None = None,
    ) -> None:
        """Adds rows [start, end) of the columns, each of which has the remarks.

        columns: as of segments.table_of_columns.
        arrays: what aggregates are made of, by row; None or empty: they have none.
        """
        if start == end:
            return
        if start or end < len(columns["line"]):
            columns = {name: values[start:end] for name, values in columns.items()}
        lines: list[int] = columns["line"].tolist()
        for remark in remarks:
            self.remark(remark, *lines)
        self._close_chunk()
        self._chunks.append(segments.table_of_columns(columns))
        self.text_chars += sum(
            _characters(columns[name]) for name in segments.WHOLE_TEXTS if name in columns
        )
        if arrays:
            self._aggregator.add_together({name: v[start:end] for name, v in arrays.items()})
        else:
            self._aggregator.pass_over(end - start)
        self._lines += lines

    def add_event(self, event: Event, line: int) -> None:
        """Adds what a writer said about its file."""
        self.events.append(event)
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

    def table(self) -> Any:
        """All rows as a pyarrow Table, with the aggregates of their tokens; it is called once, last."""
        self._close_chunk()
        table = segments.joined(self._chunks)
        for name, values in self._aggregator.finish().items():
            column = pa.array(values, from_pandas=True)
            if column.null_count < len(column):
                table = table.append_column(name, column)
        self._note_gaps()
        return table

    def _add_logged(self, row: dict[str, Any], record: Record, line: int) -> None:
        """Puts what else the line holds into its row, up to a bound on the number of columns."""
        crowded = False
        for key in [key for key in row if key not in segments.FIXED and not self._has_place(key)]:
            crowded = True
            del row[key]
        for key, value in record.extras.items():
            value_cell = cell(value)
            if value_cell is None:
                continue
            name = column_name(key)
            if self._has_place(name):
                row[name] = value_cell
            else:
                crowded = True
        if crowded:
            self.remark(_CROWDED, line)

    def _has_place(self, name: str) -> bool:
        if name not in self._logged and len(self._logged) < MOST_LOGGED_KEYS:
            self._logged.add(name)
        return name in self._logged

    def _note_gaps(self) -> None:
        for name, places in self._aggregator.gaps().items():
            reason = f"{name} has null, NaN or infinite entries"
            hint = "they are left out of means, and counted"
            remark = Remark(name, reason, hint, "note")
            self.remark(remark, *(self._lines[place] for place in sorted(places)))

    def _close_chunk(self) -> None:
        if self._rows:
            self._chunks.append(segments.table_of(self._rows))
            self._rows = []


def _characters(texts: Any) -> int:
    """About how many characters texts have; texts: a list of texts and None, or an Arrow array."""
    if isinstance(texts, pa.Array):
        return int(texts.nbytes)
    return sum(len(text) for text in texts if text is not None)
