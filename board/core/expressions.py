"""From the text of a filter or a metric to its tree; what can't be read is an error with its place.

    or:          and ("or" and)*
    and:         not ("and" not)*
    not:         "not" not | comparison
    comparison:  sum (("==" | "=" | "!=" | "<" | "<=" | ">" | ">=") sum)*
                 | sum ["not"] "contains" text | sum ["not"] "in" "(" value ("," value)* ")"
    sum, term, power: + -, * / // %, ** as in Python
    atom:        number | "text" | 'text' | column | function "(" or ("," or)* ")" | "(" or ")"

Texts have no escapes, so that a backslash is a backslash; a quote inside of its own kind is doubled.
After ==, != and contains, and in a list, a text may be written without quotes: env == swe-py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Final, NoReturn

from board.core.column_names import ColumnNames, Meanings
from board.core.expression_tree import (
    Column,
    Expression,
    Node,
    Number,
    Operation,
    Text,
    names_in,
)
from board.errors import ExpressionError, close_to, did_you_mean

_LONGEST: Final = 8000
_DEEPEST: Final = 60
_MOST_OPERATORS: Final = 200
COMPARISONS: Final = ("==", "!=", "<=", ">=", "<", ">")
FUNCTIONS: Final = ("abs", "log", "exp", "sqrt", "min", "max", "missing", "contains", "col")
KEYWORDS: Final = ("and", "or", "not", "in", "contains")
_VALUES: Final = {"true": 1.0, "false": 0.0, "inf": float("inf"), "nan": float("nan")}
RESERVED: Final = (*KEYWORDS, *_VALUES)
"""Words that are no names."""
_ARGUMENTS: Final = {"min": 2, "max": 2, "contains": 2}
# What other languages write, and what it is called here.
_MEANT: Final = {
    **dict.fromkeys(("like", "ilike", "has", "includes", "matches"), "contains"),
    **dict.fromkeys(("===", "is", "equals"), "=="),
    **dict.fromkeys(("&&", "&"), "and"),
    **dict.fromkeys(("||", "|"), "or"),
    "!": "not",
    "=<": "<=",
    "=>": ">=",
    "<>": "!=",
    "^": "**",
}
_NUMBER: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_NAME: Final = re.compile(r"[^\W\d][\w.]*")
_SIGN: Final = re.compile(r"[^\w\s\"'().,]+")


def parse(text: str, columns: Collection[str], meanings: Meanings | None = None) -> Expression:
    """Checks an expression over these columns. meanings: other names of theirs. Raises ExpressionError
    with what can't be read.
    """
    if len(text) > _LONGEST:
        raise ExpressionError(f"a filter has at most {_LONGEST:,} characters", _LONGEST, len(text))
    tree = tree_of(text, ColumnNames(columns, meanings or {}, RESERVED))
    return Expression(text, names_in(tree), tree, (*columns,), meanings or {})


def tree_of(text: str, names: ColumnNames) -> Node:
    """The tree of a text, by names with signs only where it can't be read without. Raises
    ExpressionError.
    """
    try:
        return _Parser(text, names).whole()
    except ExpressionError as error:
        try:
            return _Parser(text, names.with_signs).whole()
        except ExpressionError:
            raise error from None


class _Parser:
    """One method for each rule of the grammar; `_at` is the cursor."""

    def __init__(self, text: str, names: ColumnNames) -> None:
        self._text, self._names = text, names
        self._at = self._depth = self._operators = self._renamed = 0

    def whole(self) -> Node:
        tree = self._or()
        if self._here() < len(self._text):
            self._unexpected()
        return tree

    def _or(self) -> Node:
        return self._joined("or", lambda: self._joined("and", self._not))

    def _joined(self, op: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self._takes(op):
            parts.append(part())
        return self._all_of(op, parts)

    @staticmethod
    def _all_of(op: str, parts: list[Node]) -> Node:
        if len(parts) == 1:
            return parts[0]
        return Operation(parts[0].start, parts[-1].end, op, tuple(parts))

    def _not(self) -> Node:
        start = self._here()
        if not self._takes("not"):
            return self._comparison()
        operand = self._deeper(self._not)
        return Operation(start, operand.end, "not", (operand,))

    def _comparison(self) -> Node:
        left = self._sum()
        nodes: list[Node] = []
        while op := self._comparison_sign():
            left = self._as_column(left)
            right = self._compared_with(op)
            nodes.append(Operation(left.start, right.end, op, (left, right)))
            left = right
        place, is_not = self._at, self._takes("not")
        if self._takes("contains"):
            tested = self._contained(self._as_column(left))
        elif self._takes("in"):
            tested = self._listed(self._as_column(left))
        else:
            self._at = place
            return self._all_of("and", nodes or [left])
        nodes.append(Operation(tested.start, tested.end, "not", (tested,)) if is_not else tested)
        return self._all_of("and", nodes)

    def _as_column(self, node: Node) -> Node:
        """A quoted name of a column in front of a comparison is the column."""
        if isinstance(node, Text) and self._names.meant(node.value):
            name = self._names.column(node.value, node.start, node.end)
            return Column(node.start, node.end, name)
        return node

    def _comparison_sign(self) -> str:
        sign = _SIGN.match(self._text, self._here())
        if sign is not None and sign.group() in _MEANT:
            return ""
        op = self._operator((*COMPARISONS, "="))
        return "==" if op == "=" else op

    def _contained(self, left: Node) -> Node:
        text = self._quoted() or self._bare()
        if text is None:
            self._fail('contains needs a text, such as contains "I think"', self._at)
        return Operation(left.start, text.end, "contains", (left, text))

    def _listed(self, left: Node) -> Node:
        opened = self._here()
        closing = {"(": ")", "[": "]"}.get(self._text[opened : opened + 1])
        if closing is None:
            self._fail("`in` needs a list in brackets, such as in (math, code)", opened)
        self._at += 1
        parts = [left]
        while not self._takes(closing):
            value = self._value(stop=f",{closing}")
            if value is None:
                self._fail("a list of values is not closed", opened, opened + 1)
            parts.append(value)
            if not self._takes(",") and not self._sees(closing):
                self._fail("values of a list are separated by commas", self._at)
        return Operation(left.start, self._at, "in", tuple(parts))

    def _value(self, stop: str) -> Number | Text | None:
        """A text in quotes or without, or a number; None where there is none."""
        value = self._quoted() or self._bare(stop)
        if value and value.is_bare and _NUMBER.fullmatch(value.value.removeprefix("-")):
            return Number(value.start, value.end, float(value.value))
        return value

    def _bare(self, stop: str = "") -> Text | None:
        """A text without quotes: up to a space, a quote, a sign or a bracket that it did not open."""
        start, opened = self._here(), 0
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter.isspace() or letter in "\"'=<>" or (letter in stop and not opened):
                break
            opened += (letter == "(") - (letter == ")")
            if opened < 0:
                break
            self._at += 1
        raw = self._text[start : self._at]
        return Text(start, self._at, raw, is_bare=True) if raw else None

    def _compared_with(self, op: str) -> Node:
        """The right side of a comparison; of == and != it may be a text without quotes, and is where it
        could only be read by other names of columns than their own.
        """
        start, renamed = self._here(), self._renamed
        bare = self._bare() if op in ("==", "!=") else None
        self._at = start
        try:
            result = self._sum()
            is_text = bare and self._at == bare.end and self._renamed > renamed
            if bare is None or (self._at >= bare.end and not is_text):
                return result
        except ExpressionError:
            if bare is None:
                raise
        self._at = bare.end
        return bare

    def _sum(self) -> Node:
        return self._left_to_right(
            ("+", "-"), lambda: self._left_to_right(("*", "//", "/", "%"), self._signed)
        )

    def _left_to_right(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        left = part()
        while op := self._operator(signs):
            right = part()
            left = Operation(left.start, right.end, op, (left, right))
        return left

    def _signed(self) -> Node:
        start = self._here()
        if self._takes("-"):
            operand = self._deeper(self._signed)
            return Operation(start, operand.end, "-", (operand,))
        if self._takes("+"):
            return self._deeper(self._signed)
        base = self._atom()
        if self._takes("**"):
            power = self._deeper(self._signed)
            return Operation(base.start, power.end, "**", (base, power))
        return base

    def _atom(self) -> Node:
        start = self._here()
        if self._takes("("):
            inner = self._deeper(self._or)
            self._close(start)
            return inner
        if known := self._quoted() or self._column():
            return known
        if number := _NUMBER.match(self._text, start):
            self._at = number.end()
            return Number(start, self._at, float(number.group()))
        name = _NAME.match(self._text, start)
        word = name.group() if name else ""
        if name is None or (word.lower() in KEYWORDS and word not in FUNCTIONS):
            self._unexpected()
        self._at = name.end()
        if self._sees("("):
            return self._called(word, start)
        if word.lower() in _VALUES:
            return Number(start, self._at, _VALUES[word.lower()])
        return Column(start, self._at, self._names.column(word, start))

    def _column(self) -> Column | None:
        start = self._here()
        typed = self._names.typed_at(self._text, start)
        if typed is None:
            return None
        written, after = self._text[start : typed.end], self._text[typed.end :]
        if written in FUNCTIONS and after.lstrip().startswith("("):
            return None
        self._renamed += not typed.is_own
        self._at = typed.end
        return Column(start, typed.end, typed.column)

    def _called(self, name: str, start: int) -> Node:
        if name not in FUNCTIONS:
            reason = f"there is no function {name}; {did_you_mean(name, FUNCTIONS)}"
            self._fail(reason, start, self._at, close_to(name, FUNCTIONS))
        opened = self._at
        self._takes("(")
        arguments = [self._deeper(self._or)]
        while self._takes(","):
            arguments.append(self._deeper(self._or))
        self._close(opened)
        expected = _ARGUMENTS.get(name, 1)
        if len(arguments) != expected:
            values = "1 value" if expected == 1 else f"{expected} values"
            self._fail(f"{name} takes {values}, not {len(arguments)}", start, self._at)
        last = arguments[-1]
        if name in ("col", "contains") and not isinstance(last, Text):
            self._fail(f"{name} needs a text in quotes", last.start, last.end)
        if name == "contains":
            arguments[0] = self._as_column(arguments[0])
        if name != "col" or not isinstance(last, Text):
            return Operation(start, self._at, name, tuple(arguments))
        column = self._names.column(last.value, last.start, last.end)
        return Column(start, self._at, column)

    def _quoted(self) -> Text | None:
        start = self._here()
        quote = self._text[start : start + 1]
        if quote not in ("'", '"'):
            return None
        pattern = re.compile(f"{quote}((?:[^{quote}]|{quote}{quote})*){quote}")
        match = pattern.match(self._text, start)
        if match is None:
            self._fail(f"the text is not closed: {quote} is missing", start, len(self._text))
        self._at = match.end()
        return Text(start, self._at, match.group(1).replace(quote * 2, quote))

    def _here(self) -> int:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at

    def _sees(self, token: str) -> bool:
        """Whether a word, in any case, or a sign comes next."""
        if token.isalpha():
            match = _NAME.match(self._text, self._here())
            return match is not None and match.group().lower() == token
        is_there = self._text.startswith(token, self._here())
        return is_there and not (token == "*" and self._text.startswith("**", self._at))

    def _takes(self, token: str) -> bool:
        is_there = self._sees(token)
        self._at += len(token) * is_there
        return is_there

    def _operator(self, signs: tuple[str, ...]) -> str:
        """Takes the first of these signs that comes next; empty where none does."""
        op = next((sign for sign in signs if self._takes(sign)), "")
        self._operators += bool(op)
        if self._operators > _MOST_OPERATORS:
            self._fail(f"more than {_MOST_OPERATORS} operators", self._at)
        return op

    def _deeper(self, part: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"nested more than {_DEEPEST} deep", self._at)
        result = part()
        self._depth -= 1
        return result

    def _close(self, opened: int) -> None:
        if self._takes(")"):
            return
        if self._here() < len(self._text):
            self._unexpected()
        self._fail("the bracket is not closed", opened, opened + 1)

    def _unexpected(self) -> NoReturn:
        """Refuses what comes next, with what may have been meant."""
        start = self._here()
        match = _SIGN.match(self._text, start) or _NAME.match(self._text, start)
        word = match.group() if match else self._text[start : start + 1]
        if not word:
            self._fail("something is missing at the end: a column or a value", start)
        meant = _MEANT.get(word.lower()) or close_to(word, KEYWORDS)
        expected = "expected a comparison, `and`, `or` or the end"
        hint = f"did you mean {meant}?" if meant else expected
        self._fail(f"{word[:40]!r} is unexpected; {hint}", start, start + len(word), meant)

    def _fail(self, reason: str, start: int, end: int | None = None, instead: str = "") -> NoReturn:
        raise ExpressionError(reason, start, start if end is None else end, instead)
