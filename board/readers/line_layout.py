"""Many lines that have the same keys with values of the same types -> columns, in one call of a parser.

The parser is made for the keys of one line and takes no others: where any line of a stretch holds
anything else, the stretch is left to those that look at each line.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, cast

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from board.readers.block import Block
from board.readers.lines import Stretch
from board.readers.said_messages import SaidMessage, begun_said
from board.readers.stored_texts import is_utf_8
from board.readers.texts import (
    BegunTexts,
    Flags,
    LongText,
    Numbers,
    Values,
    Words,
    array_of_numbers,
)

_MOST_KEYS: Final = 64
_PIECE_BYTES: Final = 256 << 10
"""So much is parsed at a time where messages are parsed: they are still in the processor's cache when a
table's texts are made of them, and the memory of one piece serves the next. Texts alone gain nothing.
"""
_OPENS: Final = ord("{")
_CLOSES: Final = ord("}")
_LARGE_WHOLE: Final = 2.0**63
_NO_FLOATS: Final = np.zeros(0)
_NOTHING: Final = type(None)


class _Unread(msgspec.Struct, gc=False):
    """An object that nobody looks into."""


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
_SPOKEN: Final = str | list[SaidMessage] | None
_spoken: Final = msgspec.json.Decoder(_SPOKEN).decode
_Parts = dict[str, type]


class LineLayout:
    """The keys that lines have, and a parser of lines that have no others.

    It takes about as long to make columns of many lines as orjson takes to parse them.
    """

    def __init__(
        self,
        record: Mapping[str, Any],
        following: Mapping[str, Any],
        long_texts: Mapping[str, LongText],
        of_numbers: Sequence[str],
        unread: Sequence[str],
    ) -> None:
        """record, following: of two lines; the others as of `of`.

        Raises ValueError or KeyError on a record that has no layout.
        """
        self._long_texts = {key: kind for key, kind in long_texts.items() if key in record}
        self._parts: dict[str, _Parts] = {}
        self._kinds: dict[str, type] = {}
        self._has_unread = False
        self._follow_themselves = set[str]()
        types: dict[str, Any] = {}
        for key, value in record.items():
            if key in long_texts:
                # An answer is parsed with its line; a prompt that follows itself, as in a group, once.
                if not long_texts[key].generated and following.get(key) == value:
                    self._follow_themselves.add(key)
                types[key] = msgspec.Raw if key in self._follow_themselves else _SPOKEN
            elif key in of_numbers and isinstance(value, dict):
                parts = cast("dict[str, Any]", value)
                self._parts[key] = {name: type(part) for name, part in parts.items()}
                types[key] = _struct(
                    {name: _KINDS[kind] for name, kind in self._parts[key].items()}
                )
            elif key in unread and isinstance(value, dict):
                types[key], self._has_unread = _Unread | None, True
            else:
                self._kinds[key] = type(value)
                types[key] = _KINDS[type(value)]
        self._has_unread |= bool(self._follow_themselves)
        self._keys = list(types)
        self._decode = msgspec.json.Decoder(_struct(types)).decode_lines

    @classmethod
    def of(
        cls,
        line: bytes,
        following: bytes | None,
        long_texts: Mapping[str, LongText],
        of_numbers: Sequence[str],
        unread: Sequence[str],
    ) -> LineLayout | None:
        """The layout of a line; None where it holds what no layout has.

        following: the line after it, if there is one.
        long_texts: as Reader.long_texts. of_numbers, unread: as those of Reader.
        """
        try:
            fields, after = _fields(line), _fields(following or b"{}")
            if not 0 < len(fields) <= _MOST_KEYS:
                return None
            return cls(fields, after, long_texts, of_numbers, unread)
        except (ValueError, KeyError):
            return None

    def block_of(self, stretch: Stretch) -> tuple[Block, Sequence[int]] | None:
        """The lines as a block, and which of them are its rows; None where one is of another layout.

        Of long texts it has BegunTexts, and of objects of numbers Blocks.
        """
        content = stretch.content
        if content is None or not stretch.ended or not _are_objects(content, stretch.sizes):
            return None
        if self._has_unread and not is_utf_8(content):  # what is not read is not checked either
            return None
        try:
            size = _PIECE_BYTES if self._long_texts else len(content)
            pieces = [self._piece(*piece) for piece in _pieces(content, stretch.sizes, size)]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, _OtherLinesError):
            return None
        try:
            found = {key: self._joined(key, [piece[key] for piece in pieces]) for key in self._keys}
        except (TypeError, OverflowError):  # no object, or a number that is none for others
            return None
        return _without_odd(found, list(self._long_texts), len(stretch.sizes))

    def _piece(self, content: bytes | memoryview, count: int) -> dict[str, Any]:
        """What so many lines hold, by key: values, or BegunTexts and the rows that have none.

        Raises what parsing raises, and _OtherLinesError where they are not so many.
        """
        lines = cast("list[msgspec.Struct]", self._decode(content))
        if len(lines) != count:
            raise _OtherLinesError
        rows = zip(*map(msgspec.structs.astuple, lines), strict=True)
        found: dict[str, Any] = dict(zip(self._keys, rows, strict=True))
        for key, kind in self._long_texts.items():
            said = _each_once(found[key]) if key in self._follow_themselves else found[key]
            found[key] = begun_said(said, kind)
        return found

    def _joined(self, key: str, parts: Sequence[Any]) -> Any:
        """What all pieces hold, as a Block has it. Raises as `_column`."""
        if key in self._long_texts:
            return _joined_texts(parts)
        values = parts[0] if len(parts) == 1 else chain.from_iterable(parts)
        if key in self._parts:
            return self._part(key, list(values))
        kind = self._kinds.get(key)
        return list(values) if kind is None else _column(kind, values)

    def _part(self, key: str, objects: Sequence[Any]) -> Block:
        """The objects of numbers that a key holds."""
        kinds = self._parts[key]
        rows = zip(*map(msgspec.structs.astuple, objects), strict=True)
        columns = {name: _column(kinds[name], row) for name, row in zip(kinds, rows, strict=True)}
        return Block(columns, len(objects))


class _OtherLinesError(Exception):
    """A newline stands within an object, or between two of them stands none."""


def _pieces(
    content: bytes | memoryview, sizes: npt.NDArray[np.int64], at_once: int
) -> Iterator[tuple[bytes | memoryview, int]]:
    """The lines, about so many bytes together, and how many they are."""
    ends = sizes.cumsum()
    start = first = 0
    while first < len(ends):
        after = max(int(np.searchsorted(ends, start + at_once, "right")), first + 1)
        end = int(ends[after - 1])
        yield content[start:end], after - first
        start, first = end, after


def _without_odd(
    columns: dict[str, Any], long_texts: Sequence[str], rows: int
) -> tuple[Block, Sequence[int]]:
    """The block without rows in which one of the long texts is none, and which are left."""
    odd = set[int]()
    for key in long_texts:
        columns[key], others = columns[key]
        odd.update(others)
    block = Block(columns, rows)
    if not odd:
        return block, range(rows)
    kept = [row not in odd for row in range(rows)]
    return block.kept(kept), [row for row in range(rows) if row not in odd]


def _fields(line: bytes) -> dict[str, Any]:
    """The object that a line is; empty of anything else. Raises ValueError where it is no JSON."""
    record: object = orjson.loads(line)
    return cast("dict[str, Any]", record) if isinstance(record, dict) else {}


def _struct(types: Mapping[str, Any]) -> type:
    """A class of what has these keys and no others, each of its type; None for a key that is missing.

    Raises ValueError on keys that none can have.
    """
    names = {f"f{number}": key for number, key in enumerate(types)}
    fields = [(name, types[key], None) for name, key in names.items()]
    return msgspec.defstruct("Line", fields, rename=names, forbid_unknown_fields=True, gc=False)


def _each_once(texts: Sequence[msgspec.Raw | None]) -> list[Any]:
    """What they say, parsed once where equal ones follow each other. Raises what parsing raises."""
    found: list[Any] = []
    last = value = None
    for text in texts:
        if text != last:
            last, value = text, None if text is None else _spoken(text)
        found.append(value)
    return found


def _joined_texts(
    parts: Sequence[tuple[BegunTexts, Sequence[int]]],
) -> tuple[BegunTexts, list[int]]:
    """The texts of all pieces, and which rows have none."""
    odd: list[int] = []
    first = 0
    for texts, rows in parts:
        odd += [first + row for row in rows]
        first += len(texts.lengths())
    return BegunTexts.joined([texts for texts, _ in parts]), odd


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
