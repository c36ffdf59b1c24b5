"""What lies beside logs and is none: known by what is in it, so that it can be called by its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from board.readers.base import Head


def known_as(head: Head) -> str:
    """What the records of a file are that holds no rollouts; empty where that is not known."""
    if all(_points_elsewhere(record) for record in head.records):
        return "say where those of another file begin: it is its index, and holds no rollouts"
    if all(record.keys() >= {"trace_id", "info", "branches"} for record in head.records):
        return "say what was learned of traces later: they are read with the traces themselves"
    if all(record.keys() >= {"num_examples", "rollouts_per_example"} for record in head.records):
        return "say how an evaluation was run: they are read with the results.jsonl beside them"
    if all(_is_numbers(record) for record in head.records):
        keys = ", ".join(sorted({key for record in head.records for key in record})[:8])
        return f"are numbers alone ({keys}): they are metrics, not rollouts"
    return ""


def _points_elsewhere(record: Mapping[str, Any]) -> bool:
    """Whether a record is a row of prime-rl's index of its stream, or of a producer's annotations."""
    return "offset" in record and bool(record.keys() & {"trace_ids", "trace_id"})


def _is_numbers(record: Mapping[str, Any]) -> bool:
    values = list(record.values())
    return any(type(value) in (int, float) for value in values) and all(
        value is None or isinstance(value, bool | int | float) for value in values
    )
