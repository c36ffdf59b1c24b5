"""Which of many to look at, where all are too many, and how many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from board.core.arrays import IntArray

_CHUNK_ROWS: Final = 250_000


def evenly_spaced(count: int, most: int) -> IntArray:
    """Up to `most` places of `count`, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


def step_ranges(counts: Mapping[int, int], rows: int = 0) -> Iterator[tuple[int, int]]:
    """Ranges of these steps, which are ascending, of about so many rollouts if no step has more."""
    steps, size = list(counts), 0
    first = steps[0] if steps else 0
    for number, step in enumerate(steps):
        size += counts[step]
        if size >= (rows or _CHUNK_ROWS) or number == len(steps) - 1:
            yield first, step
            first, size = step + 1, 0
