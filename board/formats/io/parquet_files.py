"""Parquet files: a row is a rollout, or a table of them. Read a few hundred rows at a time.

A list of objects is there one struct with the keys of all of them: where calls have arguments x or y,
each call has both, one of them null. Nobody wrote these, and they are left out. What a null in such a
list was before nobody can tell; of a struct that is a column its members are kept, as columns are.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from board.formats.io.lines import Line, read_bytes
from board.formats.io.locations import Location, binary, is_confined
from board.formats.io.remote import RemoteLocation
from board.formats.sources import LFS_REASON, DamagedError, Row, Source, lfs_pointer

_MAGIC: Final = b"PAR1"
_MOST_AT_ONCE: Final = 4 << 30
"""Bytes of a batch if every value in it were as large as all of its column: one value may stand in a file
once, and in a million rows.
"""
_MOST_PACKED_AT_ONCE: Final = 64 << 20
_MANY_TIMES: Final = 50
"""What is packed more often than this is likely made to fill memory: the smaller bound is its own."""
_LISTS: Final = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_BUFFER: Final = 256 << 10
"""Bytes that a store is asked for at once, where columns of a row group are smaller than that."""


class ParquetFiles(Source):
    """One table per file. tells_nulls: whether rows have nulls of numbers alone: a column of text, of
    lists or of nothing has no key then, so that a missing number is told from anything else.
    """

    suffixes = (".parquet",)
    unpacks = 3

    def __init__(self, *, tells_nulls: bool = False) -> None:
        self._tells_nulls = tells_nulls

    def head(self, path: Location) -> Iterator[Line]:
        with _opened(path) as file:
            yield Row(0, 1, None, record=dict.fromkeys(file.schema_arrow.names))

    def lines(self, path: Location) -> Iterator[Line]:
        """The rows, read a batch at a time."""
        with _opened(path) as file:
            number = 0
            metadata = file.metadata
            size = sum(metadata.row_group(i).total_byte_size for i in range(file.num_row_groups))
            # So many rows as are 2 MB, where they are not repeated.
            few_megabytes = (2 << 20) * metadata.num_rows // max(size, 1)
            rows_wanted = _most_rows(file, min(max(few_megabytes, 64), 2048))
            for batch in file.iter_batches(batch_size=rows_wanted, use_threads=False):
                names = batch.schema.names
                optional = self._optional(batch.schema)
                for row in zip(*map(_values, batch.columns), strict=True):
                    record = _without_nulls(dict(zip(names, row, strict=True)), optional)
                    yield Row(number, 1, None, record=record)
                    number += 1

    def fetch(self, path: Location, offset: int, size: int) -> Line:
        return next(self.fetch_many(path, [(offset, size)]))

    def fetch_many(self, path: Location, places: Sequence[tuple[int, int]]) -> Iterator[Line]:
        numbers = np.array([offset for offset, _ in places])
        with _opened(path) as file:
            ends = np.cumsum(
                [0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))]
            )
            if len(numbers) and numbers[-1] >= ends[-1]:
                raise DamagedError("it has fewer rows than before")
            groups = np.searchsorted(ends, numbers, "right") - 1
            for group in np.unique(groups).tolist():
                first = int(ends[group])
                wanted = numbers[groups == group]
                for batch in file.iter_batches(batch_size=_most_rows(file), row_groups=[group]):
                    own = wanted[(wanted >= first) & (wanted < first + batch.num_rows)]
                    rows = batch.take(own - first)
                    optional = self._optional(batch.schema)
                    columns = zip(*map(_values, rows.columns), strict=True)
                    for number, row in zip(own.tolist(), columns, strict=True):
                        record = dict(zip(rows.schema.names, row, strict=True))
                        yield Row(number, 1, None, record=_without_nulls(record, optional))
                    first += batch.num_rows
                    if first > wanted[-1]:
                        break

    def _optional(self, schema: Any) -> frozenset[str]:
        """Columns whose nulls are left out."""
        fields = zip(schema.names, schema.types, strict=True) if self._tells_nulls else ()
        return frozenset(name for name, kind in fields if not _is_number(kind))


def _without_nulls(record: dict[str, Any], optional: frozenset[str]) -> dict[str, Any]:
    if not optional:
        return record
    return {key: value for key, value in record.items() if value is not None or key not in optional}


def _is_number(kind: Any) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def _is_odd(kind: Any) -> bool:
    tests = (
        pa.types.is_decimal,
        pa.types.is_temporal,
        pa.types.is_binary,
        pa.types.is_large_binary,
    )
    if any(test(kind) for test in (*tests, pa.types.is_fixed_size_binary)):
        return True
    return any(_is_odd(kind.field(number).type) for number in range(kind.num_fields))


def _as_json(value: Any) -> Any:
    """A value of a table as JSON has it: decimals as numbers, times as ISO 8601 has them, durations in
    seconds, bytes as text where they are UTF-8.
    """
    if isinstance(value, dict):
        return {key: _as_json(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_as_json(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, date | time):
        return value.isoformat()
    return _text_of(value) if isinstance(value, bytes) else value


def _text_of(value: bytes) -> bytes | str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value  # an image, of which the size is shown


def _values(column: Any) -> list[Any]:
    """The values as to_pylist gives them, those of a column of numbers in a tenth of the time."""
    kind = column.type
    has_all = _is_number(kind) and column.null_count == 0
    if has_all:
        return column.to_numpy().tolist()
    values = column.to_pylist(maps_as_pydicts="lossy")
    values = [*map(_as_json, values)] if _is_odd(kind) else values
    return [_without_gaps(value, kind) for value in values] if _has_gaps(column) else values


def _has_gaps(column: Any, *, is_member: bool = False) -> bool:
    """Whether a struct within the column has members that are null, those of the column itself aside."""
    kind = column.type
    if pa.types.is_struct(kind):
        members = [column.field(number) for number in range(kind.num_fields)]
        if is_member and any(member.null_count for member in members):
            return True
        return any(_has_gaps(member, is_member=True) for member in members)
    if any(test(kind) for test in _LISTS):
        return _has_gaps(column.values, is_member=True)
    return pa.types.is_map(kind) and _has_gaps(column.items, is_member=True)


def _without_gaps(value: Any, kind: Any, *, is_member: bool = False) -> Any:
    """A value of that type without the members of structs that are null, those of the column aside."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        members: list[Any] = [*cast("Any", kind)]
        return {
            member.name: _without_gaps(value[member.name], member.type, is_member=True)
            for member in members
            if value[member.name] is not None or not is_member
        }
    if any(test(kind) for test in _LISTS):
        return [_without_gaps(inner, kind.value_type, is_member=True) for inner in value]
    if pa.types.is_map(kind):
        return {
            key: _without_gaps(inner, kind.item_type, is_member=True)
            for key, inner in value.items()
        }
    return value


@contextmanager
def _opened(path: Location) -> Generator[Any]:
    """The file, with what is wrong with it said in words."""
    _check(path)
    if isinstance(path, RemoteLocation) or is_confined():
        content = binary(path, _BUFFER)
    else:  # pyarrow opens it itself
        open_file: Any = pa.OSFile  # its stub has no path of bytes
        content = open_file(os.fsencode(path))
    try:
        with content, pq.ParquetFile(content, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DamagedError(f"it is damaged: {str(error).splitlines()[0][:120]}") from error


def _check(path: Location) -> None:
    size = path.stat().st_size
    if size == 0:
        raise DamagedError("it is empty: its writer has not reached it yet, or was stopped")
    head = read_bytes(path, 0, 64)
    if lfs_pointer(head):
        raise DamagedError(LFS_REASON)
    if head[:4] != _MAGIC:
        raise DamagedError("it is not a Parquet file, despite its name")
    if size < 12 or read_bytes(path, size - 4, 4) != _MAGIC:
        raise DamagedError("it has no Parquet footer: it is still being written, or was cut off")


def _most_rows(file: Any, rows: int = 256) -> int:
    """At most so many rows, of which memory has room for a batch by what the footer says of columns."""
    for group in map(file.metadata.row_group, range(file.num_row_groups)):
        columns = [group.column(number) for number in range(group.num_columns)]
        unpacked = sum(column.total_uncompressed_size for column in columns)
        packed = sum(column.total_compressed_size for column in columns)
        most = _MOST_AT_ONCE if unpacked <= _MANY_TIMES * packed else _MOST_PACKED_AT_ONCE
        rows = min(rows, max(most // max(unpacked, 1), 1))
    return rows


PARQUET: Final = ParquetFiles()
