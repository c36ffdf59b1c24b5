"""The tree of a filter or a metric: what its parser makes and what its evaluation walks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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
class Arithmetic(Node):
    """op: + - * / // % **."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Negative(Node):
    """A number with a minus in front of it."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Not(Node):
    """The contrary."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Joined(Node):
    """op: and, or."""

    op: str
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Compared(Node):
    """op: == != < <= > >=."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class OneOf(Node):
    """Whether a value is in a list."""

    left: Node
    values: tuple[Number | Text, ...]


@dataclass(frozen=True, slots=True)
class Contains(Node):
    """Whether a text stands in another one, whatever the case."""

    left: Node
    text: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of numbers, or `missing` of anything."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. names: the columns it needs."""

    text: str
    names: tuple[str, ...]
    tree: Node


def names_in(node: Node) -> tuple[str, ...]:
    """The columns of a tree, each once."""
    return tuple(dict.fromkeys(_names(node)))


def _names(node: Node) -> Iterator[str]:
    match node:
        case Column(name=name):
            yield name
        case Arithmetic(left=left, right=right) | Compared(left=left, right=right):
            yield from _names(left)
            yield from _names(right)
        case Negative(operand=operand) | Not(operand=operand):
            yield from _names(operand)
        case OneOf(left=left) | Contains(left=left):
            yield from _names(left)
        case Joined(parts=parts) | Call(arguments=parts):
            for part in parts:
                yield from _names(part)
        case _:
            return
