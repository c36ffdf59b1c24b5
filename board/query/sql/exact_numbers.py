"""Whole numbers that a DOUBLE does not hold: the index has them as texts, with all of their digits.

A column of them may have smaller numbers beside. What type it has says the whole run, so that no choice
of rows changes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from board.index import segments
from board.index.segments import NUMBER, Column
from board.query.database import quoted

_KINDS: Final = (("BIGINT", pa.int64()), ("UBIGINT", pa.uint64()))
_TEXT_OF_NUMBER: Final = """CASE WHEN {0} = trunc({0}) AND abs({0}) < 1e16
    THEN CAST(CAST({0} AS BIGINT) AS VARCHAR)
    ELSE CAST(nullif({0}, CAST('nan' AS DOUBLE)) AS VARCHAR) END"""


def holds_number_texts(column: Column) -> bool:
    """Whether numbers of a column are texts in the index, and none of its texts is anything else."""
    return column.name not in segments.FIXED and column.texts and not column.words


def number_text_sql(stored: list[str]) -> str:
    """SQL for the digits of such a column. stored: its names in the index."""
    texts = [
        _TEXT_OF_NUMBER.format(quoted(name)) if name.startswith(NUMBER) else quoted(name)
        for name in stored
    ]
    return f"coalesce({', '.join(reversed(texts))})"


def type_of(table: Callable[[str], pa.Table], view: str, value: str) -> pa.DataType:
    """int64 where all values are whole numbers of 64 bits, uint64 where none of them is negative and some
    are larger, else float64. value: SQL for their digits.
    """
    lacking = ", ".join(
        f"count(*) FILTER (TRY_CAST({value} AS {kind}) IS NULL AND {value} IS NOT NULL "
        f"OR NOT regexp_full_match({value}, '[-+]?[0-9]+'))"
        for kind, _ in _KINDS
    )
    (row,) = table(f"SELECT {lacking} FROM {view} AS rollouts").to_pylist()
    counts = [*row.values()]
    return next((kind for (_, kind), n in zip(_KINDS, counts, strict=True) if not n), pa.float64())


class ExactTypes:
    """Types of such columns by name, each asked for once."""

    def __init__(self) -> None:
        self._known: dict[str, pa.DataType] = {}

    def of(self, name: str, table: Callable[[str], pa.Table], view: str, value: str) -> pa.DataType:
        """What type_of says of a column."""
        if name not in self._known:
            self._known[name] = type_of(table, view, value)
        return self._known[name]


def numbers_in(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Numbers of a type of their texts, of which each different one is parsed once."""
    import pyarrow.compute as pc

    different = texts.unique().drop_null()
    written: list[Any] = different.to_pylist()
    parse = float if kind == pa.float64() else int
    numbers = pa.chunked_array([pa.array([parse(text) for text in written], kind)])
    return numbers.take(pc.index_in(texts, different))
