"""Filtering and sorting the table of rollouts."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.core.records import FloatArray
from board.errors import ChoiceError
from board.store.text_order import first_texts, text_order, whole_order


@dataclass(frozen=True, slots=True)
class Filter:
    """What a row must meet.

    one_of: column -> values, one of which it must have. bounds: column -> (lowest, highest), both
    included; -inf and inf are no bound. A row without a value meets no condition on it.
    """

    one_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    bounds: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )


class _Columns(Protocol):
    """A table of rollouts, in memory or not."""

    @property
    def columns(self) -> Any: ...

    def __len__(self) -> int: ...

    def __contains__(self, name: Any, /) -> bool: ...

    def __getitem__(self, name: Any, /) -> Any: ...


def meeting(rows: _Columns, wanted: Filter) -> npt.NDArray[np.bool_]:
    """[rows] which meet every condition. Raises ChoiceError for a column that is not there."""
    keep = np.ones(len(rows), bool)
    for column, values in wanted.one_of.items():
        keep &= _column(rows, column).astype(str).isin(values).to_numpy(bool)
    for column, (low, high) in wanted.bounds.items():
        keep &= _column(rows, column).between(low, high).to_numpy(bool)
    return keep


def filtered(rows: pd.DataFrame, wanted: Filter) -> pd.DataFrame:
    """The rows that meet every condition. Raises ChoiceError for a column that is not there."""
    return rows[meeting(rows, wanted)]


def ordered(
    rows: pd.DataFrame, column: str, *, descending: bool = False, limit: int | None = None
) -> pd.DataFrame:
    """The rows sorted by a column, ties in their order, rows without a value last either way.

    limit: the first so many of them only, which spares moving all the others.
    """
    return rows.iloc[order_by(_column(rows, column), descending=descending, limit=limit)]


def places_by(
    rows: _Columns,
    column: str,
    among: npt.NDArray[np.bool_] | None = None,
    *,
    descending: bool = False,
    limit: int | None = None,
) -> npt.NDArray[np.intp]:
    """[n] the places of rows in the order of a column, as `ordered` has it. among: [rows] which; None:
    all. Raises ChoiceError for a column that is not there.
    """
    values = _column(rows, column)
    if among is None or among.all():
        return order_by(values, descending=descending, limit=limit)
    places = np.flatnonzero(among)
    return places[order_by(values.iloc[places], descending=descending, limit=limit)]


def order_by(
    values: pd.Series[Any], *, descending: bool = False, limit: int | None = None
) -> npt.NDArray[np.intp]:
    """[n] the places of a column's values in their order, as `ordered` has it; [limit] the first ones."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = _ranks(values)
    if values.dtype == np.int64 and limit is None:
        return whole_order(values.to_numpy(), descending=descending)
    if pd.api.types.is_numeric_dtype(values.dtype):
        numbers = values.to_numpy(np.float64, na_value=np.nan)
        return _first(-numbers if descending else numbers, limit)
    if isinstance(values.dtype, pd.StringDtype):
        texts = pa.chunked_array(pa.array(values))
        if limit is not None and limit < len(values):
            return first_texts(texts, limit, descending=descending)
        return text_order(texts, descending=descending)
    values = values.reset_index(drop=True)
    order = values.sort_values(ascending=not descending, kind="stable", na_position="last").index
    return order[:limit].to_numpy()


def _first(keys: FloatArray, limit: int | None) -> npt.NDArray[np.intp]:
    """Positions in ascending order of the keys, NaN last, ties in their order; the first `limit`."""
    if limit is None or limit >= len(keys):
        return np.argsort(keys, kind="stable")
    last = np.partition(keys, limit)[limit]
    candidates = np.arange(len(keys)) if np.isnan(last) else np.flatnonzero(keys <= last)
    return candidates[np.argsort(keys[candidates], kind="stable")][:limit]


def _ranks(values: pd.Series[Any]) -> pd.Series[Any]:
    """The place of each category among all in their order; NaN where there is no value."""
    places = pd.Series(values.cat.categories.argsort().argsort(), dtype="float64")
    codes = values.cat.codes
    return places.reindex(codes.where(codes >= 0, len(places))).set_axis(values.index)


def _column(rows: _Columns, column: str) -> pd.Series:
    if column not in rows:
        raise ChoiceError(f"there is no column {column!r}; there are {', '.join(rows.columns)}")
    return rows[column]
