"""Citations in a report: which number or quote of the text rests on which place of a log.

    "the answer is 42" [run=grpo_x step=12 rollout=3]
    k3 was 6.5 [run=grpo_x step=12 rollout=3 token=17 metric=k3] there, on average 0.83
    [metric=k3_mean step=12].

A citation stands in square brackets behind what it is of: a quote in "…", “…” or `…`, or, where it names
a metric, a number. Its keys: run, step, rollout, token, metric, text, split, env. docs/verify.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

KEYS: Final = ("run", "step", "rollout", "token", "metric", "text", "split", "env")
_WHOLE: Final = ("step", "rollout", "token")
_VALUE: Final = r'(?:"[^"\n]*"|[^\s\],"]+)'
_PAIR: Final = re.compile(rf"([a-z]+)=({_VALUE})")
_CITATION: Final = re.compile(
    rf"`?\[((?:[a-z]+={_VALUE})(?:[,\s]+[a-z]+={_VALUE})*)\]`?(?:\([^)\s]*\))?"
)
_QUOTE: Final = r'"((?:[^"\\]|\\.)+)"|“([^”]+)”|``\s?(.+?)\s?``|`([^`]+)`'
_NUMBER: Final = r"(?<![\w.])([-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_NUMBER_CLAIM: Final = re.compile(rf"{_NUMBER}(?:\s?(%)|\s[a-zA-Z/]+)?$")
_QUOTE_CLAIM: Final = re.compile(rf"(?:{_QUOTE})$", re.DOTALL)
_MARKS: Final = "*_( \t\n:,;."
"""May stand between a quote or number and its citation."""
_CLOSING: Final = ('"', "”", "`")
_NO_OPENING: Final = re.compile(r"[\w.,;!?)\\]")
"""What stands before a quotation mark that begins no quote."""
_FENCE: Final = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_FRONT: Final = re.compile(r"\A---\n(.*?)^---[ \t]*$", re.M | re.S)
_LONGEST_QUOTE: Final = 4000


@dataclass(frozen=True, slots=True)
class Number:
    """A number as it is written. value: without the sign of percent; digits: behind the point, negative
    for 1e3.
    """

    text: str
    value: Decimal
    is_percent: bool

    @property
    def digits(self) -> int:
        """Digits behind the point."""
        return -int(self.value.as_tuple().exponent)

    def agrees(self, value: float) -> bool:
        """Whether a value, rounded to the digits written, is this number."""
        exact = Decimal(value) * 100 if self.is_percent else Decimal(value)
        half = Decimal(1).scaleb(-self.digits) / 2
        # A value half way between two numbers may be rounded to either.
        return abs(exact - self.value) <= half * (1 + Decimal("1e-9"))


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in a log that a report names.

    line: of the report, from 1. keys: as written, by KEYS. says: the quote or number before it; None: it
    names a place alone. error: why it can't be read; empty where it can.
    """

    line: int
    keys: Mapping[str, str]
    says: str | Number | None
    error: str = ""

    @property
    def words(self) -> str:
        """As it is written."""
        return "[" + " ".join(f"{name}={_quoted(value)}" for name, value in self.keys.items()) + "]"

    def whole(self, name: Literal["step", "rollout", "token"]) -> int | None:
        """A key that is a whole number; None where it is not there."""
        return int(self.keys[name]) if name in self.keys else None


@dataclass(frozen=True, slots=True)
class Report:
    """citations: in reading order. numbers, quotes: how many cite nothing."""

    citations: tuple[Citation, ...]
    numbers: int
    quotes: int


def citation_text(run: str, **keys: object) -> str:
    """The text of a citation: [run=NAME step=12 rollout=3]."""
    return Citation(0, {"run": run, **{k: str(v) for k, v in keys.items()}}, None).words


def _quoted(value: str) -> str:
    return value if re.fullmatch(r'[^\s\]",]+', value) else f'"{value}"'


def citations_in(markdown: str) -> Report:
    """The citations of a report, and what cites nothing. Fenced code is passed over.

    `run: NAME` in the front matter is the run of citations that name none.
    """
    front = _FRONT.match(markdown)
    default = re.search(r"^run:[ \t]*(\S.*?)[ \t]*$", front[1], re.M) if front else None
    text = _blanked(markdown, _FRONT, _FENCE)
    citations: list[Citation] = []
    rest: list[str] = []
    end = 0
    for match in _CITATION.finditer(text):
        pairs = _PAIR.findall(match[1])
        if not {name for name, _ in pairs} & {*KEYS}:
            continue
        before = text[end : match.start()]
        keys = {"run": default[1].strip("'\"")} if default else {}
        keys |= {name: value.strip('"') for name, value in pairs}
        says, left = _claim(before, takes_number="metric" in keys)
        rest.append(left)
        error = _error(keys, says, [name for name, _ in pairs])
        if says is None and before.rstrip(_MARKS).endswith(_CLOSING):
            error = "the quote before it can't be read; a quotation mark within it is written \\\""
        line = text.count("\n", 0, match.start()) + 1
        citations.append(Citation(line, keys, says, error))
        end = match.end()
    rest.append(text[end:])
    uncited = "\n".join(rest)
    numbers = re.sub(_QUOTE, " ", uncited, flags=re.S)
    return Report(tuple(citations), len(re.findall(_NUMBER, numbers)), len([*_quotes(uncited)]))


def _quotes(text: str) -> Iterator[str]:
    """Quotes in quotation marks; inline code is as often a name."""
    for match in re.finditer(r'"([^"\n]+)"|“([^”]+)”', text):
        yield match[1] or match[2]


def _blanked(text: str, *patterns: re.Pattern[str]) -> str:
    """The text with spaces in place of what a pattern finds, on the same lines."""
    for pattern in patterns:
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def _claim(before: str, *, takes_number: bool) -> tuple[str | Number | None, str]:
    """What a citation is of, at the end of the text before it, and that text without it."""
    near = before.rstrip(_MARKS)
    tail = near[-_LONGEST_QUOTE:]
    if near.endswith(_CLOSING):
        for begin in _openings(tail):
            match = _QUOTE_CLAIM.fullmatch(tail, begin)
            if match is not None:
                quote = next(group for group in match.groups() if group is not None)
                quote = quote.replace('\\"', '"') if match[1] else quote
                return quote, near[: len(near) - len(tail) + begin]
    match = _NUMBER_CLAIM.search(tail) if takes_number else None
    if match is None:
        return None, before
    value = Decimal(match[1].replace(",", "").replace("−", "-"))
    number = Number(match[0], value, is_percent=match[2] is not None)
    return number, near[: len(near) - len(tail) + match.start()]


def _openings(text: str) -> Iterator[int]:
    """Where the quote that ends a text may begin, the nearest first."""
    close = text[-1]
    sign = {"”": "“"}.get(close, close)
    at = len(text) - 1
    while (at := text.rfind(sign, 0, at)) >= 0:
        if not _NO_OPENING.match(text[max(at - 1, 0) : at]):
            yield at


def _error(keys: Mapping[str, str], says: str | Number | None, names: list[str]) -> str:
    unknown = [name for name in names if name not in KEYS]
    if unknown:
        return f"{', '.join(unknown)} is no key of a citation; it has {', '.join(KEYS)}"
    wrong = [name for name in _WHOLE if name in keys and not re.fullmatch(r"-?\d+", keys[name])]
    if wrong:
        return f"{wrong[0]}={keys[wrong[0]]} is not a whole number"
    if "step" not in keys:
        return "it names no step"
    if "metric" in keys and not isinstance(says, Number):
        return "it names a metric, and no number comes before it"
    if "rollout" not in keys and "metric" not in keys:
        return "it names neither a rollout nor a metric"
    if "token" in keys and "rollout" not in keys:
        return "it names a token, and no rollout"
    return ""
