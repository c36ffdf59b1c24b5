"""Citations in a report: which number or quote of the text rests on which place of a log.

    "the answer is 42" [run=grpo_x step=12 rollout=3]
    k3 was 6.5 [run=grpo_x step=12 rollout=3 token=17 metric=k3] there, on average 0.83
    [metric=k3_mean step=12].

A citation stands in square brackets behind what it is of: where it names a metric, the nearest number
before it; else the quotes of its sentence. Its keys: run, step, rollout, token, metric, text, split, env.
docs/verify.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from typing import Final, Literal

from board.core.written_numbers import Number, numbers_in

KEYS: Final = ("run", "step", "rollout", "token", "metric", "text", "split", "env")
_WHOLE: Final = ("step", "rollout", "token")
_VALUE: Final = r'(?:"(?:[^"\\\n]|\\.)*"|[^\s\],"]+)'
_PAIR: Final = re.compile(rf"([a-z]+)=({_VALUE})")
_CITATION: Final = (
    rf"`?\[(?P<keys>(?:[a-z]+={_VALUE})(?:[,\s]+[a-z]+={_VALUE})*)\]`?(?:\([^)\s]*\))?"
)
_MOST: Final = 4000
"""Characters of a quote."""
_PAIRS: Final = (
    "“”",
    "„“",
    "„”",
    "«»",
    "»«",
    "‹›",
    "›‹",
    "‚‘",
    "「」",
    "『』",
    "《》",
    "〝〞",
    "＂＂",
)
"""Marks that begin and end a quotation in some language; neither stands within it."""
_STRAIGHT: Final = rf'(?<![\w.,;!?)\\])"(?P<straight>(?:[^"\\]|\\.){{1,{_MOST}}})"(?!\w)'
_QUOTES: Final = (
    _STRAIGHT,
    *(
        f"{begin}(?P<pair{place}>[^{begin}{end}]{{1,{_MOST}}}){end}"
        for place, (begin, end) in enumerate(_PAIRS)
    ),
    rf"(?<![\w.,;!?)])”(?P<swedish>[^“”\s][^“”]{{,{_MOST}}})”",
    rf"(?<!\w)‘(?P<single>[^‘]{{1,{_MOST}}}?)’(?!\w)",
    # An apostrophe within a word ends nothing, nor does that of a plural begin anything.
    rf"(?<![\w'’])'(?=\S)(?P<typed>(?:[^'\n]|(?<=\w)'(?=\w)){{1,{_MOST}}})(?<=\S)'(?![\w'])",
)
_NAMES: Final = frozenset(
    ("straight", "swedish", "single", "typed", *(f"pair{place}" for place in range(len(_PAIRS))))
)
_HALVES: Final = "".join(sorted({*"".join(_PAIRS), '"'} - {"‘"}))
_ENTITY: Final = re.compile(r"&(?:quot|[lrb]dquo|[lrs]squo|sbquo|[lr]s?aquo|#0*34|#x0*22);")
_FOOTNOTE: Final = re.compile(r"^ {0,3}\[\^([^\]\s]+)\]:[ \t]*(.+(?:\n(?: {2,}|\t).+)*)", re.M)
_REFERENCE: Final = re.compile(r"\[\^([^\]\s]+)\](?!:)")
_SIGN: Final = re.compile(
    "|".join(
        (
            _CITATION,
            r"``\s?(?P<code2>.+?)\s?``|`(?P<code>[^`]+)`",
            *_QUOTES,
            rf"(?P<alone>[{_HALVES}]|‘(?=\w)(?!\d0s)|</?q>)",
            r"(?P<border>\n[ \t]*\n|\n(?=[ \t]*(?:[-*+>#|]|\d+[.)]\s)))",
            r"(?P<end>[.!?…][*_)\]]*\s+(?=[^\sa-z\d\[`]))",
        )
    ),
    re.S,
)
_SIGN_OF_CITATION: Final = re.compile(_CITATION)
_MARKS: Final = "*_( \t\n:,;."
"""May stand between a quote in backticks and its citation."""
_FENCE: Final = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_FRONT: Final = re.compile(r"\A---\n(.*?)^---[ \t]*$", re.M | re.S)
_LIST_NUMBER: Final = re.compile(r"^[ \t]*\d+[.)](?=\s)", re.M)


@dataclass(frozen=True, slots=True)
class Citation:
    """A place in a log that a report names, and one thing that rests on it.

    line: of the report, from 1. keys: as written, by KEYS. says: the quote or number that it is of; None:
    it names a place alone. error: why it can't be read; empty where it can.
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
    """citations: in reading order, one for each quote or number. numbers, quotes: those without one."""

    citations: tuple[Citation, ...]
    numbers: int
    quotes: int


@dataclass(frozen=True, slots=True)
class _Sign:
    """What counts in a sentence. kind: citation, quote, code, number, or alone: half a pair of marks."""

    kind: str
    start: int
    end: int
    text: str = ""
    number: Number | None = None


def citation_text(run: str, **keys: object) -> str:
    """The text of a citation: [run=NAME step=12 rollout=3]."""
    return Citation(0, {"run": run, **{k: str(v) for k, v in keys.items()}}, None).words


def _quoted(value: str) -> str:
    if re.fullmatch(r'[^\s\]",`\\]+', value):
        return value
    escaped = re.sub(r'(["\\])', r"\\\1", " ".join(value.split("\n")))
    return f'"{escaped}"'


def citations_in(markdown: str) -> Report:
    """The citations of a report, and what cites nothing. Fenced code is passed over. What a footnote
    says counts where it is referred to.

    `run: NAME` in the front matter is the run of citations that name none.
    """
    markdown = _ENTITY.sub(lambda entity: unescape(entity[0]), markdown)
    front = _FRONT.match(markdown)
    default = re.search(r"^run:[ \t]*(\S.*?)[ \t]*$", front[1], re.M) if front else None
    usual = {"run": default[1].strip("'\"")} if default else {}
    text = _with_footnotes(_blanked(markdown, _FRONT, _FENCE, _LIST_NUMBER))
    citations: list[Citation] = []
    numbers = quotes = 0
    for sentence in _sentences(text):
        if any(sign.kind == "citation" for sign in sentence):
            cited, uncited = _cited(text, sentence, usual)
            citations += cited
            numbers += uncited
        else:
            numbers += sum(sign.kind == "number" for sign in sentence)
            quotes += sum(sign.kind == "quote" for sign in sentence)
    return Report(tuple(citations), numbers, quotes)


def _with_footnotes(text: str) -> str:
    """The text with footnotes that cite in place of the references to them, on the same lines."""
    notes = {name: " ".join(note.split()) for name, note in _FOOTNOTE.findall(text)}
    cited = {name: note for name, note in notes.items() if _SIGN_OF_CITATION.search(note)}
    used = {name for name in _REFERENCE.findall(text) if name in cited}

    def blanked(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0]) if match[1] in used else match[0]

    text = _FOOTNOTE.sub(blanked, text)
    return _REFERENCE.sub(lambda match: f" {cited.get(match[1], '')} ", text)


def _sentences(text: str) -> Iterator[list[_Sign]]:
    """The signs of each sentence; a row of a table and an item of a list are one."""
    signs: list[_Sign] = []
    at = 0
    for match in _SIGN.finditer(text):
        signs += _numbers(text, at, match.start())
        at = match.end()
        kind = match.lastgroup or ""
        if kind in ("border", "end"):
            yield signs
            signs = []
        elif kind == "keys":
            known = {name for name, _ in _PAIR.findall(match["keys"])} & {*KEYS}
            if known:
                signs.append(_Sign("citation", *match.span(), match["keys"]))
        elif kind in _NAMES:
            quote = match[kind]
            quote = quote.replace('\\"', '"') if kind == "straight" else quote
            signs.append(_Sign("quote", *match.span(), quote))
        elif kind == "alone":
            signs.append(_Sign("alone", *match.span(), match[0]))
        else:
            signs.append(_Sign("code", *match.span(), match[kind]))
    yield [*signs, *_numbers(text, at, len(text))]


def _numbers(text: str, start: int, end: int) -> Iterator[_Sign]:
    for number, first, last in numbers_in(text[start:end]):
        yield _Sign("number", start + first, start + last, number.text, number)


def _cited(
    text: str, sentence: Sequence[_Sign], usual: Mapping[str, str]
) -> tuple[list[Citation], int]:
    """What the citations of a sentence are of, each alone, and how many numbers cite nothing.

    Every quote is of the next citation, else of the last one: beside a citation it looks checked.
    """
    cited: list[Citation] = []
    places = [place for place, sign in enumerate(sentence) if sign.kind == "citation"]
    known = {v for p in places for k, v in _PAIR.findall(sentence[p].text) if k in _WHOLE}
    uncited, before = 0, 0
    for place in places:
        is_last = place == places[-1]
        near = sentence[before:place]
        beyond = sentence[place + 1 :] if is_last else ()
        before = place + 1
        own, numbers = _claims(text, sentence[place], near, beyond, usual)
        cited += own
        uncited += sum(str(sign.number.value) not in known for sign in numbers if sign.number)
    return cited, uncited


def _claims(
    text: str,
    sign: _Sign,
    near: Sequence[_Sign],
    beyond: Sequence[_Sign],
    usual: Mapping[str, str],
) -> tuple[list[Citation], list[_Sign]]:
    """What one citation is of, and the numbers around it that it is not of."""
    pairs = [(name, _unquoted(value)) for name, value in _PAIR.findall(sign.text)]
    plain = Citation(text.count("\n", 0, sign.start) + 1, {**usual, **dict(pairs)}, None)
    wrong = _error(plain.keys, [name for name, _ in pairs])
    numbers = [one for one in (*near, *beyond) if one.kind == "number"]
    quotes = [one.text for one in (*near, *beyond) if one.kind == "quote"]
    if near and near[-1].kind == "code" and not text[near[-1].end : sign.start].strip(_MARKS):
        quotes.append(near[-1].text)
    claims: list[Citation] = []
    if "metric" in plain.keys:
        before = [one for one in near if one.kind == "number"]
        code_number = _number_in_code(text, sign, near)
        if code_number is not None:
            claims.append(replace(plain, says=code_number, error=wrong))
            quotes = quotes[:-1]
        elif before:
            claims.append(replace(plain, says=before[-1].number, error=wrong))
            numbers.remove(before[-1])
        else:
            wrong = wrong or "it names a metric, and no number comes before it"
            claims.append(replace(plain, error=wrong))
    if not any(one.kind == "alone" for one in (*near, *beyond)):
        claims += _of_quotes(plain, quotes, wrong)
    else:  # which of its marks is whose is not clear
        half = "a quote of its sentence can't be read; a quotation mark within it is written \\\""
        claims.append(replace(plain, error=half))
    if not claims:
        claims.append(replace(plain, error=wrong))
    return claims, numbers


def _number_in_code(text: str, sign: _Sign, near: Sequence[_Sign]) -> Number | None:
    """A number in backticks right before a citation."""
    if not near or near[-1].kind != "code" or text[near[-1].end : sign.start].strip(_MARKS):
        return None
    numbers = [*numbers_in(near[-1].text.strip())]
    is_all = len(numbers) == 1 and numbers[0][1:] == (0, len(near[-1].text.strip()))
    return numbers[0][0] if is_all else None


def _of_quotes(plain: Citation, quotes: Sequence[str], wrong: str) -> Iterator[Citation]:
    """A claim for each quote; the nearest one before a citation of a token is the token's text."""
    has_token = "token" in plain.keys and "metric" not in plain.keys
    for place, quote in enumerate(quotes):
        left_out = {"metric"} if has_token and place == len(quotes) - 1 else {"metric", "token"}
        keys = {name: value for name, value in plain.keys.items() if name not in left_out}
        error = wrong or ("" if "rollout" in keys else "a quote needs a rollout, and it names none")
        yield replace(plain, keys=keys, says=quote, error=error)


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _blanked(text: str, *patterns: re.Pattern[str]) -> str:
    """The text with spaces in place of what a pattern finds, on the same lines."""
    for pattern in patterns:
        text = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    return text


def _error(keys: Mapping[str, str], names: Sequence[str]) -> str:
    unknown = [name for name in names if name not in KEYS]
    if unknown:
        return f"{', '.join(unknown)} is no key of a citation; it has {', '.join(KEYS)}"
    wrong = [name for name in _WHOLE if name in keys and not re.fullmatch(r"-?\d+", keys[name])]
    if wrong:
        return f"{wrong[0]}={keys[wrong[0]]} is not a whole number"
    if "step" not in keys:
        return "it names no step"
    if "rollout" not in keys and "metric" not in keys:
        return "it names neither a rollout nor a metric"
    if "token" in keys and "rollout" not in keys:
        return "it names a token, and no rollout"
    return ""
