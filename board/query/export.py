"""Rollouts as CSV or Parquet, with their whole texts, written in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from board.errors import ChoiceError
from board.query.rollouts import Sorting, batches
from board.query.run_rows import RunRows
from board.query.selection import Selection

LARGEST_BYTES: Final = 512 << 20
"""What is written is in memory until the browser has it."""
_BATCH_ROLLOUTS: Final = 2048
_TEXTS: Final = ("prompt", "response", "ref_response", "ground_truth")
_LEFT_OUT: Final = frozenset(("file", "offset", "size"))


def write_csv(
    selection: Selection, sorting: Sorting, out: BinaryIO, harmless: Callable[[Any], Any]
) -> None:
    """All columns of some rollouts in their order, texts whole.

    harmless: makes a cell text for a spreadsheet that would run it as a formula. Raises ChoiceError when
    more than LARGEST_BYTES would be written.
    """
    for number, frame in enumerate(_frames(selection, sorting)):
        text = frame.map(harmless).rename(columns=harmless).to_csv(index=False, header=number == 0)
        out.write(text.encode("utf-8", "replace"))
        _must_be_small(out)


def write_parquet(selection: Selection, sorting: Sorting, out: BinaryIO) -> None:
    """As write_csv; step and index are whole numbers, other numbers float64, the rest texts."""
    writer: pq.ParquetWriter | None = None
    for frame in _frames(selection, sorting):
        schema = _schema(selection.rows, frame)
        writer = writer or pq.ParquetWriter(out, schema, compression="zstd")
        arrays = [_array(frame[field.name], field.type) for field in schema]
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        _must_be_small(out)
    if writer is not None:
        writer.close()


def _frames(selection: Selection, sorting: Sorting) -> Iterator[pd.DataFrame]:
    columns = [name for name in selection.columns if name not in _LEFT_OUT]
    columns = list(dict.fromkeys([*columns, *_TEXTS]))
    return batches(selection, columns, _TEXTS, sorting, size=_BATCH_ROLLOUTS)


def _schema(rows: RunRows, frame: pd.DataFrame) -> pa.Schema:
    words = {column.name for column in rows.columns if column.words} | set(_TEXTS)

    def kind(name: str) -> pa.DataType:
        if name in words:
            return pa.string()
        return pa.int64() if name in ("step", "index", "line") else pa.float64()

    return pa.schema([(str(name), kind(str(name))) for name in frame])


def _array(values: pd.Series[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        return pa.array([_text(value) for value in values], kind)
    return pa.array(values.to_numpy(np.float64, na_value=np.nan), from_pandas=True).cast(kind)


def _text(value: Any) -> str | None:
    """A text as UTF-8 can hold it: half a sign of two parts becomes a replacement mark."""
    if value is None or (not isinstance(value, str) and pd.isna(value)):
        return None
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _must_be_small(out: BinaryIO) -> None:
    if out.tell() > LARGEST_BYTES:
        raise ChoiceError(
            f"the export is larger than {LARGEST_BYTES >> 20} MB; filter the list, or use "
            "`rollout-board rollouts --csv`"
        )
