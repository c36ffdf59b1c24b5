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
from board.core.expression_tree import (
    NO_NAME,
    Node,
    Number,
    Operation,
    Text,
    columns_of_texts,
    names_column,
    names_in,
)
from board.core.expressions import parse
from board.errors import ExpressionError, did_you_mean
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


SaidAs = Mapping[str, Mapping[str, tuple[str, str]]]
"""By name, of what is said on the screen with its case folded, the name and the value that it is."""


def matching(
    rows: Sequence[Mapping[str, Any]],
    text: str,
    meanings: Meanings | None = None,
    said: SaidAs | None = None,
) -> list[int]:
    """Places of the rows for which an expression holds; what a row lacks, or has as None, is not known.
    meanings: other names for what the rows have. said: other texts for their values.

    Where a column holds texts and numbers, a value equals another as a number where both are numbers, and
    else as a text; it is larger than a number where it is one, and else that is not known. Raises
    ExpressionError.
    """
    offered = dict.fromkeys(name for row in rows for name in row if name not in _OTHERS)
    expression = parse(text, offered, meanings)
    if said:
        tree = _with_said(expression.tree, said)
        expression = replace(expression, tree=tree, names=names_in(tree))
    if not names_column(expression):
        raise ExpressionError(f"{NO_NAME}; {did_you_mean('', (*offered,))}", 0, len(text))
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


def _with_said(tree: Node, said: SaidAs) -> Node:
    """The tree with the values that are meant in place of what the screen says."""

    def meant(node: Operation, part: expression_tree.Column, text: Node) -> Operation:
        """A comparison of a column with one text."""
        value = text.value if isinstance(text, Text) else ""
        name, own = said[part.name].get(value.casefold(), (part.name, value))
        if not isinstance(text, Text) or (name, own) == (part.name, value):
            return replace(node, parts=(part, text))
        other = Text(text.start, text.end, own)
        return replace(node, parts=(replace(part, name=name), other))

    def remade(node: Node) -> Node:
        match node:
            case Operation(op="in", parts=(expression_tree.Column(name=name) as part, *texts)) if (
                name in said and texts
            ):
                equal = replace(node, op="==")
                return replace(node, op="or", parts=(*(meant(equal, part, one) for one in texts),))
            case Operation(
                op="==" | "!=" | "contains", parts=(expression_tree.Column(name=name) as part, text)
            ) if name in said:
                return meant(node, part, text)
            case Operation(parts=parts):
                return replace(node, parts=(*map(remade, parts),))
            case _:
                return node

    return remade(tree)


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
