"""Many lines of JSON -> their records, as quickly as there is a parser for lines of their length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import orjson

from board.errors import RecordError
from board.readers.parse import LARGE_LINE, parse_whole

try:
    import simdjson  # pyright: ignore[reportMissingImports]
except ImportError:  # pysimdjson has no wheel for every platform; orjson then does the work
    simdjson = None

_LONG_LINE: Final = 2048
"""From so many bytes on, on the average, simdjson takes less time than orjson; below it takes more."""

Record = dict[str, Any]


class PlainParser:
    """Parses lines that hold texts and numbers. Not to be used by two threads at once."""

    def __init__(self) -> None:
        self._simd: Any = simdjson.Parser() if simdjson is not None else None

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
        if self._simd is not None and size >= _LONG_LINE and _is_flat(orjson.loads(texts[0])):
            parse = self._simd.parse
            try:
                return [parse(text, True) for text in texts]
            except (ValueError, RuntimeError):  # what one of both refuses, the other may take
                pass
        return list(map(orjson.loads, texts))


def _is_flat(record: object) -> bool:
    """Whether a record holds no other: simdjson, which keeps no keys, gains nothing there."""
    held = cast("Record", record).values() if isinstance(record, dict) else ()
    return not any(isinstance(value, list | dict) for value in held)


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
