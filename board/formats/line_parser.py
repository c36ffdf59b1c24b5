"""One line of JSON -> a dict in which flat arrays of numbers are not parsed until asked for.

Most bytes of a rollout log are arrays of numbers, and a scan needs few of them. From one whole parse
the parser learns which top-level keys hold such arrays and in which order they come; in the next lines
it finds each by its key, cuts it out, and parses the small rest. Each cut leaves a placeholder behind:
if the key does not hold that placeholder in the parsed rest, then something else was cut (a nested
object of the same key, say), and the line is parsed whole. So a wrong guess costs time, never a value.
What is not looked into is not checked either: a line whose only fault is inside an array that no column
needs is a rollout in the table, and the fault is named when the rollout is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import orjson

from board.errors import RecordError
from board.formats.number_arrays import RawNumbers
from board.formats.parse import parse_whole, refuse_crowd

_PLACEHOLDER: Final = b"-7.0313e-301"
_PLACEHOLDER_VALUE: Final = float(_PLACEHOLDER)
_MAX_PLANS: Final = 4
_MOST_LAYOUTS: Final = 16
"""Lines of so many layouts that fit no plan as a whole are looked into for another."""
_NUMBERS: Final = frozenset({int, float})

_Plan = tuple[tuple[str, bytes], ...]
"""Keys of arrays in the order of a line, with the bytes that introduce them."""


class LineParser:
    """Parses the lines of one file; keeps what it learned about their layout. Threads may share one.

    needed: keys of arrays whose values are asked for in every line.
    """

    def __init__(self, needed: Sequence[str] = ()) -> None:
        self._needed = frozenset(needed)
        self._plans: tuple[_Plan, ...] = ()
        self._beside: set[tuple[_Plan | str, ...]] = set()
        self._looked = False

    def parse(self, line: bytes) -> tuple[dict[str, Any], bool]:
        """The record of a line, long flat arrays as RawNumbers; else as `parse_whole`."""
        refuse_crowd(line)
        plans = self._plans
        for plan in plans:
            record = _seek(line, plan, self._needed)
            if record is not None:
                if plan is not plans[0]:
                    self._prefer(plan)
                if self._is_new_beside(plan, record):
                    self._learn(line, parse_whole(line)[0])
                return record, False
        record, mended = parse_whole(line)
        self._learn(line, record)
        return record, mended

    def _learn(self, line: bytes, record: dict[str, Any]) -> None:
        if plan := tuple(_flat_arrays(line, record)):
            self._prefer(plan)

    def _prefer(self, plan: _Plan) -> None:
        plans = (plan, *(other for other in self._plans if other != plan))
        # The one of most arrays first: lines that have them all fit those of fewer as well. A new tuple
        # each time: another thread may be at the one before.
        self._plans = tuple(sorted(plans, key=len, reverse=True)[:_MAX_PLANS])

    def _is_new_beside(self, plan: _Plan, record: dict[str, Any]) -> bool:
        """Whether a line that fits a plan has arrays that are not in it, as none had before."""
        names = [
            key for key, value in record.items() if type(value) is list and _is_of_numbers(value)
        ]
        if not names or len(self._beside) >= _MOST_LAYOUTS or (plan, *names) in self._beside:
            return False
        self._beside.add((plan, *names))
        return True

    def parse_plain(
        self, lines: Sequence[bytes | memoryview | None]
    ) -> list[dict[str, Any] | None] | None:
        """The records of lines, long flat arrays as RawNumbers; None for a line that takes a closer look.

        None altogether where no line was found that has such arrays.
        """
        if not self._plans and not self._learns(lines):
            return None
        return [None if line is None else self._one_plain(bytes(line)) for line in lines]

    def _learns(self, lines: Sequence[bytes | memoryview | None]) -> bool:
        """Whether the first of the lines has arrays that are worth being cut out."""
        if self._looked or not lines or lines[0] is None:
            return False
        self._looked = True
        self._one_plain(bytes(lines[0]))
        return bool(self._plans)

    def _one_plain(self, line: bytes) -> dict[str, Any] | None:
        try:
            record, mended = self.parse(line)
        except RecordError:
            return None
        return None if mended else record


def _is_of_numbers(values: Any) -> bool:
    return bool(values) and type(values[0]) in _NUMBERS


def _flat_arrays(line: bytes, record: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Top-level keys that hold flat arrays of numbers, with the exact bytes that introduce them."""
    for key, value in record.items():
        if not isinstance(value, list) or not value or isinstance(value[0], str | list | dict):
            continue
        for separator in (b":[", b": [", b" : ["):
            introduction = orjson.dumps(key) + separator
            if line.count(introduction) == 1:
                yield key, introduction
                break


def _seek(line: bytes, plan: _Plan, needed: frozenset[str] = frozenset()) -> dict[str, Any] | None:
    """The record, its arrays cut out by `plan`; None when the line does not fit the plan."""
    if b"\0" in line:  # a block that was never written, perhaps within an array that nobody parses
        return None
    rest: list[bytes] = []
    cuts: list[RawNumbers] = []
    position, find = 0, line.find
    for key, introduction in plan:
        found = find(introduction, position)
        begin = found + len(introduction) - 1
        end = find(b"]", begin) + 1
        if found < 0 or end <= 0:
            return None
        inner = begin + 1
        if (
            find(b'"', inner, end) >= 0
            or find(b"{", inner, end) >= 0
            or find(b"[", inner, end) >= 0
        ):
            return None
        rest += (line[position:begin], _PLACEHOLDER)
        cuts.append(RawNumbers(line, begin, end, needed=key in needed))
        position = end
    rest.append(line[position:])
    try:
        record = orjson.loads(b"".join(rest))
    except orjson.JSONDecodeError:
        return None
    if not isinstance(record, dict):
        return None
    fields = cast("dict[str, Any]", record)
    for (key, _), array in zip(plan, cuts, strict=True):
        if fields.get(key) != _PLACEHOLDER_VALUE:
            return None
        fields[key] = array
    return fields
