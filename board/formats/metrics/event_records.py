"""Scalars in the records of TensorBoard's event files, thousands at once.

Records of one curve differ in the time, the step and the value alone: one of them is read field by field,
and all others that are equal to it but for those bytes are read by numpy. Fields, as tensorboard's protos
number them: of an Event wall_time 1, step 2, summary 5, session_log 7; of a SessionLog status 1; of a
Summary value 1; of a value tag 1, simple_value 2, tensor 8 and other kinds; of a tensor dtype 1,
tensor_shape 2, tensor_content 4, float_val 5, double_val 6; of a shape dim 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import FloatArray, IntArray, groups_of

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_START: Final = 1
"""Status of a session that begins: what is logged again from its step on counts."""
_KINDS: Final = frozenset((2, 3, 4, 5, 6, 8))
"""Fields of which a value has one at most: the last counts."""
_CODES: Final = {1: ("<f", 5), 2: ("<d", 6)}
"""By the type of a tensor how its numbers are written, and the field that they are in."""
_FEWEST: Final = 8
"""Records of one size that are worth numpy's overhead."""
_LONGEST: Final = 1024
_MOST_ROUNDS: Final = 32
_WORD: Final = 8
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class Scalar:
    """A number of an event: where its bytes begin, and how they are written."""

    tag: str
    value: float
    offset: int
    code: str


@dataclass(slots=True)
class Event:
    """An event. varying: ranges of bytes of its time and its step. starts: whether a session begins."""

    step: int = 0
    starts: bool = False
    step_at: tuple[int, int] | None = None
    varying: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    scalars: list[Scalar] = field(default_factory=list[Scalar])


@dataclass(frozen=True, slots=True)
class Scalars:
    """Numbers of many records, [n] each, in the order of the records. number: of the record; tag: among
    tags. starts: by number the step of each record that begins a session. broken: records that can't be
    read.
    """

    tags: list[str]
    number: IntArray
    tag: IntArray
    step: IntArray
    value: FloatArray
    starts: dict[int, int]
    broken: int


def scalars_of(content: bytes, offsets: IntArray, sizes: IntArray) -> Scalars:
    """The scalars of records of a block. offsets, sizes: of each record in `content`, [n]."""
    return _Decoder(content, offsets, sizes).scalars()


def read_event(content: bytes) -> Event:
    """An event, field by field. Raises ValueError where it is none."""
    event = Event()
    for number, kind, begin, end in _fields(content, 0, len(content)):
        if number == 1 and kind == _FIXED64:
            event.varying.append((begin, end))
        elif number == 2 and kind == _VARINT:
            event.step, event.step_at = _signed(content, begin, end), (begin, end)
        elif number == 5 and kind == _BYTES:
            event.scalars += _scalars_in(content, begin, end)
        elif number == 7 and kind == _BYTES:
            for inner, inner_kind, at, stop in _fields(content, begin, end):
                if inner == 1 and inner_kind == _VARINT:
                    event.starts = _varint(content, at, stop)[0] == _START
    if event.step_at is not None:
        event.varying.append(event.step_at)
    return event


def _scalars_in(content: bytes, begin: int, end: int) -> Iterator[Scalar]:
    """The values of a summary that are one number; images, texts and histograms are passed over."""
    for number, kind, at, stop in _fields(content, begin, end):
        if number != 1 or kind != _BYTES:
            continue
        tag, known = "", None
        for inner, inner_kind, first, last in _fields(content, at, stop):
            if inner == 1 and inner_kind == _BYTES:
                tag = content[first:last].decode()
            elif inner in _KINDS:
                known = None
                if inner == 2 and inner_kind == _FIXED32:
                    known = (first, "<f")
                elif inner == 8 and inner_kind == _BYTES:
                    known = _number_in_tensor(content, first, last)
        if known is not None:
            offset, code = known
            yield Scalar(tag, struct.unpack_from(code, content, offset)[0], offset, code)


def _number_in_tensor(content: bytes, begin: int, end: int) -> tuple[int, str] | None:
    """Where the one number of a tensor is, and how it is written; None of a tensor of another kind."""
    kind_of_tensor, has_dimensions = 0, False
    ranges: dict[int, list[tuple[int, int]]] = {}
    for number, kind, at, stop in _fields(content, begin, end):
        if number == 1 and kind == _VARINT:
            kind_of_tensor = _varint(content, at, stop)[0]
        elif number == 2 and kind == _BYTES:
            has_dimensions |= any(inner == 2 for inner, *_ in _fields(content, at, stop))
        elif number in (4, 5, 6) and kind in (_BYTES, _FIXED32, _FIXED64):
            ranges.setdefault(number, []).append((at, stop))
    if kind_of_tensor not in _CODES or has_dimensions:
        return None
    code, number = _CODES[kind_of_tensor]
    given = [one for one in ranges.get(number, []) if one[1] > one[0]] or ranges.get(4, [])[-1:]
    is_one = len(given) == 1 and given[0][1] - given[0][0] == struct.calcsize(code)
    return (given[0][0], code) if is_one else None


def _fields(content: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, kind, begin and end of each field of a message. Raises ValueError."""
    while at < end:
        key, at = _varint(content, at, end)
        kind, stop = key & 7, at
        if kind == _VARINT:
            _, stop = _varint(content, at, end)
        elif kind == _BYTES:
            size, at = _varint(content, at, end)
            stop = at + size
        elif kind in (_FIXED64, _FIXED32):
            stop = at + (8 if kind == _FIXED64 else 4)
        else:
            raise ValueError("a field of no known kind")
        if stop > end or not key >> 3:
            raise ValueError("a field that ends behind its message")
        yield key >> 3, kind, at, stop
        at = stop


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    """The number that begins at an offset, 7 bits a byte, and the offset after it. Raises ValueError."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & (2**64 - 1), at
    raise ValueError("a number without an end")


def _signed(content: bytes, begin: int, end: int) -> int:
    number, _ = _varint(content, begin, end)
    return number - 2**64 if number >= 2**63 else number


class _Decoder:
    """Reads the records of one block."""

    def __init__(self, content: bytes, offsets: IntArray, sizes: IntArray) -> None:
        self._content, self._offsets, self._sizes = content, offsets, sizes
        self._bytes = np.frombuffer(content + bytes(_LONGEST + _WORD), np.uint8)
        self._tags: dict[str, int] = {}
        self._parts: list[tuple[IntArray, IntArray, IntArray, FloatArray]] = []
        self._alone: list[tuple[int, int, int, float]] = []
        self._starts: dict[int, int] = {}
        self._broken = 0

    def scalars(self) -> Scalars:
        for size, numbers in groups_of(self._sizes):
            if len(numbers) < _FEWEST or size > _LONGEST:
                self._read_alone(numbers)
            else:
                self._read_together(numbers, size)
        alone = np.array(self._alone, np.dtype("i8,i8,i8,f8"))
        columns = [*self._parts, tuple(alone[name] for name in alone.dtype.names or ())]
        number, tag, step, value = (np.concatenate(own) for own in zip(*columns, strict=True))
        order = np.argsort(number, kind="stable")
        tags = [*self._tags]
        sorted_columns = (number[order], tag[order], step[order], value[order])
        starts = dict(sorted(self._starts.items()))
        return Scalars(tags, *sorted_columns, starts, self._broken)

    def _event(self, number: int) -> Event | None:
        """The event of a record; None where it can't be read, which is counted."""
        begin = int(self._offsets[number])
        try:
            return read_event(self._content[begin : begin + int(self._sizes[number])])
        except ValueError:
            self._broken += 1
            return None

    def _read_alone(self, numbers: IntArray) -> None:
        for number in numbers.tolist():
            if (event := self._event(number)) is not None:
                self._take(number, event)

    def _take(self, number: int, event: Event) -> None:
        if event.starts:
            self._starts[number] = event.step
        for scalar in event.scalars:
            self._alone.append((number, self._tag(scalar.tag), event.step, scalar.value))

    def _tag(self, tag: str) -> int:
        return self._tags.setdefault(tag, len(self._tags))

    def _read_together(self, numbers: IntArray, size: int) -> None:
        """Reads records of one size."""
        words = -(-size // _WORD)
        windows = np.lib.stride_tricks.sliding_window_view(self._bytes, words * _WORD)
        rows = windows[self._offsets[numbers]]
        for _ in range(_MOST_ROUNDS):
            if len(numbers) < _FEWEST:
                break
            event = self._event(int(numbers[0]))
            is_usual = event is not None and len(event.scalars) == 1 and not event.starts
            if event is None or not is_usual:
                if event is not None:
                    self._take(int(numbers[0]), event)
                numbers, rows = numbers[1:], rows[1:]
                continue
            is_read = self._read_like(event, numbers, rows, size)
            numbers, rows = numbers[~is_read], rows[~is_read]
        self._read_alone(numbers)

    def _read_like(
        self, event: Event, numbers: IntArray, rows: npt.NDArray[np.uint8], size: int
    ) -> npt.NDArray[np.bool_]:
        """Reads the records that are laid out as that event; which they are."""
        scalar, (begin, end) = event.scalars[0], event.step_at or (0, 0)
        last = np.arange(begin, end) == end - 1
        is_alike = ((rows[:, begin:end] < 0x80) == last).all(axis=1)  # steps of as many bytes
        rows, numbers = rows[is_alike], numbers[is_alike]
        width = struct.calcsize(scalar.code)
        mask = np.zeros(rows.shape[1], np.uint8)
        mask[:size] = 0xFF
        for first, stop in (*event.varying, (scalar.offset, scalar.offset + width)):
            mask[first:stop] = 0
        same = rows.view(np.uint64) & mask.view(np.uint64)
        keys = np.zeros(len(rows), np.uint64)
        for column in same.T:
            keys = (keys ^ column) * _PRIME
            keys ^= keys >> np.uint64(29)
        _, firsts, kinds = np.unique(keys, return_index=True, return_inverse=True)
        is_read = (same == same[firsts][kinds]).all(axis=1)
        tags = np.full(len(firsts), -1)
        for kind, number in enumerate(numbers[firsts].tolist()):
            other = self._event(number)
            if other is not None and _is_laid_out(other, event):
                tags[kind] = self._tag(other.scalars[0].tag)
            elif other is None:  # it is counted when it is read alone
                self._broken -= 1
        is_read &= tags[kinds] >= 0
        rows = rows[is_read]
        steps = np.zeros(len(rows), np.uint64)
        for place in range(begin, end):
            shift = np.uint64(7 * (place - begin))
            steps |= (rows[:, place] & np.uint8(0x7F)).astype(np.uint64) << shift
        of_value = np.ascontiguousarray(rows[:, scalar.offset : scalar.offset + width])
        values = of_value.view(scalar.code).ravel().astype(np.float64)
        own = (numbers[is_read], tags[kinds[is_read]], steps.view(np.int64), values)
        self._parts.append(own)
        is_alike[is_alike] = is_read
        return is_alike


def _is_laid_out(event: Event, like: Event) -> bool:
    """Whether the bytes of time, step and value of two events are at the same places."""
    if len(event.scalars) != 1 or event.starts:
        return False
    ours, theirs = event.scalars[0], like.scalars[0]
    places = (event.step_at, event.varying, ours.offset, ours.code)
    return places == (like.step_at, like.varying, theirs.offset, theirs.code)
