"""The error of a change over steps whose values are alike from one step to the next.

Means of steps wander: a policy at step 31 is that of step 30 and a bit. Their standard deviation over
sqrt(n) then says far too little. The series is taken as autoregressive of order 1 about a level in each
stretch of steps; its correlation is estimated within the stretches, and without the bias that taking off
their means makes (Marriott and Pope 1954). A steady rise within a stretch looks like correlation: it
takes more steps to be told from chance than a jump.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.intervals import student_t

_CAUTION_OF_MEAN: Final = 2.5
_MOST_CORRELATION: Final = 0.98
_GRID: Final = 99
_MOST_STRETCHES: Final = 20
_LEAST_FREEDOM: Final = 2.5
"""Of a stretch: a random walk's squares about its mean vary as those of so many independent values."""
LEAST_STRETCHES: Final = 2
LEAST_CHANGES: Final = 20
_MEDIAN: Final = 0.6744897501960817
"""Of the absolute values of the normal distribution, in standard deviations."""
_CAUTION_OF_USUAL: Final = 1.1
"""Of skewed steps the median of the changes is less than that of normal ones of their spread."""
_FREEDOM_OF_STRETCH: Final = 1.2
"""Degrees that each stretch adds: changes that overlap say less than others."""


@dataclass(frozen=True, slots=True)
class Wander:
    """variance: of a value about its level; correlation: from one step to the next. freedom: of the
    variance, in degrees: about as many independent values, less one for each stretch.
    """

    variance: float
    correlation: float
    freedom: float


def wander(values: FloatArray, stretch: int, caution: float = 1.5) -> Wander | None:
    """How values [n] of successive steps wander about their level, by the last stretches of so many
    steps; None for fewer than LEAST_STRETCHES.

    caution: standard errors by which the correlation is taken higher than it is estimated. Few steps
    hardly tell it, and too low a one calls chance a change; the rarer that may be, the more it takes.
    """
    count = min(len(values) // stretch, _MOST_STRETCHES)
    if count < LEAST_STRETCHES:
        return None
    parts = values[len(values) - count * stretch :].reshape(count, stretch)
    parts = parts - parts.mean(axis=1, keepdims=True)
    squares = float((parts**2).sum())
    if not squares > 0:
        return Wander(0.0, 0.0, float(count * (stretch - 1)))
    lagged = float((parts[:, 1:] * parts[:, :-1]).sum()) / squares
    correlations, ratios, factors = _expected(stretch)
    correlation = float(np.interp(lagged, ratios, correlations))
    error = np.sqrt((1 - correlation**2) / (count * stretch))
    correlation = min(correlation + caution * float(error), _MOST_CORRELATION)
    variance = squares / (count * float(np.interp(correlation, correlations, factors)))
    independent = (stretch - 1) * (1 - correlation) / (1 + correlation)
    return Wander(variance, correlation, count * max(independent, _LEAST_FREEDOM))


@cache
def _expected(stretch: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """By correlation: what lagged products over squares are expected to be within a stretch, ascending,
    and what the sum of squares is, in variances.
    """
    correlations = np.linspace(0.0, _MOST_CORRELATION, _GRID)
    centre = np.eye(stretch) - 1 / stretch
    lags = np.abs(np.subtract.outer(np.arange(stretch), np.arange(stretch)))
    ratios, factors = np.empty(_GRID), np.empty(_GRID)
    for place, correlation in enumerate(correlations.tolist()):
        covariance = centre @ correlation**lags @ centre
        factors[place] = np.trace(covariance)
        ratios[place] = np.trace(covariance, offset=1) / factors[place]
    return correlations, ratios, factors


def usual_change(values: FloatArray, stretch: int) -> tuple[float, float] | None:
    """How far means of two neighbouring stretches of values [n] were apart before the last stretch: as a
    standard error by their median, which one change more does not raise, and its degrees of freedom.

    None for fewer than LEAST_CHANGES. It takes no form of the wandering for granted, as that of Wander
    does: of moving averages, or of a level under noise, what successive steps have in common says little.
    """
    totals = np.append(0.0, np.cumsum(values - values.mean()))
    means = (totals[stretch:] - totals[:-stretch]) / stretch
    changes = np.abs(means[stretch:] - means[:-stretch])[:-stretch]
    if len(changes) < LEAST_CHANGES:
        return None
    usual = float(np.median(changes)) / _MEDIAN
    return _CAUTION_OF_USUAL * usual, _FREEDOM_OF_STRETCH * len(changes) / stretch


def error_of_mean(wanders: Wander, steps: int) -> float:
    """The standard error of the mean of so many successive steps."""
    return _error(wanders, np.arange(steps), np.full(steps, 1 / steps))


def reach_of_mean(values: FloatArray, stretch: int, steps: int) -> float | None:
    """How far from the level chance alone brings the mean of so many successive steps, in 95 % of runs:
    by how values [n] wander and by `usual_change` of stretches, whichever is more. None for fewer than
    LEAST_STRETCHES, and for equal values, which say nothing.
    """
    wanders = wander(values, stretch, _CAUTION_OF_MEAN)
    if wanders is None or not wanders.variance > 0:
        return None
    reach = _bound(wanders.freedom) * error_of_mean(wanders, steps)
    usual = usual_change(values, stretch)
    return reach if usual is None else max(reach, _bound(usual[1]) * usual[0] / np.sqrt(2))


def reach_of_change(values: FloatArray, stretch: int) -> float | None:
    """How far apart chance alone brings the means of the last two stretches of values [n], in 95 % of
    runs: by how they wander and by `usual_change`, whichever is more. None for fewer than
    LEAST_STRETCHES.
    """
    wanders = wander(values, stretch)
    if wanders is None:
        return None
    reach = _bound(wanders.freedom) * error_of_change(wanders, stretch, stretch)
    usual = usual_change(values, stretch)
    return reach if usual is None else max(reach, _bound(usual[1]) * usual[0])


def _bound(freedom: float) -> float:
    return float(student_t(np.array([freedom]))[0])


def error_of_change(wanders: Wander, stretch: int, apart: int) -> float:
    """The standard error of the difference of the means of two stretches of steps of equal length, the
    first steps of which are so many apart.
    """
    places = np.concatenate([np.arange(stretch), apart + np.arange(stretch)])
    return _error(wanders, places, np.repeat([-1 / stretch, 1 / stretch], stretch))


def _error(wanders: Wander, places: IntArray, weights: FloatArray) -> float:
    lags = np.abs(np.subtract.outer(places, places))
    quadratic = float(weights @ wanders.correlation**lags @ weights)
    return float(np.sqrt(wanders.variance * max(quadratic, 0.0)))
