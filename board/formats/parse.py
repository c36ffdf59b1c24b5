"""One line of JSON -> a dict with every value parsed, and what is wrong with a line, in words."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeGuard, cast

import orjson
import ujson

from board.errors import RecordError

MOST_CONTAINERS: Final = 1_000_000
"""Arrays and objects in a line of more than LARGE_LINE bytes; each takes a hundred bytes of memory."""
LARGE_LINE: Final = 4 << 20
CUT_OFF: Final = "unexpected end of data"
"""What the parser says of JSON that ends before it is whole."""
_LARGEST_MEASURE: Final = 1 << 512
_NO_NUMBER: Final = re.compile(r"[\[:,]\s*(?:-(?![0-9I])|-?0[0-9]|-?[0-9]+\.(?![0-9]))")
"""What no JSON number is and ujson takes for one: a lone minus, 01, 1. (all come of torn lines)."""
_KINDS: Final = {
    "str": "text",
    "bool": "true or false",
    "dict": "an object",
    "NoneType": "null",
    "list": "a list",
    "RawNumbers": "a list",
}
"""By the name of a type; RawNumbers are made of what is parsed here, and can't be known by it."""
_MOST_SENTENCES: Final = 16
_LARGE: Final = 2.0**63
"""From here on the fast parser makes floats of integers."""
_LARGEST_ID: Final = 1e80
"""What is larger is no id, seed or hash of 256 bits, and as good as a float."""
_LONG_INTEGER: Final = re.compile(rb"(?<![0-9.])[0-9]{19,}(?![0-9.eE])")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def is_measure(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be reckoned with, which an integer of 400 digits is not."""
    if isinstance(value, int):
        return abs(value) < _LARGEST_MEASURE
    return isinstance(value, float)


def kind_of(value: object) -> str:
    """What a parsed JSON value is, in words."""
    return _KINDS.get(type(value).__name__, "a number")


def parse_whole(line: bytes) -> tuple[dict[str, Any], bool]:
    """The record of a line with every value parsed, and whether broken text had to be mended.

    Takes what Python's json writes: NaN, Infinity. Bytes that are not UTF-8 and lone surrogates
    become U+FFFD, and the second result says so. Raises RecordError when the line is not JSON object.
    """
    refuse_crowd(line)
    try:
        parsed: object = orjson.loads(line)
        mended = False
    except orjson.JSONDecodeError as error:
        parsed, mended = _parse_tolerantly(line, str(error))
    if not is_object(parsed):
        raise RecordError(f"the line is {kind_of(parsed)}", hint="one JSON object per line")
    for key, value in parsed.items():
        if (
            type(value) is float
            and abs(value) >= _LARGE
            and key.lower().endswith("id")
            and not mended
        ):
            parsed[key] = _with_all_digits(line, parsed)[key]
    return parsed, mended


def parse_exactly(line: bytes) -> tuple[dict[str, Any], bool]:
    """The same, in which integers of more than 64 bits have all of their digits wherever they stand, and
    not only ids beside the texts; it takes longer.
    """
    record, mended = parse_whole(line)
    if not mended and _LONG_INTEGER.search(line):
        record = _with_all_digits(line, record)
    return record, mended


LACKS_DIGITS: Final = "an integer may lack digits"
"""Why a line has to be parsed exactly; nobody reads it."""


def lacks_digits(value: object) -> bool:
    """Whether a value, or one in an object, may be an integer of more than 64 bits, of which only the
    first digits were parsed. Lists are not looked at: they may be long.
    """
    waiting: list[Any] = [value]  # a parser takes a thousand objects within each other
    while waiting:
        inner = waiting.pop()
        if type(inner) is float:
            if _LARGE <= abs(inner) < _LARGEST_ID:
                return True
        elif is_object(inner):
            waiting += inner.values()
    return False


def _with_all_digits(line: bytes, record: dict[str, Any]) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):  # thousands of digits
        return json.loads(line)
    return record


def repeated_keys(line: bytes, record: Mapping[str, Any]) -> list[str]:
    """The keys that an object of a line has twice, of which the last one counts. record: of the line."""
    try:
        if _has_as_many_keys(line, record):
            return []
    except RecursionError:  # nested too deep to be looked at
        return []
    repeated: dict[str, None] = {}

    def checked(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        counts = Counter(key for key, _ in pairs)
        repeated.update((key, None) for key, count in counts.items() if count > 1)
        return dict(pairs)

    with suppress(ValueError, RecursionError):
        json.loads(line, object_pairs_hook=checked)
    return [*repeated]


def _has_as_many_keys(line: bytes, record: Mapping[str, Any]) -> bool:
    """Whether a line certainly has no more keys than its record: a colon behind a quote is of a key,
    unless the quote is escaped or the first one of a text.
    """
    keys = _count_of_keys(record)
    if line.count(b":") == keys:  # in a tenth of the time
        return True
    escaped = line.count(b'\\":') if b"\\" in line else 0
    is_plain = b'" :' not in line and not (escaped and b'\\\\":' in line)
    return is_plain and line.count(b'":') - escaped == keys


def _count_of_keys(value: object) -> int:
    if is_object(value):
        return len(value) + sum(map(_count_of_keys, value.values()))
    if is_list(value) and value and isinstance(value[0], dict | list):
        return sum(map(_count_of_keys, value))
    return 0


def parse_plain_lines(lines: Sequence[bytes | memoryview | None]) -> list[dict[str, Any] | None]:
    """The records of lines as `parse_whole` has them; None for a line that it must look at: one that
    holds no JSON object, is blank or very long, or holds bytes that had to be mended.
    """
    with suppress(orjson.JSONDecodeError, TypeError):  # a line that was too long is None
        texts = cast("Sequence[bytes]", lines)
        if max(map(len, texts), default=0) <= LARGE_LINE:
            records = list(map(orjson.loads, texts))
            if set(map(type, records)) == {dict}:
                return records
    return [None if line is None else _parse_plain_line(bytes(line)) for line in lines]


def _parse_plain_line(line: bytes) -> dict[str, Any] | None:
    if len(line) > LARGE_LINE:
        return None
    with suppress(orjson.JSONDecodeError):
        parsed: object = orjson.loads(line)
        return parsed if is_object(parsed) else None
    try:
        record, mended = parse_whole(line)
    except RecordError:
        return None
    # Numbers in a list may be too large, which is for the reader to say.
    return None if mended or any(map(is_list, record.values())) else record


def refuse_crowd(line: bytes) -> None:
    """Raises RecordError for a line that two bytes at a time makes objects of a hundred bytes each."""
    if len(line) > LARGE_LINE and line.count(b"[") + line.count(b"{") > MOST_CONTAINERS:
        raise RecordError(
            f"the line holds more than {MOST_CONTAINERS:,} arrays and objects",
            hint="one rollout per line, with one array per quantity",
        )


def _parse_tolerantly(line: bytes, strict_reason: str) -> tuple[object, bool]:
    line = line.removeprefix(b"\xef\xbb\xbf")
    text = line.decode("utf-8", "replace")
    # The parser's words carry a position, so they stay out of the reason: problems are folded by it.
    hint = f"one JSON object per line; the parser says: {strict_reason}"
    try:
        parsed = loads_tolerantly(text)
    except (ValueError, RecursionError):
        raise RecordError("the line is not JSON", hint=hint) from None
    mended = text.encode() != line
    if "\\ud" not in text.lower():
        return parsed, mended
    try:
        # Lone surrogates become U+FFFD: nothing that follows could encode them.
        written = json.dumps(parsed, ensure_ascii=False)
        without = _SURROGATE.sub("\ufffd", written)
        return (parsed, mended) if without == written else (json.loads(without), True)
    except (ValueError, RecursionError):
        raise RecordError("the line is nested too deep", hint=hint) from None


def loads_tolerantly(text: str) -> object:
    """The value of a text that may hold NaN and Infinity. Raises ValueError or RecursionError."""
    if not _NO_NUMBER.search(text):
        with suppress(ValueError, RecursionError):
            return ujson.loads(text)
    return json.loads(text)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a parsed value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a parsed value is a list."""
    return isinstance(value, list)


def is_texts(value: object) -> TypeGuard[list[str]]:
    """Whether it is a list of texts."""
    if not is_list(value):
        return False
    try:
        "".join(value)  # the quickest test
    except TypeError:
        return False
    return True


def are_sentences(texts: Sequence[str]) -> bool:
    """Whether texts are, by the first of them, no pieces of one: at least half are of several words, and
    fewer begin with white space, by which pieces are put together.
    """
    texts = texts[:_MOST_SENTENCES]
    begin_with_space = sum(map(str.isspace, [text[:1] for text in texts]))
    if len(texts) <= 2 * begin_with_space:
        return False
    of_several_words = [text for text in texts if len(text.split(None, 1)) > 1]
    return 2 * len(of_several_words) >= len(texts)


def as_object(value: object) -> dict[str, Any]:
    """The value, if it is an object; else an empty one."""
    return value if is_object(value) else {}


def as_list(value: object) -> list[Any]:
    """The value, if it is a list; else an empty one."""
    return value if is_list(value) else []


def object_at(line: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; an empty one where there is none."""
    return as_object(line.get(key))


def objects_at(line: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The objects in a line's list of rollouts. Raises RecordError where there is no such list."""
    entries = line.get(key)
    if not is_list(entries) or not all(map(is_object, entries)):
        reason = f"{key} is missing" if entries is None else f"{key} is not a list of objects"
        raise RecordError(reason, field=key, hint=f"a list of objects under {key}")
    return entries


def objects_in(value: object) -> list[dict[str, Any]]:
    """The objects in a list; of anything else none."""
    return [entry for entry in as_list(value) if is_object(entry)]
