"""Fewer points, the same picture: extremes stay, and so do gaps."""

from __future__ import annotations

from collections.abc import Sequence

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
    buckets = max(1, limit // (len(lows) + len(highs)))
    starts = np.linspace(0, size, buckets + 1).astype(np.int64)[:-1]
    extremes = [_lowest(array, starts) for array in (*lows, *(-array for array in highs))]
    rows = np.unique(np.concatenate([np.array([0, size - 1, *keep], np.int64), *extremes]))
    gaps = [_closed_gaps(array, rows) for array in (*lows, *highs)]
    return np.unique(np.concatenate([rows, *gaps]))


def _lowest(values: Floats, starts: Rows) -> Rows:
    """The row of the smallest entry from each start to the next, NaN left out; the start itself when
    there is nothing else.
    """
    filled = np.where(np.isnan(values), np.inf, values)
    sizes = np.diff(np.append(starts, len(values)))
    rows = np.flatnonzero(filled == np.repeat(np.minimum.reduceat(filled, starts), sizes))
    return rows[np.searchsorted(rows, starts)]


def _closed_gaps(values: Floats, rows: Rows) -> Rows:
    """A NaN row for each pair of neighbours in `rows` that has NaN between them and none at them."""
    missing = np.flatnonzero(np.isnan(values))
    if len(missing) == 0:
        return missing
    following = np.searchsorted(missing, rows[:-1], side="right")
    first = missing[np.minimum(following, len(missing) - 1)]
    inside = (first > rows[:-1]) & (first < rows[1:])
    return first[inside & ~np.isnan(values[rows[:-1]])]
