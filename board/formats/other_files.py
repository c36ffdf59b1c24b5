"""What lies beside logs and is none: known by what is in it, so that it can be called by its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from board.formats.base import Head

_WHO: Final = frozenset({"producer", "split", "mode", "phase", "stage", "tag", "timestamp", "time"})
"""Keys whose texts say of a row of metrics who or when."""
_MEASURED: Final = re.compile(r"[\d.,:/%\s\-+dhms]{1,40}")
"""Numbers with units, as ms-swift logs them: `12/400`, `3.00%`, `1h 20m 3s`."""


def known_as(head: Head) -> str:
    """What the records of a file are that holds no rollouts; empty where that is not known."""
    if all(_points_elsewhere(record) for record in head.records):
        return "index another file and hold no rollouts"
    if all(record.keys() >= {"trace_id", "info", "branches"} for record in head.records):
        return "hold later annotations of traces: they are read together with the traces"
    if all(record.keys() >= {"num_examples", "rollouts_per_example"} for record in head.records):
        return "describe an evaluation: they are read together with the results.jsonl beside them"
    if all(record.keys() & {"state_path", "sampler_path"} for record in head.records):
        return "list saved checkpoints and hold no rollouts"
    if all(_is_numbers(record) for record in head.records):
        keys = ", ".join(sorted({key for record in head.records for key in record})[:8])
        return f"hold only numbers ({keys}): metrics, not rollouts"
    return ""


def _points_elsewhere(record: Mapping[str, Any]) -> bool:
    """Whether a record is a row of prime-rl's index of its stream, or of a producer's annotations."""
    return "offset" in record and bool(record.keys() & {"trace_ids", "trace_id"})


def _is_numbers(record: Mapping[str, Any]) -> bool:
    """Whether a record has numbers and nothing else, but for who measured them; verl's are one deeper."""
    found = [_number(key, value) for key, value in record.items()]
    return any(found) and None not in found


def _number(key: str, value: object, *, inner: bool = True) -> bool | None:
    """Whether a value is a number; None where it is what no row of metrics has."""
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return True
    if isinstance(value, str):
        return False if key in _WHO or _MEASURED.fullmatch(value) else None
    if isinstance(value, dict) and inner:
        within = cast("dict[str, object]", value)
        found = [_number(name, one, inner=False) for name, one in within.items()]
        return None if None in found else any(found)
    return None
