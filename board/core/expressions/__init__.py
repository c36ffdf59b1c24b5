"""The tree of a filter or a metric: what its parser makes and what its evaluation walks."""

from __future__ import annotations

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
    """Whether a text occurs in another one, whatever the case."""

    left: Node
    text: str


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of numbers, or `missing` of anything."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. names: the columns it needs, of those that it could use (offered)."""

    text: str
    names: tuple[str, ...]
    tree: Node
    offered: tuple[str, ...]


def names_in(node: Node) -> tuple[str, ...]:
    """The columns of a tree, each once."""
    names: dict[str, None] = {}
    _collect(node, names, set())
    return tuple(names)


def _collect(node: Node, names: dict[str, None], seen: set[int]) -> None:
    """seen: ids of nodes that were visited; the middle of a chain of comparisons is there twice."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Column):
        names[node.name] = None
    for part in _parts(node):
        _collect(part, names, seen)


def _parts(node: Node) -> tuple[Node, ...]:
    match node:
        case Arithmetic(left=left, right=right) | Compared(left=left, right=right):
            return left, right
        case Negative(operand=operand) | Not(operand=operand):
            return (operand,)
        case OneOf(left=left) | Contains(left=left):
            return (left,)
        case Joined(parts=parts) | Call(arguments=parts):
            return parts
        case _:
            return ()
