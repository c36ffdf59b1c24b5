"""Curves over the steps of a run: the mean of a metric and how it is spread over the rollouts.

`components/curve_grid` draws them, from JSON: to run plotly's 4.7 MB takes longer than all else there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import orjson
import pandas as pd

from board.charts.curve_data import (
    CurveOptions,
    Drawn,
    Series,
    hover_texts,
    mean_column,
    prepared,
    thinned,
)
from board.charts.layout import safe_name, visible_text
from board.charts.palette import EVALUATIONS, colour, dash, faded, ink
from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.distinct_names import distinct_names
from board.core.metrics.shares import ROUNDING_NOISE

LightCurve = Mapping[str, Any]
"""A chart as JSON, with what is to be said below it as `notes`."""

_HEADROOM: Final = 0.055
_LARGE: Final = 1e4
_LONGEST_NAME: Final = 60
_LOG_HEADROOM: Final = 0.25
_OPACITY: Final = 0.17
_RECORDED_WIDTH: Final = 1
_BAR_WIDTH: Final = 7
_PEN_UP: Final = np.full((2, 1), np.nan)


@dataclass(slots=True)
class Line:
    """A line through points [n]; gaps, which are NaN, are drawn over where it connects.

    name, text: of the line and shown at each point, escaped as for plotly. group: what a click on it
    reports, and what hides with it. lone: points that are visible, None for none. named: by the legend.
    low, high: between what the value axis shows around each point; None: the point alone.
    """

    x: IntArray
    y: FloatArray
    text: Sequence[str]
    name: str
    ink: str
    width: float = 2.1
    dash: str = "solid"
    group: str | None = None
    lone: BoolArray | None = None
    connect: bool = False
    named: bool = True
    low: FloatArray | None = None
    high: FloatArray | None = None


@dataclass(slots=True)
class Shape:
    """Closed areas, or where it has a width open lines, one behind each NaN. recorded: the values that a
    smoothed line is of.
    """

    x: FloatArray | IntArray
    y: FloatArray
    ink: str
    group: str
    width: float = 0
    recorded: bool = False


@dataclass(slots=True)
class Dots:
    """Points of single rollouts, each with an id."""

    x: IntArray
    y: FloatArray
    text: Sequence[str]
    ids: IntArray
    ink: str


@dataclass(slots=True)
class CurveChart:
    """What a chart draws. ends: of the value axis, None for those of the values. notes: below it."""

    dark: bool
    height: int
    lines: list[Line] = field(default_factory=list[Line])
    shapes: list[Shape] = field(default_factory=list[Shape])
    dots: list[Dots] = field(default_factory=list[Dots])
    notes: list[str] = field(default_factory=list[str])
    ends: tuple[float, float] | None = None
    legend: bool = False
    log: bool = False
    percent: bool = False
    nonnegative: bool = False
    zeroline: bool = False


def curve(
    steps: pd.DataFrame,
    series: Sequence[Series],
    options: CurveOptions | None = None,
    *,
    dark: bool,
    height: int = 250,
    evaluations: Mapping[str, pd.DataFrame] | None = None,
) -> CurveChart:
    """Mean and band of each series over the steps; the group of a line is the number of its series.

    evaluations: by name the tables of steps of three other splits at most, whose means of the first
    series are points, without an entry in the legend: the page has one for all charts. Their numbers come
    after those of the series. A step that only they have is neither a step of the series nor a gap in it.

    steps: the step table, ascending. Series without a column in it are left out. Steps at which a
    series is not recorded are gaps; a recorded step between two gaps is a visible point. Above
    MAX_POINTS steps the extremes of mean and band remain.
    """
    options = options or CurveOptions()
    chart = CurveChart(dark, height, log=options.log)
    drawn = [one for each in series if (one := prepared(steps, each, options)) is not None]
    own = [one.series for one in drawn]
    unsmoothed = replace(options, smoothing=0.0)
    of_splits = (evaluations or {}).items() if own else ()
    for (name, own_steps), key in zip(of_splits, EVALUATIONS, strict=False):
        points = replace(own[0], label=name, colour=key)
        if (one := prepared(own_steps, points, unsmoothed)) is not None:
            # Its band is shown under the pointer and not drawn.
            drawn.append(replace(one, bands=[], points=True))
    if options.log:
        _fit_log_axis(chart, drawn)
    # The legend tells lines apart by their names.
    names = distinct_names([visible_text(one.series.label) for one in drawn], _LONGEST_NAME)
    drawn = [
        replace(thinned(one), series=replace(one.series, label=name))
        for one, name in zip(drawn, names, strict=True)
    ]
    for group, one in enumerate(drawn):
        _add(chart, one, options, str(group))
    chart.legend = len(own) > 1
    chart.percent = not options.log and {one.unit for one in own} == {"share"}
    chart.zeroline = options.shift_to_zero and not options.log
    lows = [low for one in drawn for low in (one.mean, *(low for low, _ in one.bands))]
    chart.nonnegative = not options.log and not any(np.any(low < 0) for low in lows)
    chart.notes = _notes(drawn, len(steps))
    return chart


def last_means(steps: pd.DataFrame, stem: str, last_step: int, n: int = 60) -> list[float]:
    """The last `n` recorded means up to and with `last_step`; what is not recorded is left out."""
    column = mean_column(steps, stem)
    if column is None:
        return []
    values = column[steps["step"].to_numpy() <= last_step]
    return values[np.isfinite(values)][-n:].tolist()


def _fit_log_axis(chart: CurveChart, drawn: Sequence[Drawn]) -> None:
    """Leaves out and counts means of 0 or less; band edges down there go off the axis instead."""
    for one in drawn:
        one.left_out = int(np.count_nonzero(one.mean <= 0))
        one.mean = np.where(one.mean > 0, one.mean, np.nan)
        one.unsmoothed = np.where(one.unsmoothed > 0, one.unsmoothed, np.nan)
    means = np.concatenate([np.array([]), *(one.mean for one in drawn)])
    if not np.isfinite(means).any():
        return
    tops = np.concatenate([means, *(one.reach[1] for one in drawn)])
    floor = float(np.nanmin(means)) * 10**-_LOG_HEADROOM
    top = float(tops[np.isfinite(tops)].max()) * 10 ** (_LOG_HEADROOM / 3)
    for one in drawn:
        for place, (low, high) in enumerate(one.bands):
            edges = np.where(high > floor, [np.maximum(low, floor), high], np.nan)
            one.bands[place] = edges[0], edges[1]
    chart.ends = (floor, top)


def _add(chart: CurveChart, one: Drawn, options: CurveOptions, group: str) -> None:
    """Bands, the recorded values where the line is smoothed, and the line."""
    shade, x = colour(one.series.colour, dark=chart.dark), one.steps
    for low, high in one.bands:
        chart.shapes += band_shapes(x, low, high, faded(shade, _OPACITY), group)
    if options.smoothing:
        faint = Shape(x, one.unsmoothed, faded(shade, 0.3), group, _RECORDED_WIDTH, recorded=True)
        chart.shapes.append(faint)
    known = np.isfinite(one.mean)
    before, after = np.r_[False, known[:-1]], np.r_[known[1:], False]
    visible = known if one.points else known & ~before & ~after
    line = Line(
        x, one.mean, hover_texts(one), safe_name(one.series.label, 1000), shade, group=group
    )
    line.dash = one.series.dash or dash(one.series.colour)
    line.lone = visible if visible.any() else None
    if one.bands:
        line.low, line.high = one.reach
    if one.points:
        line.width, line.named = 1.4, False
    chart.lines.append(line)


def band_shapes(
    steps: IntArray, low: FloatArray, high: FloatArray, fill: str, group: str
) -> Iterator[Shape]:
    """A band between two edges [n] over the steps, NaN where it is not known.

    A closed area for each run of steps without a gap, an upright bar for a step between two gaps.
    """
    areas: list[FloatArray] = []
    bars: list[FloatArray] = []
    rows = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    for part in np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else ():
        there, back = [steps[part], high[part]], [steps[part][::-1], low[part][::-1]]
        (bars if len(part) == 1 else areas).append(np.hstack([there, back, _PEN_UP]))
    for parts, width in ((areas, 0), (bars, _BAR_WIDTH)):
        if parts:
            x, y = np.hstack(parts)
            yield Shape(x, y, fill, group, width)


def _notes(drawn: Sequence[Drawn], recorded: int) -> list[str]:
    left_out = sum(one.left_out for one in drawn)
    points = max((len(one.steps) for one in drawn), default=0)
    notes: list[str] = []
    if not any(np.isfinite(one.mean).any() for one in drawn):
        notes.append("Nothing that can be drawn is recorded.")
    if left_out:
        words = "1 value" if left_out == 1 else f"{left_out:,} values"
        notes.append(f"{words} of 0 or less left out: a log scale has no place for them.")
    if points < recorded and drawn:
        notes.append(f"{recorded:,} steps drawn with {points:,} points: the extremes are kept.")
    return notes


def light(chart: CurveChart) -> LightCurve:
    """The chart for the browser: numbers that are not finite are None."""
    parts = {"lines": chart.lines, "shapes": chart.shapes, "dots": chart.dots}
    return {
        "height": chart.height,
        "legend": chart.legend,
        "ink": {name: ink(name, dark=chart.dark) for name in ("text", "muted", "grid", "zero")},
        "y": _value_axis(chart),
        **orjson.loads(orjson.dumps(parts, option=orjson.OPT_SERIALIZE_NUMPY)),
        "notes": chart.notes,
    }


def _value_axis(chart: CurveChart) -> dict[str, Any]:
    lines = _finite([one.y for one in (*chart.lines, *chart.dots)])
    reaches = [edge for one in chart.lines for edge in (one.low, one.high) if edge is not None]
    recorded = [one.y for one in chart.shapes if one.recorded]
    values = np.concatenate([lines, _finite([*reaches, *recorded])])
    is_one_share = len(values) and np.ptp(values) < ROUNDING_NOISE and 0 <= values[0] <= 1
    ends = chart.ends
    if chart.percent and ends is None and is_one_share:  # its own height says nothing
        ends = (0.0, 1.0 + _HEADROOM)
    size = np.abs(lines).max(initial=0.0)
    return {
        "log": chart.log,
        "range": None if ends is None else [*ends],
        "percent": chart.percent,
        "nonnegative": chart.nonnegative,
        "zeroline": chart.zeroline,
        "labels": len(lines) > 0 or chart.ends is not None,
        # Large numbers close together in full: they would look alike.
        "digits": bool(size >= _LARGE and np.ptp(lines) < size * 0.02),
    }


def _finite(arrays: Sequence[FloatArray]) -> FloatArray:
    values = np.concatenate([np.array([]), *arrays])
    return values[np.isfinite(values)]
