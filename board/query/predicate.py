"""Expressions over rollouts as SQL: a filter is a predicate, an own metric a number.

Values are bound parameters. What is not recorded is NULL, and so is what can't be calculated (NaN):
SQL's `and`, `or` and `not` are those of the language. A division by zero is an infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.expression_tree import (
    NO_NAME,
    Column,
    Expression,
    Node,
    Number,
    Operation,
    Text,
    names_column,
    names_in,
    text_literal,
)
from board.core.expressions import COMPARISONS, parse
from board.core.metrics.headings import meanings
from board.errors import ExpressionError, no_column
from board.index import segments
from board.query.columns import NAN

if TYPE_CHECKING:
    from board.query.run_rows import RunRows

_NOT_OFFERED: Final = frozenset((*segments.LOCATION, segments.PART)) - {"line"}

_LARGEST_WHOLE: Final = 2.0**53
_LONGEST_SQL: Final = 1_000_000
"""Characters. A chain of comparisons and a modulo repeat their operands; a cause alone has 100,000."""
TRUTHS: Final = {"true": 1.0, "false": 0.0}
_FLAGS: Final = {**TRUTHS, "yes": 1.0, "no": 0.0}
"""What flags are compared with, as rows say it."""
# NaN is the largest number to DuckDB: a missing operand makes the result missing.
_FUNCTIONS: Final[Mapping[str, Callable[..., str]]] = {
    "abs": "abs({})".format,
    "log": "ln({})".format,
    "exp": "exp({})".format,
    "sqrt": "sqrt({})".format,
    "min": f"-greatest(-coalesce({{}}, {NAN}), -coalesce({{}}, {NAN}))".format,
    "max": f"greatest(coalesce({{}}, {NAN}), coalesce({{}}, {NAN}))".format,
}


def names_for(columns: Iterable[str]) -> tuple[str, ...]:
    """The names that an expression over the rollouts of a run with these columns can use."""
    offered = (name for name in columns if name not in _NOT_OFFERED)
    return tuple(dict.fromkeys((*offered, *segments.TEXT_NAMES)))


def parsed(columns: Iterable[str], text: str) -> Expression:
    """An expression over the rollouts of a run with these columns, by any name that the screen has for
    them. Raises ExpressionError.
    """
    names = names_for(columns)
    return parse(text, names, meanings(names))


@dataclass(frozen=True, slots=True)
class BoundSql:
    """SQL over the view of the rollouts. parameters: values by the names that it has for them."""

    sql: str
    parameters: Mapping[str, Any]


def predicate_of(rows: RunRows, expression: Expression, prefix: str = "where") -> BoundSql:
    """A BOOLEAN that is NULL where it is not known whether the expression holds.

    prefix: begins the names of its parameters. Raises ExpressionError where texts and numbers are mixed,
    where the whole is a text, and where it names no column: it would hold for all or for none.
    """
    if not names_column(expression):
        text, tree = expression.text, expression.tree
        sought = text_literal(tree.value if isinstance(tree, Text) else text.strip())
        reason = f"{NO_NAME}; to search the texts: {segments.ANY_TEXT} contains {sought}"
        raise ExpressionError(reason, 0, len(text))
    compiler = _Compiler(rows, expression, prefix)
    return compiler.bound(compiler.truth(expression.tree))


StepValues = Mapping[str, tuple[IntArray, FloatArray]]
"""Numbers of steps that are no columns of rollouts: by name the steps, and values, NaN not known."""


def number_of(
    rows: RunRows, expression: Expression, prefix: str = "own", of_steps: StepValues | None = None
) -> BoundSql:
    """A DOUBLE, NULL where the value is not known; otherwise as predicate_of. of_steps: numbers that the
    expression may use besides the columns.
    """
    compiler = _Compiler(rows, expression, prefix, of_steps or {})
    return compiler.bound(compiler.double(expression.tree))


class _Value(NamedTuple):
    """A part as SQL; "number": of any type that has numbers."""

    sql: str
    kind: Literal["text", "number", "double", "truth"]


class _Compiler:
    def __init__(
        self, rows: RunRows, expression: Expression, prefix: str, of_steps: StepValues | None = None
    ) -> None:
        self._of_steps = of_steps or {}
        self._rows, self._text, self._prefix = rows, expression.text, prefix
        self._offered, self._meanings = expression.offered, expression.meanings
        self._columns = {column.name: column for column in rows.columns}
        self._parameters: dict[str, Any] = {}
        self._values: dict[int, _Value] = {}

    def bound(self, sql: str) -> BoundSql:
        """The SQL with the parameters that are in it; DuckDB refuses others."""
        used = {n: value for n, value in self._parameters.items() if _parameter(n) in sql}
        return BoundSql(sql, used)

    def truth(self, node: Node) -> str:
        """The part as BOOLEAN: a number other than 0 is true."""
        value = self._no_text(node)
        return value.sql if value.kind == "truth" else f"({value.sql} <> 0)"

    def double(self, node: Node) -> str:
        """The part as DOUBLE."""
        value = self._no_text(node)
        return value.sql if value.kind == "double" else f"CAST({value.sql} AS DOUBLE)"

    def _no_text(self, node: Node) -> _Value:
        value = self._value(node)
        if value.kind == "text":
            hint = f'compare it, such as {self._source(node)} == "..."'
            raise self._wrong(node, f"{self._source(node)} is text; {hint}")
        return value

    def _value(self, node: Node) -> _Value:
        if id(node) not in self._values:
            value = self._values[id(node)] = self._compiled(node)
            if len(value.sql) > _LONGEST_SQL:
                raise self._wrong(node, "this is nested too deep")
        return self._values[id(node)]

    def _compiled(self, node: Node) -> _Value:
        match node:
            case Number(value=value):
                return _Value(self._bound(value), "number")
            case Text(value=value):
                return _Value(self._bound(value), "text")
            case Column(name=name):
                return self._column(name)
            case Operation(op=op, parts=parts):
                return self._operated(op, parts)
            case _:
                raise AssertionError("the parser makes no other")

    def _operated(self, op: str, parts: tuple[Node, ...]) -> _Value:
        first, *others = parts
        if op in ("and", "or"):
            return _Value(f"({f' {op} '.join(map(self.truth, parts))})", "truth")
        if op == "not":
            return _Value(f"(NOT {self.truth(first)})", "truth")
        if op == "missing":
            return _Value(f"({self._value(first).sql} IS NULL)", "truth")
        if op == "in":
            return _Value(self._one_of(first, others), "truth")
        if op == "contains":
            return _Value(self._contains(first, others[0]), "truth")
        if op in COMPARISONS:
            return _Value(self._compared(op, first, others[0]), "truth")
        numbers = [self.double(part) for part in parts]
        if op in _FUNCTIONS:
            return _known(_FUNCTIONS[op](*numbers))
        return _known(_calculated(op, *numbers)) if others else _Value(f"(-{numbers[0]})", "double")

    def _column(self, name: str) -> _Value:
        if name in segments.TEXT_NAMES:
            return _Value(self._rows.whole_text(name), "text")
        if name == "file":
            return _Value("path", "text")
        if name in self._of_steps:
            return self._of_step(name)
        column = self._columns[name]
        return _Value(self._rows.value(name), "text" if column.words else "number")

    def _of_step(self, name: str) -> _Value:
        steps, values = (f"{self._prefix}{len(self._parameters) + place}" for place in (0, 1))
        own_steps, own_values = self._of_steps[name]
        known = np.isfinite(own_values)
        self._parameters[steps] = own_steps[known].tolist()
        self._parameters[values] = own_values[known].tolist()
        table = (
            f"SELECT unnest({_parameter(steps)} BIGINT[])) AS own_step, "
            f"unnest({_parameter(values)} DOUBLE[])) AS step_value"
        )
        value = f"(SELECT any_value(step_value) FROM ({table}) WHERE own_step = step)"
        return _Value(value, "double")

    def _compared(self, op: str, left: Node, right: Node) -> str:
        one, other = self._comparable(left, right)
        if one.kind == "text" and op not in ("==", "!="):
            reason = f"{self._source(left)} is text, which {op} can't compare"
            raise self._wrong(left, f"{reason}; use ==, != or contains")
        return f"({one.sql} {'=' if op == '==' else op} {other.sql})"

    def _comparable(self, left_node: Node, right_node: Node) -> tuple[_Value, _Value]:
        """Two texts, or two numbers."""
        left, right = self._value(left_node), self._value(right_node)
        if (left.kind == "text") != (right.kind == "text"):
            left = self._as_other(left, left_node, right)
            right = self._as_other(right, right_node, left, is_value=True)
        if (left.kind == "text") != (right.kind == "text"):
            is_left = left.kind == "text"
            one, other = (right_node, left_node) if is_left else (left_node, right_node)
            raise self._wrong(
                one, f"{self._source(one)} is a number, and {self._source(other)} is text"
            )
        if left.kind == right.kind == "text":
            return left, right
        return _number(left), _number(right)

    def _as_other(
        self, value: _Value, node: Node, other: _Value, *, is_value: bool = False
    ) -> _Value:
        """What is written as a text beside numbers, or as a number beside texts, as one of those.

        is_value: it stands where a value does: the name of a column of numbers is the text itself there.
        """
        if isinstance(node, Text) and other.kind != "text":
            is_name = node.is_bare and node.value.lower() not in _FLAGS
            meant = self._meanings.get(node.value.casefold(), ()) if is_name else ()
            if len(meant) == 1:
                return self._column(meant[0])
            return _Value(self._bound(self._number_in(node)), "number")
        is_number = not isinstance(node, Text) and not names_in(node)
        is_name = is_value and isinstance(node, Column) and value.kind != "text"
        if other.kind == "text" and (is_number or is_name):
            return _Value(self._bound(self._source(node)), "text")
        return value

    def _number_in(self, node: Text) -> float:
        try:
            return float(_FLAGS.get(node.value.lower(), node.value))
        except ValueError:
            pass
        if node.is_bare and node.value not in self._offered:
            raise no_column(node.value, self._offered, node.start)
        raise self._wrong(node, f"a number is compared with the text {node.value[:40]!r}")

    def _one_of(self, left: Node, values: Sequence[Node]) -> str:
        if not values:
            return f"(CASE WHEN {self._value(left).sql} IS NOT NULL THEN false END)"
        pairs = [self._comparable(left, value) for value in values]
        one, others = pairs[0][0], ", ".join(other.sql for _, other in pairs)
        if all(other == one for other, _ in pairs):
            return f"({one.sql} IN ({others}))"
        return f"({' OR '.join(f'{one.sql} = {other.sql}' for one, other in pairs)})"

    def _contains(self, node: Node, text: Node) -> str:
        value = self._value(node)
        if value.kind != "text":
            reason = f"{self._source(node)} is a number, which contains no text"
            raise self._wrong(node, f"{reason}; use == != < <= > >=")
        return f"contains(lower({value.sql}), lower({self._value(text).sql}))"

    def _bound(self, value: float | str) -> str:
        """A parameter with this value; NaN is not known."""
        if value != value:
            return "CAST(NULL AS DOUBLE)"
        name = f"{self._prefix}{len(self._parameters)}"
        if isinstance(value, str):
            self._parameters[name] = value.encode("utf-8", "replace").decode()
            return f"{_parameter(name)} VARCHAR)"
        # Beside a column of whole numbers a whole one: row groups are pruned by it.
        is_whole = float(value).is_integer() and abs(value) < _LARGEST_WHOLE
        self._parameters[name] = int(value) if is_whole else value
        return f"{_parameter(name)} {'BIGINT' if is_whole else 'DOUBLE'})"

    def _source(self, node: Node) -> str:
        return self._text[node.start : node.end]

    @staticmethod
    def _wrong(node: Node, reason: str) -> ExpressionError:
        return ExpressionError(reason, node.start, node.end)


def _parameter(name: str) -> str:
    return f"CAST(${name} AS"


def _number(value: _Value) -> _Value:
    """A truth as 1 or 0."""
    return _Value(f"CAST({value.sql} AS DOUBLE)", "double") if value.kind == "truth" else value


def _known(sql: str) -> _Value:
    """NULL for NaN."""
    return _Value(f"nullif({sql}, {NAN})", "double")


def _calculated(op: str, left: str, right: str) -> str:
    """SQL that calculates as Python does, but a division by zero is not an error."""
    if op == "**":
        return f"pow({left}, {right})"
    if op == "%":
        return _modulo(left, right)
    if op == "//":
        whole = f"round(({left} - {_modulo(left, right)}) / {right})"
        return f"(CASE WHEN {right} = 0 THEN {left} / {right} ELSE {whole} END)"
    return f"({left} {op} {right})"


def _modulo(left: str, right: str) -> str:
    """The remainder, with the sign of the divisor."""
    remainder = f"({left} % {right})"  # fmod() of DuckDB is another one
    differs = f"{remainder} <> 0 AND ({remainder} < 0) <> ({right} < 0)"
    return f"(CASE WHEN {differs} THEN {remainder} + {right} ELSE {remainder} END)"
