"""What an expression is read as: a tree of numbers, texts, columns and operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from board.core.column_names import Meanings


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression. start, end: its characters in the text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A number as it is written."""

    value: float


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A text. is_bare: it has no quotes, and so may have been meant as a column."""

    value: str
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Column(Node):
    """A column by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Operation(Node):
    """op: an operator of the language ("-" of one part: a minus in front of it), or a function's name.

    parts: its operands or arguments; of `in` the value and then the list, of `contains` two texts.
    """

    op: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. names: the columns it needs, of those that it could use (offered), by what
    names besides (meanings).
    """

    text: str
    names: tuple[str, ...]
    tree: Node
    offered: tuple[str, ...]
    meanings: Meanings


def names_in(node: Node) -> tuple[str, ...]:
    """The columns of a tree, each once."""
    columns = (part.name for part in _parts(node) if isinstance(part, Column))
    return tuple(dict.fromkeys(columns))


def _parts(node: Node) -> Iterator[Node]:
    """All nodes of a tree from left to right, each operation once."""
    nodes, seen = [node], set[int]()
    while nodes:
        part = nodes.pop()
        if isinstance(part, Operation):
            if id(part) in seen:
                continue
            seen.add(id(part))  # the middle of a chain of comparisons is there twice
            nodes += reversed(part.parts)
        yield part


def text_literal(text: str) -> str:
    """A text as an expression has it: without escapes, a quote doubled."""
    return '"' + text.replace('"', '""') + '"'


NO_NAME: Final = "this names no column"


def names_column(expression: Expression) -> bool:
    """Whether it says anything about what it is asked of: 7-4=3 is the same for all."""
    return bool(expression.names or columns_of_texts(expression))


def columns_of_texts(expression: Expression) -> tuple[str, ...]:
    """The columns that texts without quotes may mean; they do where they are compared with numbers."""
    texts = (part for part in _parts(expression.tree) if isinstance(part, Text) and part.is_bare)
    meant = (name for text in texts for name in expression.meanings.get(text.value.casefold(), ()))
    return tuple(dict.fromkeys(meant))
