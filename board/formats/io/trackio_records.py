"""The record of what one call of `trackio.log` wrote: tables, traces and all else, of JSON in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from board.core.records import is_number
from board.errors import RecordError
from board.formats.parse import is_list, is_object

TABLE, TRACE = "trackio.table", "trackio.trace"
"""The `_type` of what is a table or a trace in the JSON."""
JSON_COLUMNS: Final = ("messages", "metadata", "spans")
"""Columns of a trace."""


def record_of_call(
    call: Mapping[str, Any], logged: Mapping[str, Any], traces: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The record of a line: its tables as their rows and its traces, each under its key, and all else."""
    numbers, others = dict[str, Any](), dict[str, Any]()
    tables: list[dict[str, Any]] = []
    inline: list[dict[str, Any]] = []
    for key, value in logged.items():
        if is_number(value):
            numbers[key] = value
            continue
        for index, item in enumerate(value if is_list(value) else (value,)):
            kind = item.get("_type") if is_object(item) else None
            if kind == TABLE:
                tables.append({"key": key, "rows": item.get("_value")})
            elif kind == TRACE:
                trace = {name: item.get(name) for name in JSON_COLUMNS}
                inline.append({"key": key, "trace_index": index, **trace})
            else:
                others[key] = value
    return {**call, "numbers": numbers, "tables": tables, "traces": [*inline, *traces]} | (
        {"others": others} if others else {}
    )


def trace_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of traces, its JSON parsed. Raises RecordError."""
    return {**row, **{name: _json(row.get(name), name) for name in JSON_COLUMNS}}


def _json(content: object, name: str) -> Any:
    """What JSON in a column says; null where there is none."""
    if content is None or not isinstance(content, str | bytes):
        return content
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise RecordError(f"its {name} are not JSON: {error}", hint="JSON") from error
