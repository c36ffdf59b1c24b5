"""The arrays that numbers, places and masks are in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def with_length(values: npt.ArrayLike, length: int) -> FloatArray:
    """[length] the values: cut off there, or padded with NaN; as they are where they fit."""
    own = np.asarray(values, np.float64)[:length]
    if len(own) == length:
        return own
    return np.pad(own, (0, length - len(own)), constant_values=np.nan)


def groups_of(values: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Each value of an array [n], ascending, and the places at which it stands, ascending."""
    order = np.argsort(values, kind="stable")
    known, firsts = np.unique(values[order], return_index=True)
    bounds = [*firsts.tolist(), len(order)]
    for value, begin, end in zip(known.tolist(), bounds[:-1], bounds[1:], strict=True):
        yield value, order[begin:end]


def divided(total: npt.NDArray[Any], count: npt.NDArray[Any]) -> FloatArray:
    """Quotients of two arrays of one shape; NaN where there is nothing to divide by."""
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
