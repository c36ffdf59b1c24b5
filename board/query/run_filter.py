"""Filters of the table of runs, in the language of filters over rollouts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from board.core import expression_tree
from board.core.column_names import Meanings
from board.core.expression_tree import Node, Number, Operation, Text, columns_of_texts, names_in
from board.core.expressions import parse
from board.index.segments import TEXT_NAMES, Column
from board.query.database import database_of
from board.query.predicate import TRUTHS, predicate_of

if TYPE_CHECKING:
    from board.query.run_rows import RunRows

_OTHERS: Final = frozenset((*TEXT_NAMES, "file"))
"""Names that have a meaning of their own in the language."""
_AS_WORDS: Final = "\0"
"""Begins the name of a column as one of texts, where it holds numbers too."""
_OF_WORDS: Final = ("==", "!=", "in", "contains", "missing")


@dataclass(frozen=True, slots=True)
class _Values:
    """What predicate_of asks of the rows of a run, of values that stand in a table c0, c1, ..."""

    columns: tuple[Column, ...]

    def value(self, name: str) -> str:
        return f"c{[column.name for column in self.columns].index(name)}"


def matching(
    rows: Sequence[Mapping[str, Any]], text: str, meanings: Meanings | None = None
) -> list[int]:
    """Places of the rows for which an expression holds; what a row lacks, or has as None, is not known.
    meanings: other names for what the rows have.

    Where a column holds texts and numbers, a value equals another as a number where both are numbers, and
    else as a text; it is larger than a number where it is one, and else that is not known. Raises
    ExpressionError.
    """
    offered = dict.fromkeys(name for row in rows for name in row if name not in _OTHERS)
    expression = parse(text, offered, meanings)
    used = dict.fromkeys((*expression.names, *columns_of_texts(expression)))
    values = {name: [row.get(name) for row in rows] for name in used}
    texts = {name for name, own in values.items() if any(isinstance(one, str) for one in own)}
    mixed = {name for name in texts if any(isinstance(one, int | float) for one in values[name])}
    tree = _with_words(expression.tree, mixed)
    columns, arrays = [], []
    for name in dict.fromkeys((*names_in(tree), *used)):
        own = values[name.removeprefix(_AS_WORDS)]
        is_words = name.startswith(_AS_WORDS)
        columns.append(Column(name, words=is_words or name in texts - mixed))
        if is_words:
            own = [None if one is None else _words_of(one) for one in own]
        elif name in mixed:
            own = [number_in(one) for one in own]
        arrays.append(_array(own, words=columns[-1].words))
    own_rows = cast("RunRows", _Values(tuple(columns)))
    predicate = predicate_of(own_rows, replace(expression, tree=tree))
    places = pa.array(range(len(rows)), pa.int64())
    table = pa.table([places, *arrays], ["place", *(f"c{n}" for n in range(len(arrays)))])
    with database_of().cursor() as cursor:
        cursor.register("runs", table)
        sql = f"SELECT place FROM runs WHERE {predicate.sql} ORDER BY place"
        passing = cursor.sql(sql, params=dict(predicate.parameters) or None)
        return passing.to_arrow_table()["place"].to_pylist()


def number_in(value: Any) -> float | None:
    """The number that a value is, or that a text is written as; None where it is none."""
    if isinstance(value, str):
        value = TRUTHS.get(value.lower(), value)
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _with_words(tree: Node, mixed: AbstractSet[str]) -> Node:
    """The tree with mixed columns as texts where two values are equal or not."""
    made: dict[int, Node] = {}  # the middle of a chain of comparisons is there twice

    def remade(node: Node) -> Node:
        if not isinstance(node, Operation):
            return node
        if id(node) not in made:
            parts = _words_in(node) if node.op in _OF_WORDS and has_mixed(node) else ()
            made[id(node)] = replace(node, parts=parts or tuple(map(remade, node.parts)))
        return made[id(node)]

    def has_mixed(node: Operation) -> bool:
        return any(
            isinstance(one, expression_tree.Column) and one.name in mixed for one in node.parts
        )

    return remade(tree)


def _words_in(node: Operation) -> tuple[Node, ...]:
    """The columns and values of an operation as texts; nothing where one is calculated."""
    parts: list[Node] = []
    for part in node.parts:
        match part:
            case expression_tree.Column(name=name):
                parts.append(replace(part, name=_AS_WORDS + name))
            case Text(value=value):
                parts.append(part if node.op == "contains" else _text(part, value))
            case Number(value=value):
                parts.append(_text(part, value))
            case Operation(op="-", parts=(Number(value=value),)):
                parts.append(_text(part, -value))
            case _:
                return ()
    return tuple(parts)


def _text(node: Node, value: float | str) -> Text:
    return Text(node.start, node.end, _words_of(value))


def _words_of(value: Any) -> str:
    """A value as a text, the same for equal numbers."""
    number = number_in(value)
    if number is None:
        return str(value)
    return repr(number).replace("e-0", "e-").removesuffix(".0")


def _array(values: Sequence[Any], *, words: bool) -> pa.Array:
    if not words:
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    texts = (None if value is None else str(value) for value in values)
    plain = [None if text is None else text.encode("utf-8", "replace").decode() for text in texts]
    return pa.array(plain, pa.string())
