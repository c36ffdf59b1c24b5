"""The mean of a metric over the steps with its 95 % interval, as a picture within the page (SVG)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pandas as pd

from board.charts.curve_data import CurveOptions, Series, prepared
from board.charts.palette import SERIES, colour_key
from board.core.arrays import FloatArray, IntArray
from board.core.metrics.definitions import Metric, base_name, rollout_metric
from board.query.open_run import Run
from board.query.steps import errors_of

_WIDTH: Final = 760
_HEIGHT: Final = 210
_LEFT: Final = 62
_RIGHT: Final = 12
_TOP: Final = 12
_BOTTOM: Final = 26
_MOST_POINTS: Final = 600
_TINY: Final = 1e-3
_HUGE: Final = 1e9
_ROUNDING: Final = 1e-9
"""Values that differ by less of their size are equal: means of the same numbers in another order."""
_LARGEST: Final = 1e300
"""Farther apart the ends of an axis would have no difference."""
_MOST_WITH_INTERVAL: Final = 300_000
"""Of more rollouts an interval that is not in the index takes longer than a picture is worth."""


@dataclass(frozen=True, slots=True)
class StepCurve:
    """Means by step, arrays [steps], NaN where not recorded. low, high: the 95 % interval of the mean.

    key: of the colour in charts.palette.SERIES, a word. name: in the legend, where several curves share a
    picture. reach: how much of the interval decides the value axis, None: none of it.
    """

    metric: Metric
    key: str
    steps: IntArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    name: str = ""
    reach: tuple[FloatArray, FloatArray] | None = None


def step_curve(run: Run, column: str) -> StepCurve | None:
    """The curve of a metric of rollouts, or of a column of the table of steps; None where not recorded.

    The interval is clustered by group, as the dashboard's; see core.metrics.intervals.
    """
    metric, stem, steps = rollout_metric(column), base_name(column), run.steps
    name = next((name for name in (f"{stem}_mean", stem) if name in steps), None)
    if name is None or not np.isfinite(_numbers(steps, name)).any():
        return None
    is_small = run.rollout_count <= _MOST_WITH_INTERVAL
    if f"{stem}_se" not in steps and column in run.metrics and is_small:
        steps = steps.merge(errors_of(run, [column]), "left", "step")
    drawn = prepared(steps, Series.of(column), CurveOptions("mean"))
    assert drawn is not None, "it has the column"
    unknown = np.full(len(drawn.mean), np.nan)
    low, high = drawn.bands[0] if drawn.bands else (unknown, unknown)
    key = colour_key(stem)
    return StepCurve(metric, key, drawn.steps, drawn.mean, low, high, reach=drawn.reach)


def _numbers(steps: pd.DataFrame, name: str) -> FloatArray:
    if name not in steps:
        return np.full(len(steps), np.nan)
    return pd.to_numeric(steps[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)


def curve_styles(*, dark: bool) -> str:
    """CSS of the classes of the colour keys."""
    return "".join(f".c-{key}{{--own:{pair[dark]}}}" for key, pair in SERIES.items())


def curve_svg(curves: Sequence[StepCurve], marked: int | None, title: str) -> str:
    """The picture. marked: a step with a line through it. title: for a screen reader, escaped already.

    Above 600 steps the extremes of each stretch remain. A step between two without a value is a dot.
    """
    x_ends = min(one.steps[0] for one in curves), max(one.steps[-1] for one in curves)
    curves = [_thinned(one, marked) for one in curves]
    every = np.concatenate([part for one in curves for part in (one.mean, *(one.reach or ()))])
    every = np.clip(every[np.isfinite(every)], -_LARGEST, _LARGEST)
    axes = _Axes(x_ends, (float(every.min()), float(every.max())))
    parts = [
        f'<svg class=curve viewBox="0 0 {_WIDTH} {_HEIGHT}" role=img><title>{title}</title>',
        *axes.grid(curves[0].metric.unit),
    ]
    for one in curves:
        parts.append(f"<g class=c-{one.key}>")
        parts += [*_band(one, axes), *_line(one, axes), *_cuts(one, axes), "</g>"]
    if marked is not None and x_ends[0] <= marked <= x_ends[1]:
        x = axes.x(marked)
        anchor = "end" if x > _WIDTH - 90 else "start"
        at = x - 4 if anchor == "end" else x + 4
        parts.append(f'<path class=marked d="M{x:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
        parts.append(f"<text x={at:.1f} y={_TOP + 9} text-anchor={anchor}>step {marked}</text>")
    return "".join((*parts, "</svg>"))


class _Axes:
    """From steps and values to places in the picture."""

    def __init__(self, steps: tuple[int, int], values: tuple[float, float]) -> None:
        first, last = int(steps[0]), int(steps[1])
        low, high = values
        is_flat = high - low <= _ROUNDING * max(abs(low), abs(high))
        margin = (abs(high) * 0.1 or 1.0) if is_flat else (high - low) * 0.06
        self._steps = (first - 0.5, last + 0.5) if first == last else (first, last)
        bottom = low - margin if low < 0 or low - margin > 0 else 0.0
        self.values = bottom, high + margin
        self._step_ticks = [tick for tick in _ticks(first, last, 6) if tick == int(tick)]

    def x(self, step: float) -> float:
        first, last = self._steps
        return _LEFT + (step - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.values
        value = min(max(value, low), high)
        return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self, unit: str) -> list[str]:
        """Lines and numbers of both axes."""
        parts: list[str] = []
        ticks = _ticks(*self.values, 4)
        for value, words in zip(ticks, tick_words(ticks, unit), strict=True):
            y = self.y(value)
            parts.append(f'<path class=grid d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
            parts.append(f"<text x={_LEFT - 7} y={y + 4:.1f} text-anchor=end>{words}</text>")
        for step in self._step_ticks:
            place = f"x={self.x(step):.1f} y={_HEIGHT - 7}"
            parts.append(f"<text {place} text-anchor=middle>{int(step)}</text>")
        return parts


def tick_words(ticks: Sequence[float], unit: str = "") -> list[str]:
    """The numbers of an axis, with as many digits as tell apart neighbours that are equally far apart."""
    scale, after = (100.0, " %") if unit == "share" else (1.0, "")
    values = [scale * tick for tick in ticks]
    step = min((b - a for a, b in pairwise(values)), default=0.0) or max(map(abs, values)) or 1.0
    power = math.floor(math.log10(step) + 1e-9)
    largest = max(map(abs, values))
    if not after and (0 < largest < _TINY or largest >= _HUGE):
        digits = [math.floor(math.log10(abs(value) or 1.0)) - power for value in values]
        texts = [f"{value:.{max(n, 0)}e}" for value, n in zip(values, digits, strict=True)]
        return ["0" if float(text) == 0 else _short_exponent(text) for text in texts]
    texts = [f"{value:,.{max(-power, 0)}f}" for value in values]
    return [("0" if float(text.replace(",", "")) == 0 else text) + after for text in texts]


def _short_exponent(text: str) -> str:
    """2.5e-05 as 2.5e-5."""
    digits, exponent = text.split("e")
    return f"{digits}e{int(exponent)}"


def _ticks(low: float, high: float, most: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten from low to high, at most about so many."""
    if high - low <= _ROUNDING * max(abs(low), abs(high)):
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first = math.ceil(low / step)
    return [step * place for place in range(first, math.floor(high / step) + 1)]


def _thinned(curve: StepCurve, marked: int | None) -> StepCurve:
    count = len(curve.steps)
    if count <= _MOST_POINTS:
        return curve
    rows = {0, count - 1, *np.flatnonzero(curve.steps == marked).tolist()}
    for part in np.array_split(np.arange(count), _MOST_POINTS // 2):
        known = part[np.isfinite(curve.mean[part])]
        if len(known) < len(part):  # a gap stays one
            rows.add(int(part[np.isnan(curve.mean[part])][0]))
        if len(known):
            own = curve.mean[known]
            rows |= {int(known[own.argmin()]), int(known[own.argmax()])}
    at = np.array(sorted(rows))
    names = ("steps", "mean", "low", "high")
    reach = curve.reach and (curve.reach[0][at], curve.reach[1][at])
    return replace(curve, reach=reach, **{name: getattr(curve, name)[at] for name in names})


def _stretches(known: FloatArray) -> list[IntArray]:
    """Rows without a gap between them, by the finite entries of an array."""
    rows = np.flatnonzero(np.isfinite(known))
    return np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []


def _band(curve: StepCurve, axes: _Axes) -> list[str]:
    parts: list[str] = []
    for rows in _stretches(curve.low + curve.high):
        x, high, low = (array[rows].tolist() for array in (curve.steps, curve.high, curve.low))
        there = [(axes.x(step), axes.y(value)) for step, value in zip(x, high, strict=True)]
        back = [(axes.x(step), axes.y(value)) for step, value in zip(x, low, strict=True)]
        if len(rows) == 1:
            parts.append(
                f'<path class=bar d="M{there[0][0]:.1f} {there[0][1]:.1f}V{back[0][1]:.1f}"/>'
            )
        else:
            parts.append(f'<polygon class=band points="{_points([*there, *back[::-1]])}"/>')
    return parts


def _cuts(curve: StepCurve, axes: _Axes) -> list[str]:
    """A dotted line on the end of the axis, for as long as the interval goes on beyond it."""
    parts: list[str] = []
    bottom, top = axes.values
    for edge, is_cut in ((top, curve.high > top), (bottom, curve.low < bottom)):
        for rows in _stretches(np.where(is_cut, 0.0, np.nan)):
            first, last = (axes.x(int(curve.steps[i])) for i in (rows[0], rows[-1]))
            y = axes.y(edge)
            parts.append(f'<path class=cut d="M{first - 3:.1f} {y:.1f}H{last + 3:.1f}"/>')
    return parts


def _line(curve: StepCurve, axes: _Axes) -> list[str]:
    parts: list[str] = []
    for rows in _stretches(curve.mean):
        points = [(axes.x(int(curve.steps[i])), axes.y(float(curve.mean[i]))) for i in rows]
        if len(points) == 1:
            parts.append(f"<circle cx={points[0][0]:.1f} cy={points[0][1]:.1f} r=3 />")
        else:
            parts.append(f'<polyline points="{_points(points)}"/>')
    return parts


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
