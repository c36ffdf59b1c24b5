"""Rows of a log by key, before anybody knows what the keys mean."""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import itemgetter
from typing import Any, Final, cast

import numpy as np
import orjson
import pyarrow as pa

from board.core.records import FloatArray
from board.errors import RecordError
from board.formats.parse import LARGE_LINE, parse_whole
from board.formats.texts import Numbers, PlainTexts, Texts, Values, Words

_TEXT_TYPES: Final = frozenset({str, type(None)})

Line = bytes | memoryview | None
"""None: a line that was too long to be kept."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a log, one rollout each, by key. columns: by key, in the order of the first row's keys."""

    columns: Mapping[str, Any]
    """Values or Texts."""
    rows: int

    @classmethod
    def of(cls, records: Sequence[Mapping[str, Any]]) -> Block:
        """The block of parsed lines."""
        keys = list(records[0]) if records else []
        # Lines of one writer have the same keys, nearly always.
        if len(keys) > 1 and set(map(len, records)) == {len(keys)}:
            try:
                rows = map(itemgetter(*keys), records)
                return cls(
                    dict(zip(keys, map(list, zip(*rows, strict=True)), strict=True)), len(records)
                )
            except KeyError:
                pass
        keys = dict.fromkeys(chain.from_iterable(records))
        return cls({key: [r.get(key) for r in records] for key in keys}, len(records))

    def held(self, key: str) -> Any:
        """The values of a key as they are held; None in all rows without such a key."""
        return self.columns.get(key) or [None] * self.rows

    def values(self, key: str) -> Values:
        """As held, the values themselves."""
        return listed(self.held(key))

    def items(self) -> Iterator[tuple[str, Values]]:
        """The keys and their values."""
        return ((key, listed(values)) for key, values in self.columns.items())

    def row(self, place: int) -> dict[str, Any]:
        """One row as a mapping, a None for a key it has no value for."""
        return {key: values[place] for key, values in self.items()}


def listed(values: Values | Texts) -> Values:
    """The values of a column of a block, one for each row."""
    return values.whole() if isinstance(values, Texts) else values


def as_texts(values: Values | Texts) -> Texts:
    """The values as texts, if they are not."""
    return values if isinstance(values, Texts) else PlainTexts(values)


def kept_rows(values: Any, kept: list[bool] | None) -> Any:
    """The values of the rows that are kept, a list or an array; None: of all."""
    if kept is None:
        return values
    if isinstance(values, np.ndarray):
        return cast("FloatArray", values)[np.array(kept)]
    if isinstance(values, pa.Array):
        return values.filter(pa.array(kept, pa.bool_()))
    if isinstance(values, Numbers):
        return values.kept(kept)
    found: Values = list(compress(cast("Values", values), kept))
    return Words(found) if isinstance(values, Words) else found


def parse_block(lines: Sequence[Line]) -> tuple[Block, Sequence[int]]:
    """Lines of JSON as a block, and which of the lines its rows are; the others are for `parse_whole`."""
    records = parse_plain_lines(lines)
    places = [place for place, record in enumerate(records) if record is not None]
    block = Block.of([record for record in records if record is not None])
    columns = {
        key: Words(values) if _TEXT_TYPES.issuperset(map(type, values)) else values
        for key, values in block.columns.items()
    }
    return Block(columns, block.rows), places


def parse_plain_lines(lines: Sequence[Line]) -> list[dict[str, Any] | None]:
    """The records of lines as `parse_whole` has them; None for a line that it must look at: one that
    holds no JSON object, is blank or very long, or holds bytes that had to be mended.
    """
    try:
        texts = cast("Sequence[bytes]", lines)
        if max(map(len, texts), default=0) <= LARGE_LINE:
            records = list(map(orjson.loads, texts))
            if set(map(type, records)) == {dict}:
                return records
    except (orjson.JSONDecodeError, TypeError):  # a line that was too long is None
        pass
    return [None if line is None else _parse_plain_line(bytes(line)) for line in lines]


def _parse_plain_line(line: bytes) -> dict[str, Any] | None:
    if len(line) > LARGE_LINE:
        return None
    try:
        record: object = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _parse_line_with_nan(line)
    return cast("dict[str, Any]", record) if isinstance(record, dict) else None


def _parse_line_with_nan(line: bytes) -> dict[str, Any] | None:
    """A line that orjson refuses; None for lists, whose numbers may be too large."""
    if b"NaN" not in line and b"Infinity" not in line:
        return None
    try:
        record, mended = parse_whole(line)
    except RecordError:
        return None
    return None if mended or any(isinstance(v, list) for v in record.values()) else record
