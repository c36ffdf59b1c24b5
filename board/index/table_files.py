"""Tables of an index in files: which columns and row groups are looked at, and how texts are kept."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from board.index import segments

_GROUP_ROWS: Final = 16_384
_GROUP_BYTES: Final = 8 << 20
"""Of a row group, uncompressed: a reader unpacks all of a column's texts in it to read one."""
StepRange = tuple[int, int]
"""Smallest and largest step, both included."""


def held_names(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Those of the wanted columns that there are."""
    held = set(names)
    return [name for name in wanted if name in held]


def groups_with(file: Any, steps: StepRange | None) -> list[int]:
    """Row groups that hold a step of the range, as far as their statistics say. file: a ParquetFile."""
    groups = range(file.num_row_groups)
    if steps is None:
        return list(groups)
    place = file.schema_arrow.names.index("step")
    held = ((group, file.metadata.row_group(group).column(place).statistics) for group in groups)
    return [group for group, statistics in held if _may_hold(statistics, steps)]


def _may_hold(statistics: Any, steps: StepRange) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    return statistics.min <= steps[1] and statistics.max >= steps[0]


def repeating(table: pa.Table) -> list[str]:
    """Columns whose values recur: to look for equal ones in others costs as much as writing them."""
    texts = (field.name for field in table.schema if pa.types.is_string(field.type))
    unique = ("prompt", "response", "rollout_id", *segments.WHOLE_TEXTS)
    return [name for name in texts if name not in unique]


def row_group_size(table: pa.Table) -> int:
    """Rows of a row group of rollouts."""
    return max(min(_GROUP_ROWS, _GROUP_BYTES * table.num_rows // max(table.nbytes, 1)), 1)


def compressions(table: pa.Table) -> dict[str, str]:
    """By column: zstd for long texts; lz4 is read in half the time, but has 1.4 times the bytes."""
    found = {n: "zstd" if n in segments.WHOLE_TEXTS else "lz4" for n in table.column_names}
    if found.pop(segments.MESSAGES, None):
        names = (field.name for field in table.schema.field(segments.MESSAGES).type.value_type)
        found |= {f"{segments.MESSAGES}.list.element.{name}": "zstd" for name in names}
    return found
