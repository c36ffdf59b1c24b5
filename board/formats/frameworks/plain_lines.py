"""Many lines of JSON -> their records, or columns of them, as quickly as a parser for such lines can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import orjson

from board.errors import RecordError
from board.formats.block import Block
from board.formats.io.lines import Stretch
from board.formats.line_layout import LineLayout
from board.formats.parse import LARGE_LINE, parse_whole

try:
    import simdjson  # pyright: ignore[reportMissingImports]
except ImportError:  # pysimdjson has no wheel for every platform; orjson then does the work
    simdjson = None

_LONG_LINE: Final = 2048
"""From so many bytes on, on the average, simdjson takes less time than orjson; below it takes more."""
_MOST_MISSES: Final = 16
"""Stretches with lines of another layout than the first of them has; then it is no longer tried."""
_LONGEST_FLAT: Final = 4 << 10
_LONGEST: Final = 12 << 10
"""Longer lines, on the average, are parsed faster one by one: the first where simdjson does it."""

Record = dict[str, Any]


class PlainParser:
    """Parses lines that hold texts and numbers. Not to be used by two threads at once."""

    def __init__(self) -> None:
        self._simd: Any = simdjson.Parser() if simdjson is not None else None
        self._is_flat: bool | None = None

    def parse(self, lines: Sequence[bytes | memoryview | None]) -> list[Record | None]:
        """The records of lines as parse_whole has them; None for a line that takes a closer look.

        Those are lines that hold no JSON object, are blank, very long, or hold bytes that had to be
        mended.
        """
        texts = cast("Sequence[bytes]", lines)
        try:
            sizes = list(map(len, texts))
            if max(sizes) <= LARGE_LINE:
                records = self._parse_all(texts, sum(sizes) // len(sizes))
                if set(map(type, records)) == {dict}:
                    return records
        except (orjson.JSONDecodeError, TypeError):  # a line that was too long to be kept is None
            pass
        return [None if line is None else _one_plain(bytes(line)) for line in lines]

    def _parse_all(self, texts: Sequence[bytes], size: int) -> list[Any]:
        if self._simd is not None and size >= _LONG_LINE and self._are_flat(texts):
            parse = self._simd.parse
            try:
                return [parse(text, True) for text in texts]
            except (ValueError, RuntimeError):  # what one of both refuses, the other may take
                pass
        return list(map(orjson.loads, texts))

    def _are_flat(self, texts: Sequence[bytes]) -> bool:
        """Whether the first of all records held no other: simdjson, which keeps no keys, gains nothing
        there.
        """
        if self._is_flat is None:
            record: object = orjson.loads(texts[0])
            held = cast("Record", record).values() if isinstance(record, dict) else ()
            self._is_flat = not any(isinstance(value, list | dict) for value in held)
        return self._is_flat


class LineBlocks:
    """Makes blocks of the lines of one file; keeps what it learned about their layout."""

    def __init__(self) -> None:
        self._parser = PlainParser()
        self._layout: LineLayout | None = None
        self._misses = 0

    def block_of(self, stretch: Stretch) -> tuple[Block, Sequence[int]]:
        """The lines' records as a block, and where in the lines its rows stand.

        The others are left to a closer look.
        """
        return self._by_layout(stretch) or self._one_by_one(stretch.texts)

    def _by_layout(self, stretch: Stretch) -> tuple[Block, Sequence[int]] | None:
        longest = _LONGEST if simdjson is None else _LONGEST_FLAT
        if self._misses > _MOST_MISSES or stretch.size > longest * len(stretch.sizes):
            return None
        if self._layout is None:
            self._layout = self._learned(stretch)
        found = None if self._layout is None else self._layout.block_of(stretch)
        if found is None:
            self._misses += 1
            self._layout = None
        return found

    def _learned(self, stretch: Stretch) -> LineLayout | None:
        """The layout of the first line, which nearly all have."""
        text = stretch.line(0).text
        if not text:
            return None
        return LineLayout.of(text)

    def _one_by_one(
        self, lines: Sequence[bytes | memoryview | None]
    ) -> tuple[Block, Sequence[int]]:
        """As block_of."""
        records = self._parser.parse(lines)
        places = [place for place, record in enumerate(records) if record is not None]
        return Block.of([record for record in records if record is not None]), places


def _one_plain(line: bytes) -> Record | None:
    if len(line) > LARGE_LINE:
        return None
    try:
        record: object = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _plain_with_nan(line)
    return cast("Record", record) if isinstance(record, dict) else None


def _plain_with_nan(line: bytes) -> Record | None:
    """Of a line that orjson refuses; without lists, whose numbers may be too large."""
    if b"NaN" not in line and b"Infinity" not in line:
        return None
    try:
        record, mended = parse_whole(line)
    except RecordError:
        return None
    return None if mended or any(isinstance(v, list) for v in record.values()) else record
