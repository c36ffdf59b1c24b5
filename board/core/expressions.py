"""The value of a filter or a metric over whole columns: arithmetic, comparisons, and, or, not.

Nothing is ever evaluated as Python. Missing values stay missing through all of it, `not` included: what
is not known is neither true nor false, as in SQL (Kleene's three values).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.core.expression_tree import (
    Arithmetic,
    Call,
    Column,
    Compared,
    Contains,
    Expression,
    Joined,
    Negative,
    Node,
    Not,
    Number,
    OneOf,
    Text,
    names_in,
)
from board.core.suggestions import no_column
from board.errors import ExpressionError

Values = npt.NDArray[Any]
"""float64 with NaN where missing, or objects: texts, None where missing, UNREAD where not read yet."""


class _Unread:
    pass


UNREAD: Final = _Unread()
"""In the place of a text that is not read yet: what it decides is not known, missing(..) included."""

_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "**": np.power,
}
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": np.abs,
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "min": np.minimum,
    "max": np.maximum,
}
_TRUTHS: Final = {"true": 1.0, "false": 0.0}


def evaluate(expression: Expression, column: Callable[[str], Values]) -> Values:
    """The value of an expression in every row, [n]; truth is 1, falsehood 0, not known NaN.

    column: gives a column by its name, once for each of expression.names. Raises ExpressionError where
    texts and numbers are mixed, and where the whole is a text.
    """
    return evaluate_part(expression.tree, expression.text, column)


def evaluate_part(part: Node, text: str, column: Callable[[str], Values]) -> Values:
    """As evaluate, of a part of the expression that `text` is."""
    columns = {name: column(name) for name in names_in(part)}
    size = len(next(iter(columns.values()))) if columns else 1
    with np.errstate(all="ignore"):
        found = _Evaluation(text, columns).number(part)
    return np.broadcast_to(found, (size,)) if np.ndim(found) == 0 else found


class _Evaluation:
    def __init__(self, text: str, columns: dict[str, Values]) -> None:
        self._text, self._columns = text, columns

    def number(self, node: Node) -> Any:
        value = self._value(node)
        if _is_text(value):
            hint = f'compare it, such as {self._source(node)} == "..."'
            raise self._wrong(node, f"{self._source(node)} is text; {hint}")
        return value

    def _value(self, node: Node) -> Any:
        match node:
            case Number(value=value):
                return np.float64(value)
            case Text(value=value):
                return value
            case Column(name=name):
                return self._columns[name]
            case Arithmetic(op=op, left=left, right=right):
                return _ARITHMETIC[op](self.number(left), self.number(right))
            case Negative(operand=operand):
                return -self.number(operand)
            case Not(operand=operand):
                return 1.0 - _truth(self.number(operand))
            case Joined(op=op, parts=parts):
                return _joined(op, [_truth(self.number(part)) for part in parts])
            case Compared(op=op, left=left, right=right):
                return self._compared(op, left, right)
            case OneOf(left=left, values=values):
                found = [self._compared("==", left, value) for value in values]
                return _joined("or", found) if found else self._compared("!=", left, left)
            case Contains():
                return self._contains(node)
            case Call():
                return self._called(node)
            case _:
                raise AssertionError("the parser makes no other")

    def _called(self, node: Call) -> Any:
        if node.name != "missing":
            return _FUNCTIONS[node.name](*map(self.number, node.arguments))
        value = self._value(node.arguments[0])
        if not _is_text(value):
            return np.isnan(value).astype(np.float64)
        return _known(_no_text(value), _is_unread(value))

    def _compared(self, op: str, left_node: Node, right_node: Node) -> Any:
        left, right = self._value(left_node), self._value(right_node)
        if _is_text(left) != _is_text(right):
            left = self._as_other(left, left_node, right)
            right = self._as_other(right, right_node, left)
        if _is_text(left) != _is_text(right):
            one, other = (right_node, left_node) if _is_text(left) else (left_node, right_node)
            raise self._wrong(
                one, f"{self._source(one)} is a number, and {self._source(other)} is text"
            )
        if _is_text(left):
            if op not in ("==", "!="):
                reason = f"{self._source(left_node)} is text, which {op} can't compare"
                raise self._wrong(left_node, f"{reason}; use ==, != or contains")
            unknown = _no_text(left) | _no_text(right)
        else:
            unknown = np.isnan(left) | np.isnan(right)
        return _known(np.asarray(_COMPARISONS[op](left, right), bool), unknown)

    def _as_other(self, value: Any, node: Node, other: Any) -> Any:
        """What is written as a text beside numbers, or as a number beside texts, as one of those."""
        if isinstance(node, Text) and not _is_text(other):
            return self._number_of(node)
        if _is_text(other) and not isinstance(node, Text) and not names_in(node):
            return self._source(node)
        return value

    def _number_of(self, node: Text) -> Any:
        try:
            return np.float64(_TRUTHS.get(node.value.lower(), node.value))
        except ValueError:
            pass
        if node.is_bare:
            raise no_column(node.value, [*self._columns], node.start)
        raise self._wrong(node, f"a number is compared with the text {node.value[:40]!r}")

    def _contains(self, node: Contains) -> Any:
        value = self._value(node.left)
        if not _is_text(value):
            reason = f"{self._source(node.left)} is a number, which contains no text"
            raise self._wrong(node.left, f"{reason}; use == != < <= > >=")
        wanted = node.text.casefold()
        entries = [value] if isinstance(value, str) else value
        return np.array(
            [
                float(wanted in entry.casefold()) if isinstance(entry, str) else np.nan
                for entry in entries
            ]
        )

    def _source(self, node: Node) -> str:
        return self._text[node.start : node.end]

    @staticmethod
    def _wrong(node: Node, reason: str) -> ExpressionError:
        return ExpressionError(reason, node.start, node.end)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or getattr(value, "dtype", None) == np.dtype(object)


def _truth(value: Any) -> Any:
    return _known(value != 0, np.isnan(value))


def _known(holds: Any, unknown: Any) -> Any:
    """1 where it holds and 0 where not, NaN where that is not known."""
    return np.where(unknown, np.nan, holds) if np.any(unknown) else holds.astype(np.float64)


def _joined(op: str, parts: list[Any]) -> Any:
    """Kleene's and, or: one false (true) part decides, whatever else is not known."""
    decides = 0.0 if op == "and" else 1.0
    decided, unknown = np.False_, np.False_
    for part in parts:
        decided, unknown = decided | (part == decides), unknown | np.isnan(part)
    return _known(decided if decides else ~decided, unknown & ~decided)


def _no_text(value: Any) -> Any:
    if isinstance(value, str):
        return np.False_
    return np.array([not isinstance(entry, str) for entry in value], bool)


def _is_unread(value: Any) -> Any:
    if isinstance(value, str):
        return np.False_
    return np.array([entry is UNREAD for entry in value], bool)
