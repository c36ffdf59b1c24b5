"""A chart of curves over the steps, as the light charts of pages draw it (`components/curve_grid`).

Plotly's script is 4.7 MB: reading and running it takes longer than everything else on the first page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from board.charts.palette import ink
from board.core.metrics.shares import ROUNDING_NOISE

Floats = npt.NDArray[np.float64]
Steps = npt.NDArray[np.int64]

_HEADROOM: Final = 0.055
_LARGE: Final = 1e4


@dataclass(slots=True)
class Line:
    """A line through points [n]; gaps, which are NaN, are drawn over where it connects.

    name, text: of the line and shown at each point, escaped as for plotly. group: what a click on it is
    told by, and what hides with it. lone: points that are visible, None for none. named: by the legend.
    """

    x: Steps
    y: Floats
    text: Sequence[str]
    name: str
    ink: str
    width: float = 2.1
    dash: str = "solid"
    group: str | None = None
    lone: npt.NDArray[np.bool_] | None = None
    connect: bool = False
    named: bool = True


@dataclass(slots=True)
class Shape:
    """Closed areas, or where it has a width open lines, one behind each NaN. recorded: the values that a
    smoothed line is of.
    """

    x: Floats | Steps
    y: Floats
    ink: str
    group: str
    width: float = 0
    recorded: bool = False


@dataclass(slots=True)
class Dots:
    """Points of single rollouts, each with an id."""

    x: Steps
    y: Floats
    text: Sequence[str]
    ids: Steps
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


class LightCurve(NamedTuple):
    """A chart as JSON, and what is to be said below it."""

    chart: Mapping[str, Any]
    notes: tuple[str, ...]


def light(chart: CurveChart) -> LightCurve:
    """The chart for the browser: numbers that are not finite are None."""
    colours = ink(chart.dark)
    drawn = {
        "height": chart.height,
        "legend": chart.legend,
        "ink": {name: getattr(colours, name) for name in ("text", "muted", "grid", "zero")},
        "y": _value_axis(chart),
        "lines": [_plain(one) for one in chart.lines],
        "shapes": [_plain(one) for one in chart.shapes],
        "dots": [_plain(one) for one in chart.dots],
    }
    return LightCurve(drawn, tuple(chart.notes))


def _value_axis(chart: CurveChart) -> dict[str, Any]:
    lines = _finite([one.y for one in (*chart.lines, *chart.dots)])
    values = np.concatenate([lines, _finite([one.y for one in chart.shapes])])
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


def _finite(arrays: Sequence[Floats]) -> Floats:
    values = np.concatenate([np.array([]), *arrays])
    return values[np.isfinite(values)]


def _plain(part: Line | Shape | Dots) -> dict[str, Any]:
    """Its fields as JSON takes them."""
    return {name: _json_value(getattr(part, name)) for name in part.__slots__}


def _json_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        numbers = value.astype(object)
        numbers[~np.isfinite(value)] = None
        return numbers.tolist()
    return list(value) if isinstance(value, list | tuple) else value
