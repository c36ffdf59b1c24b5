"""The filter language of `--where`: COLUMN OP VALUE, joined by `and`, or an expression of
core.expressions. Nothing is ever evaluated as Python.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from board.core.expressions import Expression, parse
from board.errors import ChoiceError

_CONDITION: Final = re.compile(
    r"""\s*(?:"(?P<quoted_column>[^"]+)"|(?P<column>[^\s=!<>"']+))
        \s*(?P<op>==|!=|<=|>=|<|>|contains(?=[\s"']))
        \s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'=<>]+))\s*""",
    re.VERBOSE,
)
_AND: Final = re.compile(r"and\s", re.IGNORECASE)
_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FORM: Final = (
    "expected COLUMN OP VALUE, joined by `and`, with OP one of == != < <= > >= contains, "
    'e.g. reward < 0.5 and response contains "I think"'
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a column with a value as it was typed."""

    column: str
    op: str
    value: str


def parse_where(expression: str) -> tuple[Condition, ...]:
    """The conditions of an expression. Raises ChoiceError where it has another form."""
    conditions: list[Condition] = []
    position = 0
    while True:
        match = _CONDITION.match(expression, position)
        if match is None:
            raise ChoiceError(f"--where can't be read at {expression[position:][:40]!r}; {_FORM}")
        conditions.append(_condition(match))
        position = match.end()
        if position == len(expression):
            return tuple(conditions)
        joined = _AND.match(expression, position)
        if joined is None:
            raise ChoiceError(f"--where can't be read at {expression[position:][:40]!r}; {_FORM}")
        position = joined.end()


def parse_filter(text: str) -> tuple[Condition, ...] | Expression:
    """Conditions where the text is of that form, else an expression. Raises ChoiceError on neither."""
    try:
        return parse_where(text)
    except ChoiceError as error:
        try:
            return parse(text)
        except ChoiceError as other:
            raise ChoiceError(f"{error}; nor is it an expression: {other}") from None


def _condition(match: re.Match[str]) -> Condition:
    found = match.groupdict()
    value = next(found[kind] for kind in ("double", "single", "bare") if found[kind] is not None)
    return Condition(found["quoted_column"] or found["column"], found["op"], value)


def known_column(name: str, columns: Sequence[str]) -> str:
    """`name`. Raises ChoiceError, with the names that come close, when it is none of `columns`."""
    if name in columns:
        return name
    close = difflib.get_close_matches(name, columns, n=4, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are: {', '.join(columns)}"
    raise ChoiceError(f"the run has no column {name!r}; {hint}")


def matches(values: pd.Series[Any], condition: Condition) -> pd.Series[bool]:
    """Which entries meet the condition; missing ones never do.

    Raises ChoiceError when the operator or the value does not suit what the column holds.
    """
    recorded = values.notna()
    if pd.api.types.is_numeric_dtype(values.dtype):
        return recorded & _compare_numbers(values, condition)
    if condition.op == "contains":
        texts = values.astype(object).where(recorded, "").astype(str).str
        return recorded & texts.contains(condition.value, case=False, regex=False)
    if condition.op not in ("==", "!="):
        raise ChoiceError(
            f"{condition.column} holds text, which {condition.op} can't compare; "
            "use ==, != or contains"
        )
    equal = values.astype(object).astype(str) == condition.value
    return recorded & (equal if condition.op == "==" else ~equal)


def _compare_numbers(values: pd.Series[Any], condition: Condition) -> pd.Series[bool]:
    compare = _OPERATORS.get(condition.op)
    if compare is None:
        raise ChoiceError(
            f"{condition.column} holds numbers, which contain no text; use == != < <= > >="
        )
    try:
        number = float({"true": "1", "false": "0"}.get(condition.value.lower(), condition.value))
    except ValueError:
        raise ChoiceError(
            f"{condition.column} holds numbers, and {condition.value!r} is none"
        ) from None
    return compare(values.astype(float), number)
