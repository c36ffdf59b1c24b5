"""Lines that hold a table or a batch: a list per key, one entry of each list per rollout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from board.errors import RecordError


def rows_of_table(line: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """One mapping per row of a line whose lists are columns; what is no list is said of all rows.

    Raises RecordError where there is no list, and where the columns are not of one length: no telling
    which entries belong together.
    """
    columns = {
        key: cast("list[Any]", value) for key, value in line.items() if isinstance(value, list)
    }
    said_of_all = {key: value for key, value in line.items() if key not in columns}
    if not columns:
        raise RecordError("the line holds no table", hint="a list of equal length for each key")
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{key} {length}" for key, length in list(lengths.items())[:6])
        raise RecordError(
            "the columns of the table are of unequal length", hint=f"equal ones; found {shown}"
        )
    rows = next(iter(lengths.values()), 0)
    return [
        {**said_of_all, **{key: column[i] for key, column in columns.items()}} for i in range(rows)
    ]
