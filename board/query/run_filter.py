"""Filters of the table of runs, in the language of filters over rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from board.core.expressions import parse
from board.index.segments import Column
from board.query.database import database_of
from board.query.predicate import WHOLE_TEXTS, predicate_of

if TYPE_CHECKING:
    from board.query.run_rows import RunRows

_OTHERS: Final = frozenset((*WHOLE_TEXTS, "file"))
"""Names that have a meaning of their own in the language."""


@dataclass(frozen=True, slots=True)
class _Values:
    """What predicate_of asks of the rows of a run, of values that stand in a table c0, c1, ..."""

    columns: tuple[Column, ...]

    def value(self, name: str) -> str:
        names = [column.name for column in self.columns]
        return f"c{names.index(name)}"


def matching(rows: Sequence[Mapping[str, Any]], text: str) -> list[int]:
    """Places of the rows for which an expression holds; what a row lacks, or has as None, is not known.

    A column of which any row has a text is one of texts. Raises ExpressionError.
    """
    by_name: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in _OTHERS:
            by_name[name] = [row.get(name) for row in rows]
    columns = tuple(
        Column(name, words=any(isinstance(value, str) for value in values))
        for name, values in by_name.items()
    )
    expression = parse(text, [*by_name])
    predicate = predicate_of(cast("RunRows", _Values(columns)), expression)
    places = pa.array(range(len(rows)), pa.int64())
    arrays = [_array(by_name[column.name], words=column.words) for column in columns]
    table = pa.table([places, *arrays], ["place", *(f"c{n}" for n in range(len(arrays)))])
    with database_of().cursor() as cursor:
        cursor.register("runs", table)
        sql = f"SELECT place FROM runs WHERE {predicate.sql} ORDER BY place"
        found = cursor.sql(sql, params=dict(predicate.parameters) or None)
        return found.to_arrow_table()["place"].to_pylist()


def _array(values: Sequence[Any], *, words: bool) -> pa.Array:
    if not words:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    texts = (None if value is None else str(value) for value in values)
    plain = [None if text is None else text.encode("utf-8", "replace").decode() for text in texts]
    return pa.array(plain, pa.string())
