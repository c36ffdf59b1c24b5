"""Where a series begins to grow: lines through what is before a place and what comes after."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.level_scan import AFTER, MOST_Z
from board.core.metrics.series_noise import noise_of, without_outliers

_TRIMMED_OF_SLOPES: Final = (0.4, 0.2145)
"""A slope that changes is in many second differences, in those at long lags in most."""
_LAGS_OF_SLOPES: Final = 3
SLOPES: Final = ((10, 10), (10, 20), (20, 20), (20, 40))
"""Values before a step and from it on, of which the slopes are compared."""
LEAST_OF_SLOPE: Final = 20
_AS_LARGE: Final = 0.5
_NEAR_BEGIN: Final = 12
_GROWN: Final = (6, 10, 16, 25, SLOPES[-1][1])
"""Steps for which a series may grow."""


def grown_to(values: FloatArray, place: int) -> float:
    """Where a series is after it has grown for some steps, at most as many as are compared."""
    end = min(place + SLOPES[-1][1], len(values))
    return float(values[max(end - AFTER[1], place) : end].mean())


def changes_of_slope(values: FloatArray) -> FloatArray:
    """[K, n] z of the change of slope at each place of series, [K, n]."""
    clipped = without_outliers(values)
    white, walk = noise_of(clipped, _TRIMMED_OF_SLOPES, _LAGS_OF_SLOPES)
    largest_z = np.zeros(values.shape)
    for before, after in SLOPES:
        if before + after > values.shape[1]:
            continue
        x = np.arange(before + after, dtype=np.float64)
        design = np.stack([np.ones_like(x), x, np.maximum(x - before + 1, 0.0)])
        weights: FloatArray = np.linalg.pinv(design.T)[2]
        # A step of the walk moves all values from it on.
        moved = np.cumsum(np.flip(weights))
        variance = white * float(weights @ weights) + walk * float(moved @ moved)
        windows = np.lib.stride_tricks.sliding_window_view(clipped, len(x), axis=1)
        z = (windows @ weights) / np.sqrt(variance)[:, None]
        part = largest_z[:, before : before + z.shape[1]]
        part[:] = np.where(np.abs(z) > np.abs(part), z, part)
    return np.clip(largest_z, -MOST_Z, MOST_Z)


def first_slope(z: FloatArray) -> int:
    """The place of the first change of slope [n] that is not much smaller than the largest: what grows
    may end to.
    """
    first = int(np.argmax(np.abs(z) >= _AS_LARGE * np.abs(z).max()))
    return first + int(np.argmax(np.abs(z[first : first + _NEAR_BEGIN])))


def begin_of_slope(values: FloatArray, place: int) -> int:
    """The first place, near this one, from which on values [n] grow, for some steps or to the end, by
    least squares.
    """
    first, last = max(place - SLOPES[-1][0], 0), min(place + SLOPES[-1][1], len(values))
    near = values[first:last]
    tried = range(max(place - _NEAR_BEGIN, first + 3), min(place + _NEAR_BEGIN, last - 3) + 1)
    misfits = {at: min(misfit(near, at - first, grown) for grown in _GROWN) for at in tried}
    begin = min(misfits, key=misfits.__getitem__, default=place)
    # Growth that is large later on pulls its begin to before it is seen.
    x = np.arange(first, begin)
    line = np.polynomial.Polynomial.fit(x, values[first:begin], 1)
    noise = float(np.std(values[first:begin] - line(x)))
    while begin < place + _NEAR_BEGIN and begin < last - 3:
        if abs(float(values[begin : begin + 2].mean() - line(begin + 0.5))) > noise:
            break
        begin += 1
    return begin


def misfit(values: FloatArray, place: int, grown: int = SLOPES[-1][1]) -> float:
    """What a line is off that bends at a place, and bends back once it has grown for some steps."""
    x = np.arange(len(values), dtype=np.float64)
    design = np.stack([np.ones_like(x), x, np.clip(x - place + 1, 0.0, grown)], axis=1)
    fitted: FloatArray = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())
