"""Answers as JSON of a bounded size, in which text from a log is always marked as data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import orjson

from board.errors import ChoiceError

MOST_BYTES: Final = 32_000
"""Of one answer."""
MOST_ROWS: Final = 200
_CELL_CHARACTERS: Final = 300
_NAME: Final = re.compile(r"[\w.:/=@#+,-]{1,64}")
"""What may be a name without being a sentence."""
_FEWER: Final = "ask for fewer columns, metrics, tokens or characters"
_LARGEST_INTEGER: Final = 2**63 - 1

Answer = dict[str, Any]


def untrusted(text: str, most: int = _CELL_CHARACTERS, start: int = 0) -> Answer:
    """Text of a log, which a model or a stranger may have written, marked as data.

    most: characters. What was cut is said: from where on it is, and how many characters there are.
    """
    part = text[start : start + most]
    marked: Answer = {"untrusted_text": part.encode("utf-8", "replace").decode("utf-8")}
    if len(part) < len(text):
        marked |= {"from_character": start, "of_characters": len(text)}
    return marked


def cell(value: object, most: int = _CELL_CHARACTERS) -> Any:
    """A value of a table: numbers to six digits, null for what is not recorded, names as they are, any
    other text marked as data.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_INTEGER else str(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    text = str(value)
    return text if _NAME.fullmatch(text) and text.isascii() else untrusted(text, most)


def cells(row: Mapping[str, Any], most: int = _CELL_CHARACTERS) -> Answer:
    """The values of a row."""
    return {name: cell(value, most) for name, value in row.items()}


def paged(head: Answer, rows: Sequence[Answer], offset: int, limit: int) -> Answer:
    """An answer with `limit` of all its rows; see page_of."""
    return page_of(head, rows[offset : offset + limit], len(rows), offset)


def page_of(head: Answer, rows: Iterable[Answer], total: int, offset: int = 0) -> Answer:
    """An answer with as many of the rows as fit, and how to get more.

    rows: those from `offset` on, of `total`. Raises ChoiceError where not even one of them fits.
    """
    room = MOST_BYTES - len(encoded(head)) - _CELL_CHARACTERS
    fitting: list[Answer] = []
    for row in rows:
        room -= len(encoded(row)) + 1
        if room < 0 or len(fitting) == MOST_ROWS:
            if not fitting:
                raise ChoiceError(f"one row is larger than {MOST_BYTES:,} bytes; {_FEWER}")
            break
        fitting.append(row)
    end = offset + len(fitting)
    answer = {**head, "rows": fitting, "rows_total": total}
    if end < total:
        answer["more"] = f"rows {offset} to {end - 1} of {total}; go on with offset={end}"
    return answer


def encoded(answer: Answer) -> bytes:
    """The answer as JSON; NaN is null."""
    return orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)


def bounded_json(answer: Answer) -> str:
    """The answer as text. Raises ChoiceError where it is larger than MOST_BYTES."""
    document = encoded(answer)
    if len(document) > MOST_BYTES:
        raise ChoiceError(
            f"the answer would be {len(document):,} bytes, more than {MOST_BYTES:,}; {_FEWER}"
        )
    return document.decode()
