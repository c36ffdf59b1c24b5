"""The arrays that numbers, places and masks are in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def divided(total: npt.NDArray[Any], count: npt.NDArray[Any]) -> FloatArray:
    """Quotients of two arrays of one shape; NaN where there is nothing to divide by."""
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
