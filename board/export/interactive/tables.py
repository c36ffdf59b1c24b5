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
_KINDS: Final = {pa.float32(): "Float32Array", pa.int32(): "Int32Array", pa.bool_(): "Uint8Array"}


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
    columns: dict[str, dict[str, Any]] = {}
    for name in table.column_names:
        column: Any = table[name].combine_chunks()
        kind = "text" if pa.types.is_string(column.type) else _KINDS[column.type]
        columns[name] = {"kind": kind, "nulls": column.null_count}
        if kind == "text":
            lengths = pc.binary_length(column).to_numpy(zero_copy_only=False)
            columns[name]["lengths"] = _append(lengths.astype("<i4").tobytes(), buffers)
            columns[name]["values"] = _append("".join(column.to_pylist()).encode(), buffers)
            continue
        filled = column.fill_null(False if kind == "Uint8Array" else 0)
        columns[name]["values"] = _append(_little_endian(filled, kind), buffers)
        if column.null_count:
            absent = column.is_null().to_numpy(zero_copy_only=False)
            columns[name]["absent"] = _append(absent.astype("u1").tobytes(), buffers)
    return columns


def _little_endian(column: Any, kind: str) -> bytes:
    dtype = {"Float32Array": "<f4", "Int32Array": "<i4", "Uint8Array": "u1"}[kind]
    return column.to_numpy(zero_copy_only=False).astype(dtype).tobytes()


def _append(content: bytes, buffers: list[bytes]) -> tuple[int, int]:
    """Where the content begins among the buffers, and its length."""
    start = sum(map(len, buffers))
    buffers.append(content + bytes(-len(content) % _ALIGNMENT))
    return start, len(content)
