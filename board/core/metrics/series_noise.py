"""How much a series wanders, and how much noise is on it, from its second differences."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray

_CLEARLY: Final = 0.5
TRIMMED: Final = (0.05, 0.759)
"""Part of the values that is furthest from the mean, and a normal distribution's variance without it."""
_CLIP: Final = 4.0
"""A single value further from the median of its neighbours, in standard deviations, is moved there: it is
an outlier and no level."""
CAUTION: Final = 0.5
_MOST_LAGS: Final = 4
_FURTHEST: Final = 2.0
_LONGEST: Final = 100
_SHRUNK: Final = 80
"""Few values hardly tell the walk: it is taken nearer to none, as if so many more values had none."""
_ROUNDING: Final = 1e-6
_STEADY: Final = 0.6
"""Part of the differences that are 0 where a series is constant but for its steps."""


def stabilised(values: FloatArray) -> FloatArray:
    """[K, n] logarithms of positive series whose noise grows with their level, the others as they are."""
    result = values.copy()
    positive = np.flatnonzero(values.min(axis=1) > 0)
    logs = np.log(values[positive])
    is_even = _unevenness(logs) + _CLEARLY < _unevenness(values[positive])
    result[positive[is_even]] = logs[is_even]
    return result


def _unevenness(values: FloatArray) -> FloatArray:
    """[K] how far, as a logarithm, noise at high levels and at low ones of a series differ."""
    noise = (values[:, 2:] - 2 * values[:, 1:-1] + values[:, :-2]) ** 2
    order = np.argsort(values[:, 1:-1], axis=1)
    half = order.shape[1] // 2
    low, high = (
        np.median(np.take_along_axis(noise, part, axis=1), axis=1)
        for part in (order[:, :half], order[:, -half:])
    )
    return np.abs(np.log((high + 1e-300) / (low + 1e-300)))


def without_outliers(values: FloatArray) -> FloatArray:
    """Values no further from the median of five neighbours than _CLIP standard deviations."""
    padded = np.pad(values, ((0, 0), (2, 2)), mode="reflect")
    a, b, c, d, e = (padded[:, i : i + values.shape[1]] for i in range(5))
    low, high = np.minimum(a, b), np.maximum(a, b)
    low, high = np.maximum(low, np.minimum(c, d)), np.minimum(high, np.maximum(c, d))
    # Of two pairs the larger of the small and the smaller of the large are about the middle.
    five = np.maximum(np.minimum(low, high), np.minimum(np.maximum(low, high), e))
    allowed = _CLIP * _scale(np.diff(values, axis=1))[:, None] / np.sqrt(2)
    return np.clip(values, five - allowed, five + allowed)


def _scale(values: FloatArray) -> FloatArray:
    """[K] the standard deviation about 0 of rows, without those that are furthest."""
    return np.sqrt(mean_square(values))


def mean_square(values: FloatArray, trimmed: tuple[float, float] = TRIMMED) -> FloatArray:
    """[K] mean squares of rows, without those that are furthest from 0, as of a normal distribution."""
    unique = values.shape[1] - max(int(np.ceil(trimmed[0] * values.shape[1])), 1)
    squares = np.partition(values**2, unique - 1, axis=1)[:, :unique]
    return squares.mean(axis=1) / trimmed[1]


def noise_of(
    values: FloatArray, trimmed: tuple[float, float] = TRIMMED, most_lags: int = _MOST_LAGS
) -> tuple[FloatArray, FloatArray]:
    """[K] variances of independent noise and of a step of the walk, of series [K, n]."""
    count = values.shape[1]
    lags = 2 ** np.arange(max(int(np.log2(count / 6)), 1) + 1)[:most_lags]
    # Second differences: a smooth rise is neither.
    seconds = (
        values[:, 2 * h :] - 2 * values[:, h:-h] + values[:, : -2 * h] for h in lags.tolist()
    )
    sixths = np.stack([mean_square(one, trimmed) / 6 for one in seconds])
    # Those at long lags are of fewer values that are independent.
    weights = (1 / lags)[:, None]
    middle = (weights * lags[:, None]).sum() / weights.sum()
    centred = lags[:, None] - middle
    walk = 3 * (weights * centred * sixths).sum(axis=0) / (weights * centred**2).sum()
    level = (weights * sixths).sum(axis=0) / weights.sum()
    white: FloatArray = np.maximum(level - np.maximum(walk, 0) * middle / 3, 0.0)
    walk = np.maximum(walk + CAUTION * white / count, 0.0) * count / (count + _SHRUNK)
    # A walk takes values away from their mean: by q n / 6 of variance over n steps. What comes back to
    # it does so within some.
    most = _FURTHEST * 6 * np.maximum(values.var(axis=1) - sixths[0], 0.0) / min(count, _LONGEST)
    most += CAUTION * white / count
    larger: FloatArray = np.maximum(level - most * middle / 3, white)
    white = np.where(walk > most, larger, white)
    walk = np.minimum(walk, most)
    # What is constant but for rounding has noise of its rounding.
    least = (_ROUNDING * np.abs(values).max(axis=1)) ** 2 + 1e-300
    is_steady = (np.diff(values, axis=1) ** 2 <= least[:, None]).mean(axis=1) >= _STEADY
    return np.where(is_steady, least, np.maximum(white, least)), np.where(is_steady, 0.0, walk)
