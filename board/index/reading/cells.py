"""Cells of the table of rollouts of unknown keys: numbers, and beginnings of texts."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any, Final, cast

import numpy as np

from board.core.arrays import FloatArray
from board.errors import RecordError
from board.formats.columns import Values, finite_numbers
from board.formats.fields import is_flat_numbers
from board.formats.number_arrays import MOST_EXACT, RawNumbers, begins_exact
from board.formats.parse import LACKS_DIGITS, as_list, lacks_digits, loads_tolerantly

PREVIEW_CHARS: Final = 240
"""So much of a text is in the table."""
_JSON_BYTES: Final = 8 << 10
_MOST: Final = 10**PREVIEW_CHARS


def cell(value: object) -> float | str | None:
    """A number or short text of an extra key, of a list or an object the beginning of its JSON; None for
    what is no number. An integer that a float does not hold is a text, with all of its digits.
    """
    if isinstance(value, int) and abs(value) > MOST_EXACT:
        return str(value) if abs(value) < _MOST else None
    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return value[:PREVIEW_CHARS]
    return _json_cell(value)


def _json_cell(value: object) -> str | None:
    """The beginning of the JSON of a list or an object; None where it is empty or nested too deep."""
    if isinstance(value, RawNumbers):
        value = _first_numbers(value)
    if isinstance(value, list):
        value = cast("list[Any]", value)[:PREVIEW_CHARS]
    if not isinstance(value, list | dict) or not value:
        return None
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, separators=(", ", ": "))
    except (RecursionError, ValueError):
        return None
    return text[:PREVIEW_CHARS]


def _first_numbers(array: RawNumbers) -> list[Any]:
    """More numbers than a cell has place for, as they are written; none where they are no JSON."""
    raw = array.raw
    if len(raw) > _JSON_BYTES:
        raw = raw[:_JSON_BYTES].rpartition(b",")[0] + b"]"
    with suppress(ValueError, RecursionError):
        return as_list(loads_tolerantly(raw.decode("utf-8", "replace")))
    return []


def _without_arrays(values: Values, lengths: Values) -> Values:
    """The values without lists of a number for each token, which are metrics of tokens and no column."""
    return [
        None if is_token_array(value, length) else value
        for value, length in zip(values, lengths, strict=True)
    ]


def is_token_array(value: Any, length: object) -> bool:
    """Whether it has a number for each of `length` tokens."""
    return is_flat_numbers(value) and len(value) == length and begins_exact(value)


def cells_of(values: Values, lengths: Values) -> Values | FloatArray | None:
    """The cells of an extra key; None where no row has any. lengths: of the responses. Raises RecordError
    where a line has to be parsed exactly first.
    """
    kinds = set(map(type, values))
    if not kinds.isdisjoint((list, RawNumbers)):
        values = _without_arrays(values, lengths)
        kinds = set(map(type, values))
    if kinds == {str}:
        return [value[:PREVIEW_CHARS] for value in values]
    if (numbers := finite_numbers(values)) is not None:
        array = np.array(numbers, np.float64)
        if not len(array) or np.abs(array).max() < MOST_EXACT:
            return array
    if kinds.isdisjoint((str, float, int, bool, list, dict, RawNumbers)):
        return None
    if any(map(lacks_digits, values)):
        raise RecordError(LACKS_DIGITS)
    cells = list(map(cell, values))
    return None if cells.count(None) == len(cells) else cells
