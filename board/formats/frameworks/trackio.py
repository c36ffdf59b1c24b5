"""Trackio's projects: tables and traces that trainers log to it, in SQLite or exported to Parquet.

Read from trackio 0.43 (see trackio_files.py). TRL's GRPO and RLOO trainers log `completions` as a table
at every logged step, the buffer of the newest generation batch, whose rows have the trainer's step; its
asynchronous trainers (experimental/async_grpo, `log_rollout_traces`) log `rollouts` and verl
(utils/tracking.py, `log_generations_to_trackio`) `val/generations` as traces: messages, and reward,
advantage, group and others as metadata.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from board.errors import RecordError
from board.formats.base import Event, Head, LineContext, Reader
from board.formats.field_values import split_of
from board.formats.fields import Fields, as_extras, at_step, named_rewards
from board.formats.io.parquet_files import PARQUET
from board.formats.io.trackio_files import TRACKIO, TRACKIO_TABLES
from board.formats.messages import split_conversation
from board.formats.parse import as_object, objects_in
from board.formats.sources import Source
from board.formats.table_rows import (
    fields_of_row,
    holds_rollouts,
    rollouts_of_row,
    with_missing_rewards,
)

_REWARDS: Final = "rewards/"
"""Begins the names of TRL's reward functions."""
_OURS: Final[Mapping[str, str]] = {
    "advantage": "advantage",
    "group_id": "group_id",
    "model_version": "policy_version",
    "environment": "env",
}
_TOTALS: Final = ("reward", "score")
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""As Trackio writes what JSON has no number for."""


class TrackioReader(Reader):
    """Reads the rollouts that trainers log to Trackio as tables or traces."""

    name = "trackio"
    title = "Trackio"
    sources = (TRACKIO, PARQUET)
    repeats = "line_buffer"
    left_out: Mapping[str, str] = {
        "step": "Trackio's own count of calls, where the rows of a table have the trainer's step",
        "numbers": "of the trainer, whose curves they are",
        "timestamp": "when a batch of calls was written; its seconds are a column",
        "run_id": "the run's own id",
        "run_name": "the run's name",
        "log_id": "the id of the call, which the ids of its traces hold",
        "space_id": "where the row was sent to",
    }

    def source(self, file: Source) -> Source:
        return TRACKIO_TABLES if file is PARQUET else file

    def recognises(self, head: Head) -> bool:
        """Columns run_name, timestamp and step with completions, or with trace_index and messages."""
        of_parquet = ("run_name", "timestamp", "step")
        return (
            head.has("run_name", "numbers", "tables", "traces")
            or head.has(*of_parquet, "completions")
            or head.has(*of_parquet, "trace_index", "messages", "metadata")
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each row of a table of rollouts, each trace, and what else was logged by the call."""
        call = {key: line.get(key) for key in ("step", "timestamp")}
        rows: list[Mapping[str, Any]] = []
        others: list[object] = [line["others"]] if "others" in line else []
        for table in objects_in(line.get("tables")):
            rollouts = [*_rollouts_of(table)]
            rows += ({**call, "key": table.get("key"), "row": row} for row in rollouts)
            others += [] if rollouts else [table]
        for trace in objects_in(line.get("traces")):
            rows.append({**call, "key": trace.get("key"), "trace": trace})
        if not rows and not others:
            raise RecordError("it holds no table and no trace", hint="a call of trackio.log")
        return [*rows, {"aside": others}] if others else rows

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields | Event:
        if "aside" in line:
            return Event("aside", line)
        row = line.get("row")
        fields = _fields_of_trace(line["trace"]) if row is None else fields_of_row(row)
        fields["split"] = split_of(str(line.get("key")))
        with suppress(ValueError, TypeError):
            fields["timestamp"] = datetime.fromisoformat(line["timestamp"]).timestamp()
        step = fields.pop("step", None)
        return at_step(fields, line.get("step") if step is None else step)


def _rollouts_of(table: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The rollouts of a table; none where its columns hold none."""
    for row in with_missing_rewards(objects_in(table.get("rows"))):
        if holds_rollouts(row):
            known = {key: _number(value) for key, value in row.items() if value is not None}
            yield from rollouts_of_row(known)


def _fields_of_trace(trace: Mapping[str, Any]) -> Fields:
    metadata = {key: _number(value) for key, value in as_object(trace.get("metadata")).items()}
    parts = {
        key.removeprefix(_REWARDS): metadata.pop(key)
        for key in [*metadata]
        if key.startswith(_REWARDS) and isinstance(metadata[key], int | float)
    }
    total = next((metadata.pop(key) for key in _TOTALS if key in metadata), None)
    known = {name: metadata.pop(key) for key, name in _OURS.items() if key in metadata}
    index = trace.get("trace_index")
    fields: Fields = {
        **as_extras(metadata),
        **known,
        **named_rewards(parts, total),
        "messages": trace.get("messages"),
        "rollout_id": trace.get("id"),
        "spans": trace.get("spans") or None,
        "trace_index": index,
    }
    split_conversation(fields)
    return fields


def _number(value: Any) -> Any:
    return _WORDS.get(value, value) if isinstance(value, str) else value
