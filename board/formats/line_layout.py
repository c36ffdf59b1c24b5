"""Many lines that have the same keys with values of the same types -> columns, in one call of a parser.

The parser is made for the keys of one line and takes no others: where any line of a stretch holds
anything else, the stretch is left to those that look at each line.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from board.formats.block import Block
from board.formats.io.lines import Stretch
from board.formats.texts import Flags, Numbers, Values, Words, array_of_numbers

_MOST_KEYS: Final = 64
_OPENS: Final = ord("{")
_CLOSES: Final = ord("}")
_LARGE_WHOLE: Final = 2.0**63
_NO_FLOATS: Final = np.zeros(0)
_NOTHING: Final = type(None)
_KINDS: Final[Mapping[type, Any]] = {
    str: str | None,
    int: int | float | None,
    float: int | float | None,
    bool: bool | None,
    _NOTHING: str | int | float | bool | None,
}
"""By the type of a value of which types others of its key may be."""
_NUMBERS: Final[Mapping[type, Callable[..., Numbers]]] = {
    int: Numbers,
    float: Numbers,
    bool: Flags,
}


class LineLayout:
    """The keys that lines have, and a parser of lines that have no others.

    It takes about as long to make columns of many lines as orjson takes to parse them.
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        """record: of a line. Raises ValueError or KeyError on one that has no layout."""
        self._kinds: dict[str, type] = {key: type(value) for key, value in record.items()}
        self._decode = msgspec.json.Decoder(_struct(self._kinds)).decode_lines

    @classmethod
    def of(cls, line: bytes) -> LineLayout | None:
        """The layout of a line; None where it holds what no layout has."""
        try:
            fields = _fields(line)
            return cls(fields) if 0 < len(fields) <= _MOST_KEYS else None
        except (ValueError, KeyError):
            return None

    def block_of(self, stretch: Stretch) -> tuple[Block, Sequence[int]] | None:
        """The lines as a block, and which of them are its rows; None where one is of another layout."""
        content = stretch.content
        if content is None or not stretch.ended or not _are_objects(content, stretch.sizes):
            return None
        try:
            lines = cast("list[msgspec.Struct]", self._decode(content))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        count = len(stretch.sizes)
        if len(lines) != count:  # a newline within an object, or none between two
            return None
        rows = zip(*map(msgspec.structs.astuple, lines), strict=True)
        pairs = zip(self._kinds.items(), rows, strict=True)
        try:
            columns = {key: _column(kind, values) for (key, kind), values in pairs}
        except (TypeError, OverflowError):  # a number that is none for other parsers
            return None
        return Block(columns, count), range(count)


def _fields(line: bytes) -> dict[str, Any]:
    """The object that a line is; empty of anything else. Raises ValueError where it is no JSON."""
    record: object = orjson.loads(line)
    return cast("dict[str, Any]", record) if isinstance(record, dict) else {}


def _struct(kinds: Mapping[str, type]) -> type:
    """A class of what has these keys and no others, each of its type; None for a key that is missing.

    Raises ValueError on keys that none can have, KeyError on types that no layout has.
    """
    names = {f"f{number}": key for number, key in enumerate(kinds)}
    fields = [(name, _KINDS[kinds[key]], None) for name, key in names.items()]
    return msgspec.defstruct("Line", fields, rename=names, forbid_unknown_fields=True, gc=False)


def _column(kind: type, values: Iterable[Any]) -> Values:
    """The values of a key, as what they are known to be.

    Raises TypeError or OverflowError where a number is so large that other parsers take it for a float.
    """
    if kind is str:
        return Words(values)
    if (numbers := _NUMBERS.get(kind)) is None:
        found = list(values)
        _floats([value for value in found if type(value) is int])
        return found
    told = numbers(values, _NO_FLOATS)  # a list of its own, of which they are read: no copy of one
    told.floats = _floats(told)
    return told


def _floats(values: Sequence[Any]) -> npt.NDArray[np.float64]:
    """[rows] the numbers, NaN for None. Raises as `_column`."""
    try:
        floats = array_of_numbers(values, "d")
    except struct.error:  # of a None
        floats = np.array(values, np.float64)
    if (abs(floats) >= _LARGE_WHOLE).any():
        raise OverflowError
    return floats


def _are_objects(content: bytes | memoryview, sizes: npt.NDArray[np.int64]) -> bool:
    """Whether each line begins and ends as an object does: only then can a newline stand nowhere but
    between objects.
    """
    codes, ends = np.frombuffer(content, np.uint8), sizes.cumsum()
    return bool((codes[ends - sizes] == _OPENS).all() and (codes[ends - 2] == _CLOSES).all())
