"""Where the level of a series changes most: a scan of means on either side of each place."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.series_noise import CAUTION, noise_of, without_outliers

AFTER: Final = (3, 5, 10, 20)
"""Values from a step on that are compared with those before it."""
BEFORE: Final = 16
"""Values before a step that are compared, or as many as after it: a curve that bends shows as a step
where the sides differ in length.
"""
LEAST_BEFORE: Final = 5
SPREAD_AFTER: Final = (3, 5, 10)
_MOST_CHANGES: Final = 5
_STEEP: Final = 0.9
_STEEP_SQUARE: Final = 2.706
"""This quantile of squares of a standard normal variable."""
MOST_Z: Final = 100.0


def scan(
    values: FloatArray, windows: tuple[int, ...], bounds: FloatArray, most: int = _MOST_CHANGES
) -> list[tuple[int, int, float]]:
    """(series, place, z) of changes of level beyond bounds, [K], the largest of each series first.

    values: [K, n]. One at a time: it is taken off, and what is left is looked at again.
    """
    hits: list[tuple[int, int, float]] = []
    active = np.arange(len(values))
    rest = values.copy()
    for _ in range(most):
        if not len(active):
            break
        place, z, size = largest(rest[active], windows)
        beyond = np.abs(z) > bounds[active]
        for row, at, of_row in zip(active[beyond], place[beyond], z[beyond], strict=True):
            hits.append((int(row), int(at), float(of_row)))
        active, place, size = active[beyond], place[beyond], size[beyond]
        rest[active] -= _step(values.shape[1], place, size)
    return hits


def largest(
    values: FloatArray, windows: tuple[int, ...]
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return [K] the place, z and size of the largest change of each series, [K, n], by the noise that is
    left once it is taken off.

    What is the largest is asked twice, of a series that wanders as much as it seems to with the change in
    it, and of one that does not wander: each is judged by what is left without it.
    """
    clipped = without_outliers(values)
    white, walk = noise_of(clipped)
    place: IntArray = np.zeros(len(values), np.int64)
    size, z = np.zeros(len(values)), np.zeros(len(values))
    for by, first in ((walk, windows), (np.zeros(len(values)), windows[:-1])):
        at, jump, _ = _best(clipped, white, by, first, None)
        rest = clipped - _step(values.shape[1], at, jump)
        own = _best(clipped, *noise_of(rest), windows, rest)
        better = np.abs(own[2]) > np.abs(z)
        place = np.where(better, own[0], place)
        size, z = np.where(better, own[1], size), np.where(better, own[2], z)
    return place, z, size


def _step(count: int, place: IntArray, size: FloatArray) -> FloatArray:
    """[K, count] nothing before a place, [K], and a size, [K], from there on."""
    return np.where(np.arange(count) >= place[:, np.newaxis], size[:, np.newaxis], 0.0)


def _best(
    values: FloatArray,
    white: FloatArray,
    walk: FloatArray,
    windows: tuple[int, ...],
    rest: FloatArray | None,
) -> tuple[IntArray, FloatArray, FloatArray]:
    """[K] place, size and z of the largest change by given noise. rest: what is left without a change,
    which tells what slopes are usual; None where none is known, and no slope is taken off.
    """
    count, rows = int(values.shape[1]), np.arange(len(values))
    sums = _summed(values)
    moments = _summed(values * np.arange(count))
    rests = None if rest is None else (_summed(rest), _summed(rest * np.arange(count)))
    top_place = np.full(len(values), LEAST_BEFORE)
    top_size, top = np.zeros(len(values)), np.zeros(len(values))
    for w in windows:
        if w > count // 3 and w > windows[0]:
            break
        at: IntArray = np.arange(LEAST_BEFORE, count - w + 1, dtype=np.int64)
        b = np.minimum(at, max(BEFORE, w))
        before, after = _sides(sums, w)
        size = after / w - before / b
        variance = white[:, None] * (1 / w + 1 / b) + walk[:, None] * _walk_part(w, b)
        # A slope that goes through both sides is no step; it is taken off as far as slopes are usual.
        if rests is not None:
            within, apart = (b**3 - b + w**3 - w) / 12, (b + w) / 2
            error = white[:, None] / within
            left = _slope(*rests, at, b, w) / within
            usual = np.quantile(left**2, _STEEP, axis=1) / _STEEP_SQUARE - np.median(error, axis=1)
            usual = np.maximum(usual - CAUTION * np.median(error, axis=1), 0.0)[:, None]
            share: FloatArray = usual / (usual + error)
            size -= share * _slope(sums, moments, at, b, w) / within * apart
            variance += (share**2 * error + (1 - share) ** 2 * usual) * apart**2
        z = size / np.sqrt(variance)
        best = np.argmax(np.abs(z), axis=1)
        better = np.abs(z[rows, best]) > np.abs(top)
        top_place = np.where(better, at[best], top_place)
        top_size = np.where(better, size[rows, best], top_size)
        top = np.where(better, z[rows, best], top)
    return top_place, top_size, np.clip(top, -MOST_Z, MOST_Z)


def _slope(sums: FloatArray, moments: FloatArray, at: IntArray, b: IntArray, w: int) -> FloatArray:
    """[K, places] sums of products of values and of places, both less their means on either side."""
    before, after = _sides(sums, w)
    return np.add(*_sides(moments, w)) - before * (at - (b + 1) / 2) - after * (at + (w - 1) / 2)


def _summed(values: FloatArray) -> FloatArray:
    """[K, n + 1] sums of the first 0, 1, ... n values."""
    return np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)


def _sides(sums: FloatArray, w: int) -> tuple[FloatArray, FloatArray]:
    """[K, places] sums over the values before each place and over the w from it on. sums: of _summed."""
    longest, count = max(BEFORE, w), sums.shape[1] - 1
    # Nothing is summed before the first value.
    earlier = np.pad(sums, ((0, 0), (longest, 0)))[:, LEAST_BEFORE : count - w + 1]
    own = sums[:, LEAST_BEFORE : count - w + 1]
    return own - earlier, sums[:, LEAST_BEFORE + w :] - own


def _walk_part(w: int, b: IntArray) -> FloatArray:
    return (w + 1) * (2 * w + 1) / (6 * w) + (b - 1) * (2 * b - 1) / (6 * b)
