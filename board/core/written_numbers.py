"""Numbers as people write them in reports: 0.938, .938, 93.8 %, 60 000, 60k, 6.6 × 10², 30/32, > 600; and
in the languages that have a decimal comma, 0,938 and 1.234,5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

_SPACE: Final = "[ \u00a0\u2009\u202f]"
_DASHES: Final = "-−–‐‑﹣－"
"""Stand for a minus where they stand right before a number, and nothing right before them."""
_UPPER: Final = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_LARGE: Final = {"k": 3, "K": 3, "M": 6, "million": 6, "thousand": 3, "G": 9, "B": 9, "billion": 9}
_BOUNDS: Final = {
    **dict.fromkeys((">", "more than", "above"), ">"),
    **dict.fromkeys(("≥", ">=", "at least", "no less than", "no fewer than"), ">="),
    **dict.fromkeys(("<", "less than", "fewer than", "below", "under"), "<"),
    **dict.fromkeys(("≤", "<=", "at most", "no more than", "up to"), "<="),
}
_BOUND: Final = "|".join(
    rf"\b{words}\b" if words[0].isalpha() else words
    for words in sorted(_BOUNDS, key=len, reverse=True)
)
_DIGITS: Final = "|".join(
    (
        r"(?P<dots>[1-9]\d{0,2}(?:(?:\.\d{3})+,\d+|(?:\.\d{3}){2,}))",
        # Three digits behind one comma are thousands, but behind a 0, or behind more than three digits.
        r"(?P<comma>(?:0|\d{4,}),\d+|\d+,(?:\d{1,2}|\d{4,}))(?!\d)",
        rf"(?P<spaces>[1-9]\d{{0,2}}(?:(?:{_SPACE}\d{{3}})+|(?:['’]\d{{3}})+)(?!\d)(?:[.,]\d+)?)",
        r"(?P<plain>(?:[1-9]\d{0,2}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)",
    )
)
_EXPONENT: Final = rf"10(?:\^?\{{?(?P<power>[{_DASHES}+]?\d+)\}}?|(?P<upper>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))"
_TIMES: Final = rf"{_SPACE}?(?:[×x·*]|\\times|\\cdot){_SPACE}?"
_OF: Final = rf"{_SPACE}?/{_SPACE}?|{_SPACE}(?:out{_SPACE})?of{_SPACE}(?:the{_SPACE})?"
_NUMBER: Final = re.compile(
    rf"(?:(?P<bound>{_BOUND})\s?)?(?<![\w.,/])(?P<sign>[{_DASHES}+]?)"
    rf"(?:(?P<alone>10(?:\^\{{?(?P<power0>[{_DASHES}+]?\d+)\}}?|(?P<upper0>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)))"
    rf"|(?P<digits>{_DIGITS})"
    rf"(?:(?P<e>[eE][{_DASHES}+]?\d+)|{_TIMES}{_EXPONENT}|{_SPACE}?(?P<large>{'|'.join(_LARGE)})\b)?)"
    rf"(?:(?:{_OF})(?P<of>[1-9]\d*)(?![\w/.]|,\d))?"
    rf"(?!(?!(?:s|ms|x|nats|tokens)\b)\w|[.,/’']\d|{_SPACE}?‰)"
    rf"(?:{_SPACE}?±{_SPACE}?(?P<error>\d*[.,]?\d+))?"
    rf"(?:{_SPACE}?(?P<percent>\\?%|percent\b|per{_SPACE}cent\b|percentage{_SPACE}points?\b))?"
)
_NEAR: Final = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written. value: without the sign of percent; digits: behind the point, negative
    for 1e3. of: what it is divided by, as in 30/32; 0: nothing. bound: >, >=, < or <=, where it only says
    that; error: what stands after ±.
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
            is_near = abs(exact - self.value) <= _NEAR * abs(self.value)
            is_beyond = exact > self.value if self.bound[0] == ">" else exact < self.value
            return self.bound.endswith("=") if is_near else is_beyond
        return _is_rounded(exact, self.value)

    def error_agrees(self, value: float) -> bool:
        """Whether what stands after ± is that value, rounded to its digits."""
        exact = Decimal(value) * 100 if self.is_percent else Decimal(value)
        return self.error is not None and _is_rounded(exact, self.error)


def _is_rounded(exact: Decimal, written: Decimal) -> bool:
    half = Decimal(1).scaleb(int(written.as_tuple().exponent)) / 2
    # A value half way between two numbers may be rounded to either.
    return abs(exact - written) <= half * (1 + _NEAR)


def numbers_in(text: str) -> Iterator[tuple[Number, int, int]]:
    """The numbers of a text, each with where it begins and ends."""
    for match in _NUMBER.finditer(text):
        yield _number(match), match.start(), match.end()


def _number(match: re.Match[str]) -> Number:
    plain = "1" if match["digits"] is None else _plain(match)
    sign = "-" if match["sign"] and match["sign"] in _DASHES else ""
    value = Decimal(f"{sign}{plain}").scaleb(_exponent(match))
    of = int(match["of"] or 0) if plain.isdecimal() else 0
    error = None if match["error"] is None else Decimal(match["error"].replace(",", "."))
    side = _BOUNDS.get(match["bound"] or "", "")
    return Number(match[0], value, match["percent"] is not None, of, side, error)


def _plain(match: re.Match[str]) -> str:
    """The digits with a decimal point and nothing else between them."""
    if match["plain"] is not None:
        return match["plain"].replace(",", "")
    if match["dots"] is not None:
        return match["dots"].replace(".", "").replace(",", ".")
    digits = match["comma"] if match["comma"] is not None else match["spaces"]
    return re.sub(rf"{_SPACE}|['’]", "", digits).replace(",", ".")


def _exponent(match: re.Match[str]) -> int:
    written = match["power"] or match["power0"] or (match["e"] or "")[1:]
    if written:
        return int(re.sub(f"[{_DASHES}]", "-", written))
    if upper := match["upper"] or match["upper0"]:
        return int(upper.translate(_UPPER))
    return _LARGE.get(match["large"] or "", 0)
