"""Which of many to look at, where all are too many."""

from __future__ import annotations

import numpy as np

from board.core.arrays import IntArray


def evenly_spaced(count: int, most: int) -> IntArray:
    """Up to `most` places of `count`, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
