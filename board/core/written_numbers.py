"""Numbers as people write them in reports: 0.938, .938, 93.8 %, 60 000, 60k, 6.6 × 10², 30/32, > 600."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

_SPACE: Final = "[ \u00a0\u2009\u202f]"
_UPPER: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_LARGE: Final = {"k": 3, "K": 3, "M": 6, "million": 6, "thousand": 3, "G": 9, "B": 9, "billion": 9}
_MORE: Final = (">", "≥", ">=", "more than", "at least")
_LESS: Final = ("<", "≤", "<=", "less than", "fewer than", "at most")
_BOUND: Final = "|".join(sorted((*_MORE, *_LESS), key=len, reverse=True))
_DIGITS: Final = (
    rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,3}}(?:{_SPACE}\d{{3}})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
)
_POWER: Final = rf"{_SPACE}?[×x·*]{_SPACE}?10(?:\^?([-−+]?\d+)|([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))"
_NUMBER: Final = re.compile(
    rf"(?:(?P<bound>{_BOUND})\s?)?(?<![\w.,/])(?P<sign>[-+−]?)(?P<digits>{_DIGITS})"
    rf"(?:(?P<e>[eE][-+]?\d+)|{_POWER}|{_SPACE}?(?P<large>{'|'.join(_LARGE)})\b)?"
    rf"(?:{_SPACE}?/{_SPACE}?(?P<of>[1-9]\d*)(?![\w/.]))?"
    r"(?!(?!(?:s|ms|x|nats|tokens)\b)\w|[.,/]\d)"
    rf"(?:{_SPACE}?±{_SPACE}?(?P<error>\d*\.?\d+))?"
    rf"(?:{_SPACE}?(?P<percent>%|percent\b|per{_SPACE}cent\b|percentage{_SPACE}points?\b))?"
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written. value: without the sign of percent; digits: behind the point, negative
    for 1e3. of: what it is divided by, as in 30/32; 0: nothing. bound: > or <, where it only says that;
    error: what stands after ±.
    """

    text: str
    value: Decimal
    is_percent: bool
    of: int = 0
    bound: str = ""
    error: Decimal | None = None

    @property
    def digits(self) -> int:
        """Digits behind the point."""
        return -int(self.value.as_tuple().exponent)

    def agrees(self, value: float) -> bool:
        """Whether a value, rounded to the digits written, is this number, or lies on its side of it."""
        if self.of:
            return abs(Fraction(value) - Fraction(self.value) / self.of) <= Fraction(1, 10**6)
        exact = Decimal(value) * 100 if self.is_percent else Decimal(value)
        if self.bound:
            return exact >= self.value if self.bound == ">" else exact <= self.value
        return _is_rounded(exact, self.value)

    def error_agrees(self, value: float) -> bool:
        """Whether what stands after ± is that value, rounded to its digits."""
        exact = Decimal(value) * 100 if self.is_percent else Decimal(value)
        return self.error is not None and _is_rounded(exact, self.error)


def _is_rounded(exact: Decimal, written: Decimal) -> bool:
    half = Decimal(1).scaleb(int(written.as_tuple().exponent)) / 2
    # A value half way between two numbers may be rounded to either.
    return abs(exact - written) <= half * (1 + Decimal("1e-9"))


def numbers_in(text: str) -> Iterator[tuple[Number, int, int]]:
    """The numbers of a text, each with where it begins and ends."""
    for match in _NUMBER.finditer(text):
        yield _number(match), match.start(), match.end()


def _number(match: re.Match[str]) -> Number:
    plain = re.sub(rf",|{_SPACE}", "", match["digits"])
    power = match["e"] or ""
    exponent = int(power[1:]) if power else _power(match)
    sign = "-" if match["sign"] in ("-", "−") else ""
    value = Decimal(f"{sign}{plain}").scaleb(exponent)
    bound = match["bound"]
    side = "" if bound is None else ">" if bound in _MORE else "<"
    error = None if match["error"] is None else Decimal(match["error"])
    return Number(match[0], value, match["percent"] is not None, int(match["of"] or 0), side, error)


def _power(match: re.Match[str]) -> int:
    plain, upper = match[5], match[6]
    if plain:
        return int(plain.replace("−", "-"))
    if upper:
        return int(upper.translate(_UPPER))
    return _LARGE.get(match["large"] or "", 0)
