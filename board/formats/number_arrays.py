"""One line of JSON -> a dict in which flat arrays of numbers are not parsed until asked for.

From one whole parse the parser learns which top-level keys hold such arrays and in which order they come;
in the next lines it finds each by its key, cuts it out, and parses the small rest. Each cut leaves a
placeholder behind: if the key does not hold that placeholder in the parsed rest, then something else was
cut (a nested object of the same key, say), and the line is parsed whole. What is not looked into is not
checked either: a fault inside an array that no column needs is named when the rollout is opened.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, cast

import numpy as np
import orjson

from board.core.arrays import FloatArray
from board.core.records import NumberArray, Parsed
from board.errors import RecordError
from board.formats.parse import (
    LARGE_LINE,
    is_list,
    is_object,
    kind_of,
    loads_tolerantly,
    parse_plain_lines,
    parse_whole,
    refuse_crowd,
)

try:
    import simdjson  # pyright: ignore[reportMissingImports]
except ImportError:  # pysimdjson has no wheel for every platform; orjson then does the work
    simdjson = None

MOST_EXACT: Final = 1 << 53
"""Integers up to this size are held by a float with all of their digits."""
_COMMA: Final = np.uint8(ord(","))
_SPACE: Final = np.uint8(ord(" "))
_ZERO: Final = np.uint8(ord("0"))
LONG_ARRAY_BYTES: Final = 64 << 10
_SAMPLE: Final = 64
_ENTRY_BYTES: Final = 24
"""Few arrays have longer entries, on average."""
_PLACEHOLDER: Final = b"-7.0313e-301"
_PLACEHOLDER_VALUE: Final = float(_PLACEHOLDER)
_MAX_PLANS: Final = 4
_MOST_LAYOUTS: Final = 16
"""Lines of so many layouts that fit no plan as a whole are looked into for another."""
_NUMBERS: Final = frozenset({int, float})

_Plan = tuple[tuple[str, bytes, bytes], ...]
"""Keys of arrays in the order of a line, with the bytes that introduce and that end them."""
_END, _END_OF_TEXTS = b"]", b'"]'
_ENDS_OF_KEYS: Final = (b'":', b'" :', b'"\t:')
"""Where one of texts seems to hold such, its end may be that of another array, and a key between them."""

_number_parser: Any = simdjson.Parser() if simdjson is not None else None


class RawNumbers:
    """A flat JSON array of numbers that is still bytes [begin, end) of its line. A NumberArray.

    Nothing is copied or counted before it is asked for: a scan looks into half of the arrays.
    """

    __slots__ = ("_begin", "_end", "_length", "_line")

    def __init__(self, line: bytes, begin: int = 0, end: int | None = None) -> None:
        self._line = line
        self._begin = begin
        self._end = len(line) if end is None else end
        self._length: int | None = None

    @property
    def raw(self) -> bytes:
        """The array as it is written, brackets included."""
        return self._line[self._begin : self._end]

    def __len__(self) -> int:
        if self._length is None:
            # bytes.count would stop at each comma.
            codes = np.frombuffer(self._line, np.uint8, self._end - self._begin, self._begin)
            commas = int(np.count_nonzero(codes == _COMMA))
            self._length = commas + 1 if commas or self.raw[1:-1].strip() else 0
        return self._length

    def only_nulls(self) -> bool:
        """Whether there are entries and all of them are null: an array that was not recorded."""
        if self._line[self._begin + 1] not in b"n \t\r":  # nearly all arrays
            return False
        beginning = self._line[self._begin + 1 : min(self._begin + 16, self._end)]
        return beginning.lstrip().startswith(b"null") and self.raw.count(b"null") == len(self)

    def values(self) -> FloatArray:
        """float64 [len(self)]; null and NaN are NaN. Raises RecordError on anything but numbers."""
        raw = self.raw
        digits = _single_digits(raw)
        if digits is not None:
            return digits
        if _number_parser is not None:
            try:
                buffer = _number_parser.parse(raw).as_buffer(of_type="d")
                return np.frombuffer(buffer, np.float64)
            except (ValueError, TypeError, RuntimeError):
                pass  # null, true, false, NaN: legal here, and not for as_buffer
        text = raw.decode("utf-8", "replace")
        for parse in (orjson.loads, loads_tolerantly):
            with suppress(ValueError, RecursionError):
                return numbers_from_list(cast("list[Any]", parse(text)))
        raise RecordError("is not a JSON array", hint="a list of numbers")

    def first(self, count: int) -> FloatArray:
        """values()[:count], the others not being parsed."""
        end = min(self._begin + count * _ENTRY_BYTES, self._end - 1)
        entries = self._line[self._begin + 1 : end].split(b",", count)
        if len(entries) <= count and end < self._end - 1:
            return self.values()[:count]
        return RawNumbers(b"[" + b",".join(entries[:count]) + b"]").values()

    def sampled(self) -> list[Any]:
        """A list of the same length whose first entries are those of the array, and all others the last
        of these: it tells the type of the entries, in a fifth of the memory. Raises RecordError.
        """
        few = self.raw[1:-1].split(b",", _SAMPLE)[:_SAMPLE]
        entries: list[Any] = parse_whole(b'{"few":[%b]}' % b",".join(few))[0]["few"]
        return entries + entries[-1:] * (len(self) - len(entries))

    def last(self, count: int) -> FloatArray:
        """values()[-count:], the others not being parsed."""
        begin = max(self._end - count * _ENTRY_BYTES, self._begin + 1)
        entries = self._line[begin : self._end - 1].rsplit(b",", count)
        if len(entries) <= count and begin > self._begin + 1:
            return self.values()[-count:]
        return RawNumbers(b"[" + b",".join(entries[-count:]) + b"]").values()


def values_together(arrays: Sequence[RawNumbers]) -> tuple[FloatArray, list[int]] | None:
    """The values of all arrays, one after the other, and how many each has; None where one of them has
    anything but numbers, which is for `values` to look at.
    """
    if _number_parser is None:
        return None
    raw = b"[" + b",".join([array.raw for array in arrays]) + b"]"
    try:
        parsed = _number_parser.parse(raw)
        lengths = list(map(len, parsed))
        return np.frombuffer(parsed.as_buffer(of_type="d"), np.float64), lengths
    except (ValueError, TypeError, RuntimeError):
        return None


def lengths_together(arrays: Sequence[RawNumbers]) -> list[int]:
    """The lengths of all arrays, which takes less than to ask each for its own."""
    raws = [array.raw for array in arrays]
    commas = np.flatnonzero(np.frombuffer(b"".join(raws), np.uint8) == _COMMA)
    counts = np.diff(np.searchsorted(commas, np.cumsum([0, *map(len, raws)]))).tolist()
    return [count + 1 if count else len(array) for count, array in zip(counts, arrays, strict=True)]


def _single_digits(raw: bytes) -> FloatArray | None:
    """The values of an array of single digits, as masks are, in a quarter of a parser's time.

    None where it holds anything else, or other separators than a comma with or without a space.
    """
    width = 3 if raw[2:4] == b", " else 2
    count, remainder = divmod(len(raw) - 1 + (width == 3), width)
    if remainder or count < 2 or raw[2:3] != b",":
        return None
    codes = np.frombuffer(raw, np.uint8)
    digits = codes[1:-1:width] - _ZERO  # what is below the digits wraps round to what is above them
    if digits.max() > 9 or (codes[2:-1:width] != _COMMA).any():
        return None
    if width == 3 and (codes[3:-1:width] != _SPACE).any():
        return None
    return digits.astype(np.float64)


def first_values(array: NumberArray, count: int) -> FloatArray:
    """The first entries of an array, at most `count`, parsed; raises RecordError as values() does."""
    return array.first(count) if isinstance(array, RawNumbers) else array.values()[:count]


def last_values(array: NumberArray, count: int) -> FloatArray:
    """The last entries of an array, at most `count`, parsed; raises RecordError as values() does."""
    return array.last(count) if isinstance(array, RawNumbers) else array.values()[-count:]


def numbers_from_list(entries: list[Any]) -> FloatArray:
    """float64 [len(entries)]; None is NaN, and numbers written as text are taken.

    Raises RecordError on other text, objects and nested lists.
    """
    try:
        # A quarter of numpy's time, which looks for lists in lists first.
        return np.frombuffer(bytearray(struct.pack(f"{len(entries)}d", *entries)), np.float64)
    except (struct.error, OverflowError):
        pass  # null, text, a list
    try:
        array = np.array(entries, np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise RecordError(
            "holds something that is not a number", hint="a flat list of numbers"
        ) from error
    if array.ndim != 1:
        raise RecordError("is a list of lists", hint="a flat list of numbers")
    return array


def as_numbers(value: object) -> NumberArray | None:
    """The NumberArray in a parsed value; None for null and for lists of nulls (not recorded).

    Raises RecordError for anything that is neither a list of numbers nor null.
    """
    if is_list(value):
        if value and value[0] is None and all(entry is None for entry in value):
            return None
        return Parsed(numbers_from_list(value))
    if isinstance(value, RawNumbers):
        return None if value.only_nulls() else value
    if isinstance(value, Parsed | None):
        return value
    raise RecordError(f"is {kind_of(value)}", hint="a list of numbers")


class LineParser:
    """Parses the lines of one file; keeps what it learned about their layout. Threads may share one.

    leaves_texts: arrays of texts are cut out, too, for whoever looks at neither.
    """

    def __init__(self, *, leaves_texts: bool = False) -> None:
        self._leaves_texts = leaves_texts
        self._plans: tuple[_Plan, ...] = ()
        self._other_layouts: set[tuple[_Plan | str, ...]] = set()

    def parse(self, line: bytes) -> tuple[dict[str, Any], bool]:
        """The record of a line, long flat arrays as RawNumbers; else as `parse_whole`."""
        refuse_crowd(line)
        plans = self._plans
        for plan in plans:
            record = _seek(line, plan)
            if record is not None:
                if plan is not plans[0]:
                    self._prefer(plan)
                if self._has_new_arrays(plan, record):
                    self._learn(line, parse_whole(line)[0])
                return record, False
        plan = tuple(_long_arrays(line)) if len(line) > LARGE_LINE else ()
        if plan and (record := _seek(line, plan)) is not None:
            self._prefer(plan)
            return record, False
        record, mended = parse_whole(line)
        self._learn(line, record)
        return record, mended

    def _learn(self, line: bytes, record: dict[str, Any]) -> None:
        if plan := tuple(_flat_arrays(line, record, with_texts=self._leaves_texts)):
            self._prefer(plan)

    def _prefer(self, plan: _Plan) -> None:
        plans = (plan, *(other for other in self._plans if other != plan))
        # The one of most arrays first: lines that have them all fit those of fewer as well. A new tuple
        # each time: another thread may be at the one before.
        self._plans = tuple(sorted(plans, key=len, reverse=True)[:_MAX_PLANS])

    def _has_new_arrays(self, plan: _Plan, record: dict[str, Any]) -> bool:
        """Whether a line that fits a plan has arrays that are not in it, as none had before."""
        names = [
            key
            for key, value in record.items()
            if is_list(value) and value and type(value[0]) in _NUMBERS
        ]
        layout = (plan, *names)
        if not names or len(self._other_layouts) >= _MOST_LAYOUTS or layout in self._other_layouts:
            return False
        self._other_layouts.add(layout)
        return True

    def parse_plain(
        self, lines: Sequence[bytes | memoryview | None]
    ) -> list[dict[str, Any] | None]:
        """The records of lines, long flat arrays as RawNumbers; None for a line that takes a closer look.

        Arrays are parsed as long as none are found in the first or last of the lines.
        """
        for line in (*lines[:1], *lines[-1:]):
            if not self._plans and line is not None:
                self._one_plain(bytes(line))
        if not self._plans:
            return parse_plain_lines(lines)
        return [None if line is None else self._one_plain(bytes(line)) for line in lines]

    def _one_plain(self, line: bytes) -> dict[str, Any] | None:
        try:
            record, mended = self.parse(line)
        except RecordError:
            return None
        return None if mended else record


def _flat_arrays(
    line: bytes, record: dict[str, Any], *, with_texts: bool
) -> Iterator[tuple[str, bytes, bytes]]:
    """Top-level keys that hold flat arrays of numbers, or of texts, with the exact bytes around them."""
    for key, value in record.items():
        if not isinstance(value, list) or not value or isinstance(value[0], list | dict):
            continue
        if (is_text := isinstance(value[0], str)) and not with_texts:
            continue
        for separator in (b":[", b": [", b" : ["):
            introduction = orjson.dumps(key) + separator
            if line.count(introduction) == 1:
                yield key, introduction, _END_OF_TEXTS if is_text else _END
                break


def _long_arrays(line: bytes) -> Iterator[tuple[str, bytes, bytes]]:
    """What _flat_arrays gives, of keys anywhere in a line that nobody has parsed: parsed, a long array
    takes ten times the memory.
    """
    colon = -1
    while (colon := line.find(b'":', colon + 1)) >= 0:
        begin = colon + (3 if line[colon + 2 : colon + 3] == b" " else 2)
        if line[begin : begin + 1] != b"[":
            continue
        end = line.find(_END, begin)
        if end - begin > LONG_ARRAY_BYTES and line.find(b'"', begin, end) < 0:
            quote = line.rfind(b'"', 0, colon)
            key = line[quote + 1 : colon].decode("utf-8", "replace")
            yield key, line[quote : begin + 1], _END
            colon = end


def _seek(line: bytes, plan: _Plan) -> dict[str, Any] | None:
    """The record, its arrays cut out by `plan`; None when the line does not fit the plan."""
    if b"\0" in line:  # a block that was never written, perhaps within an array that nobody parses
        return None
    parts: list[bytes] = []
    cuts: list[RawNumbers] = []
    position, find = 0, line.find
    for _, introduction, ending in plan:
        start = find(introduction, position)
        begin = start + len(introduction) - 1
        end = find(_END, begin)
        if (
            ending is _END_OF_TEXTS and line[end - 1 : end] != b'"'
        ):  # of two bytes the search is slow
            end = find(ending, end) + 1
        if start < 0 or end <= 0:
            return None
        end += 1
        # Texts may hold anything: where one ends like the array, what is left of it is no JSON.
        if ending is _END:
            if find(b'"', begin, end) >= 0 or find(b"{", begin, end) >= 0:
                return None
            if find(b"[", begin + 1, end) >= 0:
                return None
        elif find(b":", begin, end) >= 0 and any(
            find(code, begin, end) >= 0 for code in _ENDS_OF_KEYS
        ):
            return None
        parts += (line[position:begin], _PLACEHOLDER)
        cuts.append(RawNumbers(line, begin, end))
        position = end
    parts.append(line[position:])
    try:
        record: object = orjson.loads(b"".join(parts))
    except orjson.JSONDecodeError:
        return None
    if not is_object(record):
        return None
    for (key, _, _), array in zip(plan, cuts, strict=True):
        if record.get(key) != _PLACEHOLDER_VALUE:
            return None
        record[key] = array
    return record


def is_exact(array: NumberArray) -> bool:
    """Whether no number of an array is so large that a float may lose digits of it."""
    with suppress(RecordError):
        values = array.values()
        return not np.any(np.abs(values[np.isfinite(values)]) >= MOST_EXACT)
    return True


def begins_exact(numbers: RawNumbers | Sequence[Any]) -> bool:
    """The same of the first number alone, which most such arrays tell it by."""
    if isinstance(numbers, RawNumbers):
        with suppress(RecordError):
            return all(abs(number) < MOST_EXACT for number in numbers.first(1) if number == number)
        return True
    return all(abs(number) < MOST_EXACT for number in numbers[:1] if number is not None)
