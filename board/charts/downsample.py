"""Fewer points, the same picture: extremes stay, and so do gaps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]


def keep_extremes(
    lows: Sequence[Floats], highs: Sequence[Floats], limit: int, keep: Sequence[int] = ()
) -> Rows:
    """Rows, ascending, that draw n points with about `limit`.

    Cuts the rows into equal buckets and keeps of each the smallest entry of every array in `lows`
    and the largest of every array in `highs` (all [n]); with a curve in both this is what an
    oscilloscope shows. Also kept: the first and last row, those in `keep`, and one row of every gap
    (NaN in an array) that would close otherwise, so the result may exceed `limit` where gaps are many.
    All rows are kept when n <= limit.
    """
    size = len(lows[0])
    if size <= limit:
        return np.arange(size)
    chosen = {0, size - 1, *keep}
    buckets = max(1, limit // (len(lows) + len(highs)))
    bounds = np.linspace(0, size, buckets + 1).astype(np.int64)
    for start, end in pairwise(bounds.tolist()):
        chosen.update(start + _lowest(array[start:end]) for array in lows)
        chosen.update(start + _lowest(-array[start:end]) for array in highs)
    rows = np.array(sorted(chosen), np.int64)
    gaps = [_closed_gaps(array, rows) for array in (*lows, *highs)]
    return np.unique(np.concatenate([rows, *gaps]))


def _lowest(values: Floats) -> int:
    """Place of the smallest entry, NaN left out; 0 when there is nothing else."""
    return int(np.argmin(np.where(np.isnan(values), np.inf, values)))


def _closed_gaps(values: Floats, rows: Rows) -> Rows:
    """A NaN row for each pair of neighbours in `rows` that has NaN between them and none at them."""
    missing = np.flatnonzero(np.isnan(values))
    if len(missing) == 0:
        return missing
    following = np.searchsorted(missing, rows[:-1], side="right")
    first = missing[np.minimum(following, len(missing) - 1)]
    inside = (first > rows[:-1]) & (first < rows[1:])
    return first[inside & ~np.isnan(values[rows[:-1]])]
