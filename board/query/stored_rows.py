"""Rows of rollouts as they are stored, of which a column is made into numbers when it is looked at."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.index import segments
from board.index.segments import Column
from board.query.rollout_columns import GAP


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of some steps. columns: that the run has, those of the table among them. indices: [rows] the
    index of each within its step.
    """

    columns: Sequence[Column]
    table: pa.Table
    indices: npt.NDArray[np.int32]

    def only(self, keep: npt.NDArray[np.bool_]) -> StoredRows:
        """Some of the rows. keep: [rows] which."""
        return replace(self, table=self.table.filter(pa.array(keep)), indices=self.indices[keep])

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """[rows] a column as numbers, NaN where it has none or is not there.

        A frame of it would take longer to make than the column to read.
        """
        column = next((column for column in self.columns if column.name == name), None)
        if column is not None and not column.texts and name in self.table.column_names:
            return self.table.column(name).cast(pa.float64()).to_numpy()
        stored = f"{segments.NUMBER}{name}"
        if column is not None and not column.texts and stored in self.table.column_names:
            return self.table.column(stored).to_numpy()
        return numbers(self.frame((name,)), name)

    def frame(self, names: Collection[str] | None = None) -> pd.DataFrame:
        """Columns of the run by their names, derived ones too; None: all. Those that the table lacks are
        not recorded in any row.
        """
        derived: dict[str, Any] = {"index": self.indices}
        if names is None or GAP in names:
            derived[GAP] = self._numbers("reward") - self._numbers("ref_reward")
        held = [column for column in self.columns if names is None or column.name in names]
        return frame_of(self.table, held, derived)

    def _numbers(self, name: str) -> npt.NDArray[np.float64]:
        if name not in self.table.column_names:
            return np.full(self.table.num_rows, np.nan)
        return self.table.column(name).to_pandas().to_numpy(np.float64)


def numbers(rows: pd.DataFrame, column: str) -> npt.NDArray[np.float64]:
    """[rows] a column as numbers, NaN where it has none or is not there."""
    values = rows.get(column)
    if values is None or not pd.api.types.is_numeric_dtype(values):
        return np.full(len(rows), np.nan)
    return values.to_numpy(np.float64, na_value=np.nan)


def frame_of(
    table: pa.Table, columns: Sequence[Column], derived: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """The table as a frame with these columns; a column that it lacks is not recorded in any row.

    derived: columns that are not of the table, by name, in place of those of that name.

    Whole numbers are int64 where all rows have one and else float64; a logged key is of numbers where
    no row of the run holds a word under it.
    """
    series: dict[str, Any] = {}
    for column in columns:
        if derived is not None and column.name in derived:
            series[column.name] = derived[column.name]
            continue
        held = [name for name in segments.stored_names(column) if name in table.column_names]
        arrays = [table.column(name) for name in held]
        series[column.name] = _series(column, arrays, table.num_rows)
    return pd.DataFrame(series)


def _series(column: Column, arrays: list[pa.ChunkedArray], rows: int) -> Any:
    name = column.name
    if not arrays:
        missing = pa.nulls(rows, pa.string() if column.words else pa.float64())
        arrays = [pa.chunked_array([missing])]
    if name in segments.CATEGORIES:
        return _category(arrays[0])
    if column.words:
        texts = [
            array.to_pandas().astype("str") if _is_text(array) else _told(array) for array in arrays
        ]
        return texts[0] if len(texts) == 1 else texts[0].fillna(texts[1])
    if len(arrays) == 1 and not _is_text(arrays[0]):
        values = arrays[0].to_numpy()
        return values if values.dtype.kind == "i" else values.astype(np.float64, copy=False)
    numbers = [_numbers_said(array) for array in arrays]
    whole = numbers[0] if len(numbers) == 1 else numbers[0].fillna(numbers[1])
    return whole if pd.api.types.is_integer_dtype(whole.dtype) else whole.astype("float64")


def _numbers_said(array: pa.ChunkedArray) -> pd.Series[Any]:
    """The values as numbers, NaN where there is none; of texts each different one is looked at once."""
    if not _is_text(array) or not len(array):
        return pd.to_numeric(array.to_pandas())
    encoded = pa.concat_arrays(array.chunks).dictionary_encode()
    values = pd.to_numeric(encoded.dictionary.to_pandas()).to_numpy()
    if array.null_count:
        values = np.append(values.astype(np.float64), np.nan)
    return pd.Series(values[encoded.indices.fill_null(-1).to_numpy()])


def _is_text(array: pa.ChunkedArray) -> bool:
    return pa.types.is_string(array.type)


def _told(numbers: pa.ChunkedArray) -> Any:
    return numbers.to_pandas().map(str, na_action="ignore").astype("str")


def _category(texts: pa.ChunkedArray) -> Any:
    """Texts as a category whose values are in order, as pandas would have it."""
    import pandas as pd

    values = sorted(value for value in pc.unique(texts).to_pylist() if value is not None)
    codes = pc.index_in(texts, pa.array(values, pa.string())).fill_null(-1)
    return pd.Categorical.from_codes(codes.to_numpy().astype("int32"), pd.Index(values))
