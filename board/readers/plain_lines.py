"""Many lines of JSON -> their records, or columns of them, as quickly as a parser for such lines can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, Final, cast

import orjson

from board.errors import RecordError
from board.readers.block import Block
from board.readers.line_layout import LineLayout
from board.readers.lines import Stretch
from board.readers.parse import LARGE_LINE, parse_whole
from board.readers.texts import LongText, begun_texts

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
_AT_ONCE: Final = 64
"""Lines whose records are there at a time."""

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

    def __init__(
        self,
        long_texts: Mapping[str, LongText],
        of_numbers: Sequence[str] = (),
        unread: Sequence[str] = (),
    ) -> None:
        """long_texts: of these keys the blocks have what a table needs. Others as of LineLayout."""
        self._long_texts = long_texts
        self._apart = of_numbers, unread
        self._parser = PlainParser()
        self._layout: LineLayout | None = None
        self._misses = 0

    def block_of(self, stretch: Stretch) -> tuple[Block, Sequence[int]]:
        """The lines' records as a block, and where in the lines its rows stand.

        The others are left to a closer look.
        """
        return self._by_layout(stretch) or self._one_by_one(stretch.texts)

    def _by_layout(self, stretch: Stretch) -> tuple[Block, Sequence[int]] | None:
        is_flat = simdjson is not None and not self._long_texts
        longest = _LONGEST_FLAT if is_flat else _LONGEST
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
        following = stretch.line(1).text if len(stretch.sizes) > 1 else None
        return LineLayout.of(text, following, self._long_texts, *self._apart)

    def _one_by_one(
        self, lines: Sequence[bytes | memoryview | None]
    ) -> tuple[Block, Sequence[int]]:
        """As block_of; of long texts a few lines are parsed at a time and let go of, so that all of it
        stays in the processor's cache.
        """
        blocks: list[Block] = []
        places: list[int] = []
        at_once = _AT_ONCE if self._long_texts else len(lines)
        for start in range(0, len(lines), at_once):
            records = self._parser.parse(lines[start : start + at_once])
            whole = [record for record in records if record is not None]
            found = [place for place, record in enumerate(records, start) if record is not None]
            block, kept = _without_long_texts(Block.of(whole), self._long_texts)
            blocks.append(block)
            places += found if kept is None else compress(found, kept)
        return Block.joined(blocks), places


def _without_long_texts(
    block: Block, long_texts: Mapping[str, LongText]
) -> tuple[Block, list[bool] | None]:
    """The block with the beginnings of its long texts, and which of its rows it has; None: all."""
    columns, odd = dict(block.columns), set[int]()
    for key, kind in long_texts.items():
        if key in columns:
            columns[key], rows = begun_texts(block.values(key), kind)
            odd.update(rows)
    begun = Block(columns, block.rows)
    if not odd:
        return begun, None
    kept = [row not in odd for row in range(block.rows)]
    return begun.kept(kept), kept


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
