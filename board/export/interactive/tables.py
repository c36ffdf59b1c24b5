"""Arrow tables and a view in one run of bytes, which `js/tables.js` reads without Arrow.

The length of a JSON header (uint32, little-endian), the header, and the buffers, each at a multiple of
8 bytes from the end of the header. The header says of each column where its buffers are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from board.components import json_bytes

_ALIGNMENT: Final = 8
_KINDS: Final = {
    pa.float32(): ("Float32Array", "<f4"),
    pa.int32(): ("Int32Array", "<i4"),
    pa.bool_(): ("Uint8Array", "u1"),
}
"""Type of a column -> the array that JavaScript reads it as, and numpy's name for its numbers."""


def packed(data: Mapping[str, Any]) -> bytes:
    """What `board.components.reader.reader_data` gives: tables of texts, float32, int32 and bool."""
    buffers: list[bytes] = []
    tables = {
        name: {"rows": value.num_rows, "columns": _columns(value, buffers)}
        for name, value in data.items()
        if isinstance(value, pa.Table)
    }
    header = json_bytes({"view": data["view"], "tables": tables})
    header += b" " * (-(4 + len(header)) % _ALIGNMENT)
    return b"".join([len(header).to_bytes(4, "little"), header, *buffers])


def _columns(table: pa.Table, buffers: list[bytes]) -> dict[str, dict[str, Any]]:
    """The header's entry of each column; its buffers are appended."""

    def append(content: bytes) -> tuple[int, int]:
        """Where the content begins among the buffers, and its length."""
        start = sum(map(len, buffers))
        buffers.append(content + bytes(-len(content) % _ALIGNMENT))
        return start, len(content)

    columns: dict[str, dict[str, Any]] = {}
    for name in table.column_names:
        column: Any = table[name].combine_chunks()
        if pa.types.is_string(column.type):
            lengths = pc.binary_length(column).to_numpy(zero_copy_only=False)
            texts = "".join(column.to_pylist()).encode()
            columns[name] = {
                "kind": "text",
                "lengths": append(lengths.astype("<i4").tobytes()),
                "values": append(texts),
            }
            continue
        kind, dtype = _KINDS[column.type]
        numbers = column.fill_null(False if kind == "Uint8Array" else 0)
        columns[name] = {
            "kind": kind,
            "nulls": column.null_count,
            "values": append(numbers.to_numpy(zero_copy_only=False).astype(dtype).tobytes()),
        }
        if column.null_count:
            absent = column.is_null().to_numpy(zero_copy_only=False)
            columns[name]["absent"] = append(absent.astype("u1").tobytes())
    return columns
