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
from board.core.metrics.level_scan import AFTER, BEFORE, LEAST_BEFORE, SPREAD_AFTER, scan
from board.core.metrics.series_noise import mean_square, stabilised
from board.core.metrics.slopes import (
    LEAST_OF_SLOPE,
    SLOPES,
    begin_of_slope,
    changes_of_slope,
    first_slope,
    grown_to,
    misfit,
)

Kind = Literal["level", "spread", "slope"]
LEAST: Final = 12
"""Values of a series; fewer tell nothing."""
_BLOCK: Final = 5
LEAST_OF_SPREAD: Final = 61
_OF_SPREAD: Final = 0.2
_AT_ONCE: Final = 40_000
_OF_SLOPE: Final = 0.3
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
    before, after = values[max(place - BEFORE, 0) : place], values[place : place + BEFORE]
    if kind == "level":
        return float(before.mean()), float(after.mean())
    of_each = (float(np.sqrt(np.mean(np.diff(one) ** 2) / 2)) for one in (before, after))
    return next(of_each), next(of_each)


def _is_clear(values: FloatArray, place: int, size: float) -> bool:
    """Whether a change is of most values, sharp, and not of the first few: these are of the start."""
    before, after = values[max(place - BEFORE, 0) : place], values[place : place + BEFORE]
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


def log_squares(values: FloatArray) -> FloatArray:
    """[K, n // _BLOCK] logarithms of mean squares of _BLOCK successive differences: their level is the
    spread.
    """
    squares = np.diff(values, axis=1) ** 2
    least = 1e-4 * mean_square(np.sqrt(squares))[:, None] + 1e-300
    count = squares.shape[1] // _BLOCK
    blocks = squares[:, : count * _BLOCK].reshape(len(squares), count, _BLOCK)
    return np.log(blocks.mean(axis=2) + least)


def _step_of_spread(values: FloatArray, block: int) -> int:
    """The place near the beginning of a block from which on differences of values [n] are larger or
    smaller, by the likelihood of two variances.
    """
    middle = block * _BLOCK
    first, last = max(middle - BEFORE, 0), min(middle + BEFORE, len(values) - 1)
    squares = np.diff(values)[first:last] ** 2 + 1e-300
    near = np.arange(max(BEFORE - _BLOCK, 2), min(BEFORE + _BLOCK, len(squares) - 2) + 1)
    sums, counts = np.cumsum(squares), np.arange(1, len(squares) + 1)
    low, high = (
        sums[near - 1] / counts[near - 1],
        (sums[-1] - sums[near - 1]) / (len(squares) - near),
    )
    likely = near * np.log(low) + (len(squares) - near) * np.log(high + 1e-300)
    return first + int(near[np.argmin(likely)]) + 1


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
            place = first_slope(zs)
            z, at = float(zs[place]), begin_of_slope(scaled[which[k], k], place)
            own = values[row]
            before, after = float(own[max(at - BEFORE, 0) : at].mean()), grown_to(own, at)
            hits.append(Change(int(rows[row]), int(places[row, at]), "slope", before, after, z))
    return hits


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
        if not near or misfit(own, at - first) < by_steps:
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
