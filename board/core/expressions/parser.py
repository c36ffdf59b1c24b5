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

from board.core.expressions import (
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
from board.core.suggestions import close_to, did_you_mean, no_column
from board.errors import ExpressionError

MOST_CHARACTERS: Final = 8000
_DEEPEST: Final = 60
_MOST_OPERATORS: Final = 200
NUMERIC: Final = ("abs", "log", "exp", "sqrt")
FUNCTIONS: Final = (*NUMERIC, "min", "max", "missing", "contains", "col")
KEYWORDS: Final = ("and", "or", "not", "in", "contains")
_VALUES: Final = {"true": 1.0, "false": 0.0, "inf": float("inf"), "nan": float("nan")}
_COMPARISONS: Final = ("==", "!=", "<=", ">=", "<", ">", "=")
_ARGUMENTS: Final = {"min": 2, "max": 2, "contains": 2}
# What other languages write, and what it is called here.
_MEANT: Final = {
    "=<": "<=",
    "=>": ">=",
    "<>": "!=",
    "===": "==",
    "&&": "and",
    "||": "or",
    "&": "and",
    "|": "or",
    "!": "not",
    "^": "**",
    "like": "contains",
    "ilike": "contains",
    "has": "contains",
    "includes": "contains",
    "matches": "contains",
    "is": "==",
    "equals": "==",
}
_NUMBER: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_NAME: Final = re.compile(r"[^\W\d][\w.]*")
_SIGN: Final = re.compile(r"[^\w\s\"'().,]+")


def parse(text: str, columns: Collection[str]) -> Expression:
    """Checks an expression over these columns. Raises ExpressionError with what can't be read."""
    if len(text) > MOST_CHARACTERS:
        reason = f"a filter has at most {MOST_CHARACTERS:,} characters"
        raise ExpressionError(reason, MOST_CHARACTERS, len(text))
    tree = _Parser(text, columns).whole()
    return Expression(text, names_in(tree), tree, (*columns,))


class _Parser:
    def __init__(self, text: str, columns: Collection[str]) -> None:
        self._text, self._columns = text, columns
        # The longest first: rewards.a-b is a column before it is a difference.
        plain = (name for name in columns if name and not re.search(r"[\s\"'()]|^[\d.]", name))
        self._plain = sorted(plain, key=len, reverse=True)
        self._at = self._depth = self._operators = 0

    def whole(self) -> Node:
        tree = self._or()
        if self._remaining_text():
            self._unexpected()
        return tree

    def _or(self) -> Node:
        return self._joined("or", self._and)

    def _and(self) -> Node:
        return self._joined("and", self._not)

    def _joined(self, op: str, part: Callable[[], Node]) -> Node:
        parts = [part()]
        while self._keyword(op):
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        return Joined(parts[0].start, parts[-1].end, op, tuple(parts))

    def _not(self) -> Node:
        start = self._here()
        if not self._keyword("not"):
            return self._comparison()
        operand = self._deeper(self._not)
        return Not(start, operand.end, operand)

    def _comparison(self) -> Node:
        left = self._sum()
        nodes: list[Node] = []
        while True:
            is_not = self._not_before_word()
            if self._keyword("contains"):
                nodes.append(self._negated(is_not, self._contained(self._as_column(left))))
            elif self._keyword("in"):
                nodes.append(self._negated(is_not, self._listed(self._as_column(left))))
            elif op := self._comparison_sign():
                left = self._as_column(left)
                right = self._compared_with(op)
                nodes.append(Compared(left.start, right.end, op, left, right))
                left = right
                continue
            break
        if len(nodes) < 2:
            return nodes[0] if nodes else left
        return Joined(nodes[0].start, nodes[-1].end, "and", tuple(nodes))

    def _not_before_word(self) -> bool:
        """Takes the `not` of `not in` and `not contains`."""
        place = self._at
        if self._keyword("not"):
            if self._sees("in") or self._sees("contains"):
                return True
            self._at = place
        return False

    @staticmethod
    def _negated(is_not: bool, node: Node) -> Node:
        return Not(node.start, node.end, node) if is_not else node

    def _as_column(self, node: Node) -> Node:
        """A quoted name of a column in front of a comparison is the column."""
        if isinstance(node, Text) and node.value in self._columns:
            return Column(node.start, node.end, node.value)
        return node

    def _comparison_sign(self) -> str:
        sign = _SIGN.match(self._text, self._here())
        if sign is not None and sign.group() in _MEANT:
            return ""
        op = next((op for op in _COMPARISONS if self._text.startswith(op, self._at)), "")
        self._at += len(op)
        self._count(bool(op))
        return "==" if op == "=" else op

    def _contained(self, left: Node) -> Node:
        text = self._value(stop="")
        if text is None:
            self._fail('contains needs a text, such as contains "I think"', self._at)
        value = text.value if isinstance(text, Text) else self._text[text.start : text.end]
        return Contains(left.start, text.end, left, value)

    def _listed(self, left: Node) -> Node:
        opened = self._here()
        closing = {"(": ")", "[": "]"}.get(self._text[opened : opened + 1])
        if closing is None:
            self._fail("`in` needs a list in brackets, such as in (math, code)", opened)
        self._at += 1
        values: list[Number | Text] = []
        while not self._takes(closing):
            value = self._value(stop=f",{closing}")
            if value is None:
                self._fail("a list of values is not closed", opened, opened + 1)
            values.append(value)
            if not self._takes(",") and not self._sees_sign(closing):
                self._fail("values of a list are separated by commas", self._at)
        return OneOf(left.start, self._at, left, tuple(values))

    def _value(self, stop: str) -> Number | Text | None:
        """A text in quotes or without, or a number; None where there is none."""
        start = self._here()
        if self._text[start : start + 1] in ("'", '"'):
            return self._quoted()
        end = self._bare_end(stop)
        raw = self._text[start:end]
        if not raw:
            return None
        self._at = end
        sign = -1.0 if raw.startswith("-") else 1.0
        if _NUMBER.fullmatch(raw.removeprefix("-")):
            return Number(start, end, sign * float(raw.removeprefix("-")))
        return Text(start, end, raw, is_bare=True)

    def _bare_end(self, stop: str) -> int:
        """Where a text without quotes ends: at a space, a quote, a sign or a bracket it did not open."""
        place, opened = self._at, 0
        while place < len(self._text):
            letter = self._text[place]
            if letter.isspace() or letter in "\"'=<>" or (letter in stop and not opened):
                break
            opened += (letter == "(") - (letter == ")")
            if opened < 0:
                break
            place += 1
        return place

    def _compared_with(self, op: str) -> Node:
        """The right side of a comparison; of == and != it may be a text without quotes."""
        start = self._here()
        end = self._bare_end("")
        try:
            result = self._sum()
            if op not in ("==", "!=") or self._at >= end:
                return result
        except ExpressionError:
            if op not in ("==", "!=") or end == start:
                raise
        self._at = end
        return Text(start, end, self._text[start:end], is_bare=True)

    def _sum(self) -> Node:
        return self._left_to_right(("+", "-"), self._term)

    def _term(self) -> Node:
        return self._left_to_right(("*", "//", "/", "%"), self._signed)

    def _left_to_right(self, signs: tuple[str, ...], part: Callable[[], Node]) -> Node:
        left = part()
        while op := next((sign for sign in signs if self._sees_sign(sign)), ""):
            self._at += len(op)
            self._count()
            right = part()
            left = Arithmetic(left.start, right.end, op, left, right)
        return left

    def _signed(self) -> Node:
        start = self._here()
        if self._takes("-"):
            operand = self._deeper(self._signed)
            return Negative(start, operand.end, operand)
        if self._takes("+"):
            return self._deeper(self._signed)
        base = self._atom()
        if self._takes("**"):
            power = self._deeper(self._signed)
            return Arithmetic(base.start, power.end, "**", base, power)
        return base

    def _atom(self) -> Node:
        start = self._here()
        if self._takes("("):
            inner = self._deeper(self._or)
            if not self._takes(")"):
                self._not_closed(start)
            return inner
        if self._text[start : start + 1] in ("'", '"'):
            return self._quoted()
        column = self._column()
        if column is not None:
            return column
        if number := _NUMBER.match(self._text, start):
            self._at = number.end()
            return Number(start, self._at, float(number.group()))
        return self._named()

    def _column(self) -> Column | None:
        start = self._here()
        for name in self._plain:
            end = start + len(name)
            if self._text.startswith(name, start) and not re.match(r"[\w.]", self._text[end:]):
                if name in FUNCTIONS and self._text[end:].lstrip().startswith("("):
                    continue
                self._at = end
                return Column(start, end, name)
        return None

    def _named(self) -> Node:
        """A function, or a word for a number."""
        start = self._here()
        name = _NAME.match(self._text, start)
        word = name.group() if name else ""
        if name is None or (word.lower() in KEYWORDS and word not in FUNCTIONS):
            self._unexpected()
        self._at = name.end()
        if self._sees_sign("("):
            return self._called(word, start)
        if word.lower() in _VALUES:
            return Number(start, self._at, _VALUES[word.lower()])
        raise no_column(word, self._columns, start)

    def _called(self, name: str, start: int) -> Node:
        if name not in FUNCTIONS:
            hint = did_you_mean(name, FUNCTIONS)
            self._fail(
                f"there is no function {name}; {hint}", start, self._at, close_to(name, FUNCTIONS)
            )
        opened = self._at
        self._takes("(")
        arguments = [self._deeper(self._or)]
        while self._takes(","):
            arguments.append(self._deeper(self._or))
        if not self._takes(")"):
            self._not_closed(opened)
        expected = _ARGUMENTS.get(name, 1)
        if len(arguments) != expected:
            values = "1 value" if expected == 1 else f"{expected} values"
            self._fail(f"{name} takes {values}, not {len(arguments)}", start, self._at)
        last = arguments[-1]
        if name not in ("col", "contains"):
            return Call(start, self._at, name, tuple(arguments))
        if not isinstance(last, Text):
            self._fail(f"{name} needs a text in quotes", last.start, last.end)
        if name == "contains":
            return Contains(start, self._at, self._as_column(arguments[0]), last.value)
        if last.value not in self._columns:
            raise no_column(last.value, self._columns, last.start, last.end)
        return Column(start, self._at, last.value)

    def _quoted(self) -> Text:
        start = self._at
        quote = self._text[start]
        match = re.compile(f"{quote}((?:[^{quote}]|{quote}{quote})*){quote}").match(
            self._text, start
        )
        if match is None:
            self._fail(f"the text is not closed: {quote} is missing", start, len(self._text))
        self._at = match.end()
        return Text(start, self._at, match.group(1).replace(quote * 2, quote))

    def _here(self) -> int:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at

    def _remaining_text(self) -> str:
        return self._text[self._here() :]

    def _sees(self, word: str) -> bool:
        match = _NAME.match(self._text, self._here())
        return match is not None and match.group().lower() == word

    def _keyword(self, word: str) -> bool:
        if self._sees(word):
            self._at += len(word)
            return True
        return False

    def _sees_sign(self, sign: str) -> bool:
        is_there = self._text.startswith(sign, self._here())
        return is_there and not (sign == "*" and self._text.startswith("**", self._at))

    def _takes(self, sign: str) -> bool:
        if self._sees_sign(sign):
            self._at += len(sign)
            return True
        return False

    def _count(self, is_operator: bool = True) -> None:
        self._operators += is_operator
        if self._operators > _MOST_OPERATORS:
            self._fail(f"more than {_MOST_OPERATORS} operators", self._at)

    def _deeper(self, part: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._fail(f"nested more than {_DEEPEST} deep", self._at)
        result = part()
        self._depth -= 1
        return result

    def _not_closed(self, opened: int) -> NoReturn:
        if self._remaining_text():
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
        hint = (
            f"did you mean {meant}?" if meant else "expected a comparison, `and`, `or` or the end"
        )
        self._fail(f"{word[:40]!r} is unexpected; {hint}", start, start + len(word), meant)

    def _fail(self, reason: str, start: int, end: int | None = None, instead: str = "") -> NoReturn:
        raise ExpressionError(reason, start, start if end is None else end, instead)
