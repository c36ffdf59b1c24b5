"""Rows of rollouts as they are stored, of which a column is made into numbers when it is looked at."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.index import segments
from board.index.segments import Column
from board.index.shown_columns import GAP


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
        return segments.frame_of(self.table, held, derived)

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
