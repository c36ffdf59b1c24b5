"""At which steps the level of a series changes, beyond how it wanders from step to step.

A series is taken as a level that wanders by itself, a random walk, under noise that is independent from
step to step (the local level model: Harvey 1989, Forecasting, Structural Time Series Models, 2.2). With
n the variance of the noise and q that of a step of the walk, y[t + h] - 2 y[t] + y[t - h] has the mean
square 6 n + 2 q h, which tells both. The mean of the w values from a step on and that of the b values
before it differ with variance

    n (1/w + 1/b) + q ((w + 1)(2 w + 1) / (6 w) + (b - 1)(2 b - 1) / (6 b)),

and a change is where that difference is far beyond it for any w: a scan by likelihood ratio with the
long-run variance of the series itself. What learning does, a smooth rise, is no change: a slope that both
sides have is taken off, as far as slopes are usual in the series. How far is "far" is simulated
(critical_values.toml, benchmarks/change_points.py), by the number of steps, for the rate of false alarms
that is asked over all steps and series.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray

Kind = Literal["level", "spread", "slope"]

AFTER: Final = (3, 5, 10, 20)
"""Values from a step on that are compared with those before it."""
_BEFORE: Final = 16
"""Values before a step that are compared, or as many as after it: a curve that bends shows as a step
where the sides differ in length.
"""
LEAST_BEFORE: Final = 5
LEAST: Final = 12
"""Values of a series; fewer tell nothing."""
SPREAD_AFTER: Final = (3, 5, 10)
_BLOCK: Final = 5
LEAST_OF_SPREAD: Final = 61
_CLEARLY: Final = 0.5
_OF_SPREAD: Final = 0.2
_MOST_CHANGES: Final = 5
_AT_ONCE: Final = 40_000
_TRIMMED: Final = (0.05, 0.759)
"""Part of the values that is furthest from the mean, and a normal distribution's variance without it."""
_TRIMMED_OF_SLOPES: Final = (0.4, 0.2145)
"""A slope that changes is in many second differences."""
_CLIP: Final = 4.0
"""A single value further from the median of its neighbours, in standard deviations, is moved there: it is
an outlier and no level."""
_STEEP: Final = 0.9
_STEEP_SQUARE: Final = 2.706
"""This quantile of squares of a standard normal variable."""
_CAUTION: Final = 0.5
_MOST_LAGS: Final = 4
_FURTHEST: Final = 2.0
_LONGEST: Final = 100
_SHRUNK: Final = 80
"""Few values hardly tell the walk: it is taken nearer to none, as if so many more values had none."""
_ROUNDING: Final = 1e-6
MOST_Z: Final = 100.0
SLOPES: Final = ((10, 10), (10, 20), (20, 20), (20, 40))
"""Values before a step and from it on, of which the slopes are compared."""
_OF_SLOPE: Final = 0.3
_STEADY: Final = 0.6
"""Part of the differences that are 0 where a series is constant but for its steps."""
_SHARP: Final = 20
_SHARPER: Final = 0.8
"""What two levels leave of the values near a change is at most this part of what a line leaves."""
_LEVEL: Final = 12
_NEAR: Final = 3
_OF_MEANS: Final = 0.4
"""Part of a change of means that the medians have, too: else it is a few values that are far away."""


@dataclass(frozen=True, slots=True)
class Change:
    """series: its place among those that were looked at. place: of the first value after the change.
    before, after: means of the values near it; of a spread, standard deviations of one value; of a slope,
    what the series has grown to. z: the change in its standard errors.
    """

    series: int
    place: int
    kind: Kind
    before: float
    after: float
    z: float


def changes(
    values: FloatArray, rate: FloatArray, of_spread: BoolArray, of_slope: BoolArray | None = None
) -> list[Change]:
    """Changes of level, spread and slope of every series, [K, S], by series and place; NaN is left out.

    rate: [K] of false alarms, of each series by itself: their sum is that of any of them (Bonferroni).
    of_spread: [K] series whose spread is looked at, which one in five false alarms is spent on. of_slope:
    [K] series that begin to grow only where something is wrong, which three in ten are spent on.
    """
    grows = np.zeros(len(values), bool) if of_slope is None else of_slope
    hits: list[Change] = []
    known = np.isfinite(values)
    counts = known.sum(axis=1)
    for rows in _batches(counts):
        places = np.array([np.flatnonzero(known[row]) for row in rows.tolist()])
        own = np.take_along_axis(values[rows], places, axis=1)
        level_rate = rate[rows] * (1 - _OF_SPREAD * of_spread[rows] - _OF_SLOPE * grows[rows])
        levels = _found(own, rows, places, "level", level_rate)
        slopes = _slopes(own, rows, places, rate[rows] * _OF_SLOPE, np.flatnonzero(grows[rows]))
        hits += _explained_best(own, rows, places, levels, slopes)
        if (deviation := of_spread[rows]).any():
            asked = own[deviation], rows[deviation], places[deviation]
            hits += _found(*asked, "spread", rate[rows[deviation]] * _OF_SPREAD)
    return sorted(hits, key=lambda one: (one.series, one.place))


def _batches(counts: IntArray) -> Iterator[IntArray]:
    """Series of equal numbers of values, as many at a time as a processor's cache holds."""
    for count in np.unique(counts[counts >= LEAST]).tolist():
        rows = np.flatnonzero(counts == count)
        yield from np.array_split(rows, -(-len(rows) * count // _AT_ONCE))


def _found(
    values: FloatArray, rows: IntArray, places: IntArray, kind: Kind, rate: FloatArray
) -> list[Change]:
    """values: [K, n] of series that all have n; rows: [K] which; places: [K, n] of the values."""
    if kind == "spread" and values.shape[1] < LEAST_OF_SPREAD:
        return []
    scaled = stabilised(values)
    looked_at = scaled if kind == "level" else log_squares(scaled)
    windows = AFTER if kind == "level" else SPREAD_AFTER
    rates, of_row = np.unique(rate, return_inverse=True)
    bounds = np.array([critical_value(values.shape[1], kind, one) for one in rates.tolist()])
    hits: list[Change] = []
    for row, place, z in scan(looked_at, windows, bounds[of_row]):
        at = place if kind == "level" else _step_of_spread(scaled[row], place)
        at = _begin_of_level(scaled[row], at) if kind == "level" else at
        before, after = _around(values[row], at, kind)
        if any(hit.series == rows[row] and hit.place == places[row, at] for hit in hits):
            continue
        if kind == "level" and not _is_clear(values[row], at, after - before):
            continue
        hits.append(Change(int(rows[row]), int(places[row, at]), kind, before, after, z))
    return hits


def _around(values: FloatArray, place: int, kind: Kind) -> tuple[float, float]:
    before, after = values[max(place - _BEFORE, 0) : place], values[place : place + _BEFORE]
    if kind == "level":
        return float(before.mean()), float(after.mean())
    of_each = (float(np.sqrt(np.mean(np.diff(one) ** 2) / 2)) for one in (before, after))
    return next(of_each), next(of_each)


def _is_clear(values: FloatArray, place: int, size: float) -> bool:
    """Whether a change is of most values, sharp, and not of the first few: these are of the start."""
    before, after = values[max(place - _BEFORE, 0) : place], values[place : place + _BEFORE]
    medians = float(np.median(after) - np.median(before))
    moves = medians * np.sign(size) >= _OF_MEANS * abs(size)
    return place >= LEAST_BEFORE and moves and _is_sharp(values, place)


def _begin_of_level(values: FloatArray, place: int) -> int:
    """The place within some steps at which two levels fit best."""
    first, last = max(place - _LEVEL, 0), min(place + _LEVEL, len(values))
    near = values[first:last]
    tried = range(max(place - _NEAR, first + 2), min(place + _NEAR, last - 2) + 1)
    return min(tried, key=lambda at: _off_levels(near, [at - first]), default=place)


def _off_levels(values: FloatArray, places: Sequence[int]) -> float:
    """The sum of squares of values about their means between places."""
    return sum(float(((own - own.mean()) ** 2).sum()) for own in np.split(values, places))


def _is_sharp(values: FloatArray, place: int) -> bool:
    """Whether two levels fit the values near a place better than a line, as a rise is."""
    first = max(place - _SHARP, 0)
    near = values[first : place + _SHARP]
    x = np.arange(len(near)) - (len(near) - 1) / 2
    centred = near - near.mean()
    off_line = float(centred @ centred) - float(x @ centred) ** 2 / float(x @ x)
    return _off_levels(near, [place - first]) < _SHARPER * off_line


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


def log_squares(values: FloatArray) -> FloatArray:
    """[K, n // _BLOCK] logarithms of mean squares of _BLOCK successive differences: their level is the
    spread.
    """
    squares = np.diff(values, axis=1) ** 2
    least = 1e-4 * _mean_square(np.sqrt(squares))[:, None] + 1e-300
    count = squares.shape[1] // _BLOCK
    blocks = squares[:, : count * _BLOCK].reshape(len(squares), count, _BLOCK)
    return np.log(blocks.mean(axis=2) + least)


def _step_of_spread(values: FloatArray, block: int) -> int:
    """The place near the beginning of a block from which on differences of values [n] are larger or
    smaller, by the likelihood of two variances.
    """
    middle = block * _BLOCK
    first, last = max(middle - _BEFORE, 0), min(middle + _BEFORE, len(values) - 1)
    squares = np.diff(values)[first:last] ** 2 + 1e-300
    near = np.arange(max(_BEFORE - _BLOCK, 2), min(_BEFORE + _BLOCK, len(squares) - 2) + 1)
    sums, counts = np.cumsum(squares), np.arange(1, len(squares) + 1)
    low, high = (
        sums[near - 1] / counts[near - 1],
        (sums[-1] - sums[near - 1]) / (len(squares) - near),
    )
    likely = near * np.log(low) + (len(squares) - near) * np.log(high + 1e-300)
    return first + int(near[np.argmin(likely)]) + 1


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
    clipped = _without_outliers(values)
    white, walk = _noise(clipped)
    place: IntArray = np.zeros(len(values), np.int64)
    size, z = np.zeros(len(values)), np.zeros(len(values))
    for by, first in ((walk, windows), (np.zeros(len(values)), windows[:-1])):
        at, jump, _ = _best(clipped, white, by, first, None)
        rest = clipped - _step(values.shape[1], at, jump)
        own = _best(clipped, *_noise(rest), windows, rest)
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
        b = np.minimum(at, max(_BEFORE, w))
        before, after = _sides(sums, w)
        size = after / w - before / b
        variance = white[:, None] * (1 / w + 1 / b) + walk[:, None] * _walk_part(w, b)
        # A slope that goes through both sides is no step; it is taken off as far as slopes are usual.
        if rests is not None:
            within, apart = (b**3 - b + w**3 - w) / 12, (b + w) / 2
            error = white[:, None] / within
            left = _slope(*rests, at, b, w) / within
            usual = np.quantile(left**2, _STEEP, axis=1) / _STEEP_SQUARE - np.median(error, axis=1)
            usual = np.maximum(usual - _CAUTION * np.median(error, axis=1), 0.0)[:, None]
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
    longest, count = max(_BEFORE, w), sums.shape[1] - 1
    # Nothing is summed before the first value.
    earlier = np.pad(sums, ((0, 0), (longest, 0)))[:, LEAST_BEFORE : count - w + 1]
    own = sums[:, LEAST_BEFORE : count - w + 1]
    return own - earlier, sums[:, LEAST_BEFORE + w :] - own


def _walk_part(w: int, b: IntArray) -> FloatArray:
    return (w + 1) * (2 * w + 1) / (6 * w) + (b - 1) * (2 * b - 1) / (6 * b)


def _without_outliers(values: FloatArray) -> FloatArray:
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
    return np.sqrt(_mean_square(values))


def _mean_square(values: FloatArray, trimmed: tuple[float, float] = _TRIMMED) -> FloatArray:
    unique = values.shape[1] - max(int(np.ceil(trimmed[0] * values.shape[1])), 1)
    squares = np.partition(values**2, unique - 1, axis=1)[:, :unique]
    return squares.mean(axis=1) / trimmed[1]


def _noise(
    values: FloatArray, trimmed: tuple[float, float] = _TRIMMED
) -> tuple[FloatArray, FloatArray]:
    """[K] variances of independent noise and of a step of the walk, of series [K, n]."""
    count = values.shape[1]
    lags = 2 ** np.arange(max(int(np.log2(count / 6)), 1) + 1)[:_MOST_LAGS]
    # Second differences: a smooth rise is neither.
    seconds = (
        values[:, 2 * h :] - 2 * values[:, h:-h] + values[:, : -2 * h] for h in lags.tolist()
    )
    sixths = np.stack([_mean_square(one, trimmed) / 6 for one in seconds])
    # Those at long lags are of fewer values that are independent.
    weights = (1 / lags)[:, None]
    middle = (weights * lags[:, None]).sum() / weights.sum()
    centred = lags[:, None] - middle
    walk = 3 * (weights * centred * sixths).sum(axis=0) / (weights * centred**2).sum()
    level = (weights * sixths).sum(axis=0) / weights.sum()
    white = np.maximum(level - np.maximum(walk, 0) * middle / 3, 0.0)
    walk = np.maximum(walk + _CAUTION * white / count, 0.0) * count / (count + _SHRUNK)
    # A walk takes values away from their mean: by q n / 6 of variance over n steps. What comes back to
    # it does so within some.
    most = _FURTHEST * 6 * np.maximum(values.var(axis=1) - sixths[0], 0.0) / min(count, _LONGEST)
    most += _CAUTION * white / count
    white = np.where(walk > most, np.maximum(level - most * middle / 3, white), white)
    walk = np.minimum(walk, most)
    # What is constant but for rounding has noise of its rounding.
    least = (_ROUNDING * np.abs(values).max(axis=1)) ** 2 + 1e-300
    is_steady = (np.diff(values, axis=1) ** 2 <= least[:, None]).mean(axis=1) >= _STEADY
    return np.where(is_steady, least, np.maximum(white, least)), np.where(is_steady, 0.0, walk)


def _slopes(
    values: FloatArray, rows: IntArray, places: IntArray, rate: FloatArray, among: IntArray
) -> list[Change]:
    """Where series begin to grow or to fall, one place of each at most."""
    if not len(among) or values.shape[1] < LEAST_OF_SLOPE:
        return []
    # What grows many times over bends as a logarithm, and is straight as it is.
    scaled = np.stack([stabilised(values[among]), values[among]])
    each = np.stack([changes_of_slope(one) for one in scaled])
    which = np.argmax(np.abs(each).max(axis=2), axis=0)
    hits: list[Change] = []
    for k, row in enumerate(among.tolist()):
        zs = each[which[k], k]
        if np.abs(zs).max() > critical_value(values.shape[1], "slope", float(rate[row])):
            place = _first_slope(zs)
            z, at = float(zs[place]), _begin_of_slope(scaled[which[k], k], place)
            own = values[row]
            before, after = float(own[max(at - _BEFORE, 0) : at].mean()), _grown(own, at)
            hits.append(Change(int(rows[row]), int(places[row, at]), "slope", before, after, z))
    return hits


LEAST_OF_SLOPE: Final = 20
_AS_LARGE: Final = 0.5
_NEAR_BEGIN: Final = 12
_GROWN: Final = (6, 10, 16, 25, SLOPES[-1][1])
"""Steps for which a series may grow."""


def _grown(values: FloatArray, place: int) -> float:
    """Where a series is after it has grown for some steps, at most as many as are compared."""
    end = min(place + SLOPES[-1][1], len(values))
    return float(values[max(end - AFTER[1], place) : end].mean())


def changes_of_slope(values: FloatArray) -> FloatArray:
    """[K, n] z of the change of slope at each place of series, [K, n]."""
    clipped = _without_outliers(values)
    white, walk = _noise(clipped, _TRIMMED_OF_SLOPES)
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


def _first_slope(z: FloatArray) -> int:
    """The place of the first change of slope [n] that is not much smaller than the largest: what grows
    may end to.
    """
    first = int(np.argmax(np.abs(z) >= _AS_LARGE * np.abs(z).max()))
    return first + int(np.argmax(np.abs(z[first : first + _NEAR_BEGIN])))


def _begin_of_slope(values: FloatArray, place: int) -> int:
    """The first place, near this one, from which on values [n] grow, for some steps or to the end, by
    least squares.
    """
    first, last = max(place - SLOPES[-1][0], 0), min(place + SLOPES[-1][1], len(values))
    near = values[first:last]
    tried = range(max(place - _NEAR_BEGIN, first + 3), min(place + _NEAR_BEGIN, last - 3) + 1)
    misfits = {at: min(_misfit(near, at - first, grown) for grown in _GROWN) for at in tried}
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


def _misfit(values: FloatArray, place: int, grown: int = SLOPES[-1][1]) -> float:
    """What a line is off that bends at a place, and bends back once it has grown for some steps."""
    x = np.arange(len(values), dtype=np.float64)
    design = np.stack([np.ones_like(x), x, np.clip(x - place + 1, 0.0, grown)], axis=1)
    fitted: FloatArray = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return float(((values - fitted) ** 2).sum())


def _explained_best(
    values: FloatArray,
    rows: IntArray,
    places: IntArray,
    levels: Sequence[Change],
    slopes: Sequence[Change],
) -> list[Change]:
    """Of each series its changes of level, or its slope where a line fits what is near it better."""
    hits = {*levels}
    for slope in slopes:
        row = int(np.flatnonzero(rows == slope.series)[0])
        at = int(np.searchsorted(places[row], slope.place))
        first, last = max(at - SLOPES[-1][0], 0), min(at + SLOPES[-1][1], values.shape[1])
        own = values[row, first:last]
        steps = [hit for hit in levels if hit.series == slope.series]
        inside = np.searchsorted(places[row], [hit.place for hit in steps]) - first
        near = sorted({x for x in inside.tolist() if 0 < x < len(own)})
        by_steps = _off_levels(own, near)
        if not near or _misfit(own, at - first) < by_steps:
            within = {
                hit for hit, x in zip(steps, inside.tolist(), strict=True) if 0 < x < len(own)
            }
            hits = (hits - within) | {slope}
    return [*hits]


def critical_value(count: int, kind: Kind, rate: float) -> float:
    """The z that chance alone takes one series of so many values beyond in a share `rate` of cases.

    Between and beyond simulated numbers of values by their logarithm, beyond simulated rates by that of
    the rate: the tails of maxima are about exponential.
    """
    table = _critical_values()[kind]
    lengths = np.log(np.array(table["values"], np.float64))
    rates = np.log(np.array(table["rates"], np.float64))
    table_z: FloatArray = np.array(table["z"], np.float64)
    at = np.interp(math.log(count), lengths, np.arange(len(lengths)))
    low = min(int(at), len(lengths) - 2)
    between = float(at) - low
    squares: FloatArray = ((1 - between) * table_z[low] + between * table_z[low + 1]) ** 2
    slope = float(squares[-1] - squares[-2]) / float(rates[-1] - rates[-2])
    if math.log(rate) < rates[-1]:
        return math.sqrt(float(squares[-1]) + slope * (math.log(rate) - float(rates[-1])))
    # Interpolation takes ascending places: rates descend.
    return math.sqrt(float(np.interp(math.log(rate), np.flip(rates), np.flip(squares))))


@cache
def _critical_values() -> dict[str, dict[str, list[Any]]]:
    text = resources.files("board.core.metrics").joinpath("critical_values.toml")
    return tomllib.loads(text.read_text(encoding="utf-8"))
