"""The rollouts of a run, some at a time: columns and whole texts of the index, messages of the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from board.analysis.step_records import StepRecords
from board.core.records import Record
from board.formats.number_arrays import RawNumbers
from board.formats.parse import loads_tolerantly
from board.index import segments
from board.query.columns import aliased, with_names
from board.query.database import quoted
from board.query.open_run import Run
from board.query.rollouts import ADDRESS, Sorting, at_addresses, tables

TEXTS: Final = segments.TEXT_NAMES[:-1]
MESSAGES: Final = "messages"
_PLACE: Final = ("step", "index", "file", *segments.LOCATION, segments.PART)
_LEFT_OUT: Final = frozenset(("offset", "size", segments.PART))
_HEADING: Final = r"^\[[^\]\n]{1,40}\]\n"
_BATCH_BYTES: Final = 32 << 20
_BATCH_ROLLOUTS: Final = 1024
"""At most so many rollouts at a time, and fewer of a log whose lines are long."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One rollout. values: by column, None where not recorded. split: train where none is recorded.

    record: what the log says, where it was asked for. is_lost: its line can't be read again.
    """

    step: int
    index: int
    split: str
    prompt_key: int | None
    values: dict[str, Any]
    record: Record | None = None
    is_lost: bool = False

    def logged(self, name: str) -> Any:
        """What the log has under the key of a column."""
        return None if self.record is None else _logged_value(self.record, name)


def column_names(run: Run) -> list[str]:
    """The columns that a run records, whole texts and messages last."""
    whole, names = run.whole or run, run.rows.names
    columns = [name for name in whole.columns if name not in (*_LEFT_OUT, *TEXTS)]
    keys = [segments.PROMPT_KEY] if segments.PROMPT_KEY in names else []
    texts = [name for name in TEXTS if name in names or segments.WHOLE + name in names]
    return [*columns, *keys, *texts, *([MESSAGES] if has_messages(run) else [])]


def has_messages(run: Run) -> bool:
    """Whether a rollout of the whole run has chat messages."""
    return segments.MESSAGES in run.rows.names


def keeps_more(run: Run) -> bool:
    """Whether the log of a run has more of a conversation than the texts of the index: messages, of the
    prompt alone too, whose text begins with a role, or schemas of tools.
    """
    whole = run.whole or run
    if has_messages(run) or "tools" in whole.columns:
        return True
    heading = " OR ".join(
        f"regexp_matches({whole.rows.value(name)}::VARCHAR, '{_HEADING}')"
        for name in ("prompt", "response")
    )
    table = whole.table(f"SELECT 1 FROM {whole.view} AS rollouts WHERE {heading} LIMIT 1")
    return table.num_rows > 0


def object_columns(run: Run, columns: Sequence[str]) -> list[str]:
    """Those of the columns that hold objects or lists, of which the index has the beginning alone."""
    whole = run.whole or run
    logged = [
        c for c in map(whole.rows.column, columns) if c.words and c.name not in segments.FIXED
    ]
    made = (*segments.CAUSE_COLUMNS, *segments.LABEL_COLUMNS, segments.FAILED_TOOLS)
    return [c.name for c in logged if c.name not in made and _holds_objects(whole, c.name)]


def _holds_objects(run: Run, name: str) -> bool:
    value = run.rows.value(name)
    begins = f"starts_with({value}, '{{') OR starts_with({value}, '[')"
    places = ", ".join(f"{run.rows.value(one)} AS {quoted(one)}" for one in _PLACE)
    sql = f"SELECT {places} FROM {run.view} AS rollouts WHERE {begins} LIMIT 1"
    rows = run.table(sql).to_pandas()
    records = dict(StepRecords(run).of(rows)) if len(rows) else {}
    return any(isinstance(_logged_value(one, name), list | dict) for one in records.values())


def _logged_value(record: Record, name: str) -> Any:
    """What the log has under the key of a column."""
    value = record.extras.get(name, record.extras.get(name.removeprefix("logged.")))
    return loads_tolerantly(value.raw.decode()) if isinstance(value, RawNumbers) else value


class RolloutReader:
    """Reads rollouts of a run. Asking it raises UnreadableError.

    columns: of column_names. reads_log: whether what else the log says is read.
    sorting: the order of `every`; limit: of how many rollouts at most.
    """

    def __init__(
        self,
        run: Run,
        columns: Sequence[str],
        *,
        reads_log: bool,
        sorting: Sorting | None = None,
        limit: int | None = None,
    ) -> None:
        self._run, self._sorting, self._limit = run, sorting or Sorting(), limit
        self._columns = [name for name in columns if name != MESSAGES]
        self._records = StepRecords(run) if reads_log else None
        rows = run.rows
        place = [rows.value(name) for name in _PLACE]
        self._values = [
            *place,
            run.split_value,
            rows.value(segments.PROMPT_KEY),
            *(_value(run, name) for name in self._columns),
        ]

    def types(self) -> dict[str, pa.DataType]:
        """The type of each column, those of messages left out."""
        values = aliased([_value(self._run, name) for name in self._columns])
        whole = self._run.whole or self._run  # which has no parameters
        table = whole.table(f"SELECT {values} FROM {whole.view} AS rollouts LIMIT 0")
        return dict(zip(self._columns, self._named(table).schema.types, strict=True))

    def _named(self, table: pa.Table) -> pa.Table:
        """The columns with their types."""
        rows = self._run.rows
        return with_names(table, [*map(rows.column, self._columns)], rows.exact_type)

    def every(self) -> Iterator[list[Rollout]]:
        """The rollouts of the run in their order."""
        whole = self._run.whole or self._run
        usual_bytes = whole.info.bytes // max(whole.rollout_count, 1) + 1
        size = min(_BATCH_BYTES // usual_bytes + 1, _BATCH_ROLLOUTS)
        ordered = tables(self._run, self._values, self._sorting, limit=self._limit, size=size)
        for table in ordered:
            yield self._rollouts(table)

    def at(self, addresses: Sequence[Mapping[str, int]]) -> list[Rollout]:
        """Rollouts in the order of their addresses, as at_addresses takes them; at least one."""
        columns = {name: [one[name] for one in addresses] for name in ADDRESS}
        return self._rollouts(at_addresses(self._run, self._values, columns))

    def _rollouts(self, table: pa.Table) -> list[Rollout]:
        logged = self._logged(table)
        first = len(_PLACE) + 2
        values = [
            column.to_pylist()
            for column in self._named(table.select(range(first, table.num_columns))).columns
        ]
        columns: list[list[Any]] = [column.to_pylist() for column in table.columns[:first]]
        steps, indices, *_ = columns
        splits, keys = columns[len(_PLACE) :]
        return [
            Rollout(
                steps[place],
                indices[place],
                splits[place],
                keys[place],
                {name: own[place] for name, own in zip(self._columns, values, strict=True)},
                logged.get(place),
                self._records is not None and place not in logged,
            )
            for place in range(table.num_rows)
        ]

    def _logged(self, table: pa.Table) -> dict[int, Record]:
        """By place what the log says."""
        if self._records is None or not table.num_rows:
            return {}
        places = table.select(range(len(_PLACE))).rename_columns(list(_PLACE)).to_pandas()
        return dict(self._records.of(places))


def _value(run: Run, name: str) -> str:
    """SQL for a column."""
    if name in TEXTS:
        return run.rows.whole_text(name)
    return "path" if name == "file" else run.rows.frame_value(name)
