"""A small language for metrics and filters: arithmetic, comparisons, and, or, not over columns.

An expression is read with Python's own parser and then walked node by node over whole columns; nothing
is ever evaluated as Python. What is not named here is refused, so that there is nothing to escape
from: no attributes but dotted column names, no calls but FUNCTIONS, no subscripts, no comprehensions.

Missing values stay missing through all of it, `not` included: what is not known is neither true nor
false, as in SQL (Kleene's three values).
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.errors import ChoiceError

MOST_CHARACTERS: Final = 2000
Column = npt.NDArray[Any]
"""float64 with NaN where missing, or objects: texts, None where missing."""

_ARITHMETIC: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_COMPARISONS: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_NUMERIC: Final[dict[str, Callable[[Any], Any]]] = {
    "abs": np.abs,
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
}
FUNCTIONS: Final = (*_NUMERIC, "min", "max", "missing", "contains", "col")
_FORM: Final = (
    "expected columns, numbers, 'texts', + - * / // % **, == != < <= > >=, in (..), and, or, not, and "
    f"{', '.join(FUNCTIONS)}"
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. names: the columns it needs."""

    text: str
    names: tuple[str, ...]
    tree: ast.expr


def parse(text: str) -> Expression:
    """Checks an expression. `rewards.correct` is a column, col("odd name") one of any name; and, or,
    not and in are Python's. Raises ChoiceError with what can't be used.
    """
    if len(text) > MOST_CHARACTERS:
        raise ChoiceError(f"the expression has more than {MOST_CHARACTERS} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        names = dict.fromkeys(_names(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ChoiceError(f"{text[:60]!r} can't be read; {_FORM}") from None
    return Expression(text, tuple(names), tree)


def _names(node: ast.expr) -> list[str]:
    """The columns of a checked node. Raises ChoiceError for a node that the language does not have."""
    match node:
        case ast.Constant(value=value) if isinstance(value, int | float | str):
            return []
        case ast.Name() | ast.Attribute():
            return [_dotted(node)]
        case ast.BinOp(left=left, right=right) if type(node.op) in _ARITHMETIC:
            return [*_names(left), *_names(right)]
        case ast.UnaryOp(operand=operand) if isinstance(node.op, ast.Not | ast.USub | ast.UAdd):
            return _names(operand)
        case ast.BoolOp(values=values):
            return [name for value in values for name in _names(value)]
        case ast.Compare():
            return _names_compared(node)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in FUNCTIONS:
            return _names_called(name, args)
        case _:
            raise ChoiceError(f"{ast.unparse(node)[:60]!r} can't be used here; {_FORM}")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise ChoiceError(f"{ast.unparse(node)[:60]!r} is no column; {_FORM}")


def _names_compared(node: ast.Compare) -> list[str]:
    found = _names(node.left)
    for op, right in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            values = right.elts if isinstance(right, ast.Tuple | ast.List) else None
            if values is None or not all(isinstance(value, ast.Constant) for value in values):
                raise ChoiceError(
                    "after `in` stands a list of values in brackets: env in ('a', 'b')"
                )
        elif type(op) in _COMPARISONS:
            found += _names(right)
        else:
            raise ChoiceError(f"{ast.unparse(node)[:60]!r} can't be used here; {_FORM}")
    return found


def _names_called(name: str, args: list[ast.expr]) -> list[str]:
    counts = {"col": 1, "missing": 1, "contains": 2, "min": 2, "max": 2}
    if len(args) != counts.get(name, 1):
        raise ChoiceError(f"{name} takes {counts.get(name, 1)} values, not {len(args)}")
    if name == "col":
        return [_text(args[0], "col")]
    if name == "contains":
        _text(args[1], "contains")
        return _names(args[0])
    return [column for arg in args for column in _names(arg)]


def _text(node: ast.expr, function: str) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ChoiceError(f"{function} needs a text in quotes")


def evaluate(expression: Expression, column: Callable[[str], Column]) -> Column:
    """The value of an expression in every row, [n]; truth is 1, falsehood 0, not known NaN.

    column: gives a column by its name, once for each of expression.names. Raises ChoiceError where a
    text is calculated with or compared with a number.
    """
    columns = {name: column(name) for name in expression.names}
    size = len(next(iter(columns.values()))) if columns else 1
    with np.errstate(all="ignore"):
        found = _value(expression.tree, columns)
    return np.broadcast_to(found, (size,)) if np.ndim(found) == 0 else found


def _value(node: ast.expr, columns: dict[str, Column]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value if isinstance(value, str) else np.float64(value)  # type: ignore[arg-type] # checked by parse
        case ast.Name() | ast.Attribute():
            return columns[_dotted(node)]
        case ast.BinOp(left=left, op=op, right=right):
            sides = (_number(_value(side, columns), side) for side in (left, right))
            return _ARITHMETIC[type(op)](*sides)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return 1.0 - _truth(_number(_value(operand, columns), operand))
        case ast.UnaryOp(op=op, operand=operand):
            value = _number(_value(operand, columns), operand)
            return -value if isinstance(op, ast.USub) else value
        case ast.BoolOp(op=op, values=values):
            return _joined(op, [_truth(_number(_value(v, columns), v)) for v in values])
        case ast.Compare():
            return _compared(node, columns)
        case ast.Call(func=ast.Name(id=name), args=args):
            return _called(name, args, columns)
        case _:
            raise AssertionError("parse lets nothing else through")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or getattr(value, "dtype", None) == np.dtype(object)


def _number(value: Any, node: ast.expr) -> Any:
    if _is_text(value):
        raise ChoiceError(f"{ast.unparse(node)[:60]} is text, and a number is needed")
    return value


def _truth(value: Any) -> Any:
    return _told(value != 0, np.isnan(value))


def _told(holds: Any, unknown: Any) -> Any:
    """1 where it holds and 0 where not, NaN where that is not known."""
    return np.where(unknown, np.nan, holds) if np.any(unknown) else holds.astype(np.float64)


def _joined(op: ast.boolop, parts: list[Any]) -> Any:
    """Kleene's and, or: one false (true) part decides, whatever else is not known."""
    decides = 0.0 if isinstance(op, ast.And) else 1.0
    decided, unknown = np.False_, np.False_
    for part in parts:
        decided, unknown = decided | (part == decides), unknown | np.isnan(part)
    return _told(decided if decides else ~decided, unknown & ~decided)


def _compared(node: ast.Compare, columns: dict[str, Column]) -> Any:
    parts: list[Any] = []
    left = _value(node.left, columns)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, ast.In | ast.NotIn):
            assert isinstance(right_node, ast.Tuple | ast.List)
            found = [_pair(ast.Eq(), left, _value(one, columns), node) for one in right_node.elts]
            inside = _joined(ast.Or(), found) if found else _pair(ast.NotEq(), left, left, node)
            parts.append(inside if isinstance(op, ast.In) else 1.0 - inside)
            continue
        right = _value(right_node, columns)
        parts.append(_pair(op, left, right, node))
        left = right
    return _joined(ast.And(), parts) if len(parts) > 1 else parts[0]


def _pair(op: ast.cmpop, left: Any, right: Any, node: ast.expr) -> Any:
    if _is_text(left) != _is_text(right):
        raise ChoiceError(f"{ast.unparse(node)[:60]} compares text with a number")
    if _is_text(left):
        if not isinstance(op, ast.Eq | ast.NotEq):
            raise ChoiceError(
                f"{ast.unparse(node)[:60]}: texts have no order; use ==, != or contains"
            )
        unknown = _no_text(left) | _no_text(right)
    else:
        unknown = np.isnan(left) | np.isnan(right)
    return _told(np.asarray(_COMPARISONS[type(op)](left, right), bool), unknown)


def _no_text(value: Any) -> Any:
    if isinstance(value, str):
        return np.False_
    return np.array([not isinstance(entry, str) for entry in value], bool)


def _called(name: str, args: list[ast.expr], columns: dict[str, Column]) -> Any:
    if name == "col":
        return columns[_text(args[0], "col")]
    value = _value(args[0], columns)
    if name == "missing":
        return (_no_text(value) if _is_text(value) else np.isnan(value)).astype(np.float64)
    if name == "contains":
        return _contains(value, _text(args[1], "contains"), args[0])
    value = _number(value, args[0])
    if name in _NUMERIC:
        return _NUMERIC[name](value)
    other = _number(_value(args[1], columns), args[1])
    return np.minimum(value, other) if name == "min" else np.maximum(value, other)


def _contains(value: Any, text: str, node: ast.expr) -> Any:
    if not _is_text(value):
        raise ChoiceError(f"{ast.unparse(node)[:60]} holds numbers, which contain no text")
    wanted = text.casefold()
    entries = [value] if isinstance(value, str) else value
    return np.array(
        [
            float(wanted in entry.casefold()) if isinstance(entry, str) else np.nan
            for entry in entries
        ]
    )
