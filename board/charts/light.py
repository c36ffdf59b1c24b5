"""A figure of curves over the steps in the few words that the light charts of pages draw.

Plotly's script is 4.7 MB: reading and running it takes longer than everything else on the first page.
The figures stay what they are; this tells a small renderer what stands in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from board.charts.curves import RECORDED_WIDTH
from board.charts.layout import notes_of
from board.charts.sketch import Drawing
from board.core.metrics.shares import ROUNDING_NOISE

_HEADROOM: Final = 0.055


class LightCurve(NamedTuple):
    """A chart as JSON, and what is to be said below it."""

    chart: Mapping[str, Any]
    notes: tuple[str, ...]


def light(figure: Drawing) -> LightCurve:
    """What `board.charts.curves` draws, as JSON: no NaN, gaps are None.

    lines: {x [n], y [n], text [n], name, ink, width, dash, lone [n] or None, group, connect, named},
    connect: whether gaps are drawn over, named: whether the legend names it; shapes: closed areas and
    bars {x, y, ink, width (0: filled), group, recorded}, of the stretches between None, recorded: what a
    smoothed line is of; dots: {x, y, text, ids [n], ink}, points of single rollouts; y: the value axis;
    ink: the colours of the page; height in pixels. Names and texts are escaped as for plotly.
    """
    layout: Any = figure.layout
    traces: list[Any] = list(figure.data)
    chart = {
        "height": layout.height,
        "legend": bool(layout.showlegend),
        "ink": {
            "text": layout.font.color,
            "muted": layout.xaxis.tickfont.color,
            "grid": layout.yaxis.gridcolor,
            "zero": layout.yaxis.zerolinecolor,
        },
        "y": _value_axis(layout.yaxis, [one.y for one in traces]),
        "lines": [_line(one) for one in traces if one.mode == "lines+markers"],
        "shapes": [_shape(one) for one in traces if one.mode == "lines"],
        "dots": [_dots(one) for one in traces if one.mode == "markers"],
    }
    return LightCurve(chart, notes_of(figure))


def _value_axis(axis: Any, drawn: list[Any]) -> dict[str, Any]:
    ends = _numbers(axis.range)
    log = axis.type == "log"
    percent = (axis.tickformat or "").endswith("%")
    if percent and not ends and _is_one_share(drawn):
        ends = [0.0, 1.0 + _HEADROOM]
    return {
        "log": log,
        "range": [10**end for end in ends if end is not None] if ends and log else ends,
        "percent": percent,
        "nonnegative": axis.rangemode == "nonnegative",
        "zeroline": bool(axis.zeroline),
        "labels": axis.showticklabels is not False,
        "digits": bool(axis.separatethousands),
    }


def _is_one_share(drawn: list[Any]) -> bool:
    """Whether all that is drawn is one share: its own height tells nothing, that on the scale does."""
    known = np.concatenate([np.asarray(values, np.float64) for values in drawn] or [np.array([])])
    known = known[np.isfinite(known)]
    return bool(len(known) > 0 and np.ptp(known) < ROUNDING_NOISE and 0 <= known[0] <= 1)


def _line(trace: Any) -> dict[str, Any]:
    opacity: Any = trace.marker.opacity
    return {
        "x": _numbers(trace.x),
        "y": _numbers(trace.y),
        "text": list(trace.text),
        "name": trace.name,
        "ink": trace.line.color,
        "width": trace.line.width,
        "dash": trace.line.dash,
        "lone": np.asarray(opacity).tolist() if np.ndim(opacity) else None,
        "group": trace.legendgroup,
        "connect": bool(trace.connectgaps),
        "named": trace.showlegend is not False,
    }


def _shape(trace: Any) -> dict[str, Any]:
    filled = trace.fill == "toself"
    return {
        "x": _numbers(trace.x),
        "y": _numbers(trace.y),
        "ink": trace.fillcolor if filled else trace.line.color,
        "width": 0 if filled else trace.line.width,
        "recorded": not filled and trace.line.width == RECORDED_WIDTH,
        "group": trace.legendgroup,
    }


def _dots(trace: Any) -> dict[str, Any]:
    return {
        "x": _numbers(trace.x),
        "y": _numbers(trace.y),
        "text": list(trace.text),
        "ids": np.asarray(trace.customdata).tolist(),
        "ink": trace.marker.color,
    }


def _numbers(values: Any) -> list[float | None] | None:
    """As JSON takes them: what is not a finite number is None."""
    if values is None:
        return None
    numbers = np.asarray(values, np.float64)
    found: list[float | None] = numbers.tolist()
    for place in np.flatnonzero(~np.isfinite(numbers)).tolist():
        found[place] = None
    return found
