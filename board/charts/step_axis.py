"""The axis of steps: where it ends and which steps are named, the same in every chart.

`stepTicks` and `stepEnds` of components/curve_grid/js/axis.js are the same rules for the light charts.
"""

from __future__ import annotations

import math
from typing import Final

from board.charts.sketch import Drawing

_MOST_INTERVALS: Final = 5
_CROWDED: Final = 0.4
_MARGIN: Final = 0.015
_FEW_STEPS: Final = 8


def step_ticks(first: int, last: int) -> list[int]:
    """The named steps: the first one and the multiples of 1, 2 or 5 times a power of ten after it.

    At most five such intervals lie between `first` and `last`. A multiple so close behind the first
    step that their labels would touch replaces it.
    """
    if last <= first:
        return [first]
    interval = _interval((last - first) / _MOST_INTERVALS)
    ticks = list(range(math.ceil(first / interval) * interval, last + 1, interval))
    if ticks[0] - first >= _CROWDED * interval:
        ticks.insert(0, first)
    return ticks


def _interval(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is at least `least`."""
    power = 1
    while True:
        for factor in (1, 2, 5):
            if factor * power >= least:
                return factor * power
        power *= 10


def step_ends(first: int, last: int) -> tuple[float, float]:
    """Both ends of the axis: a little beyond the first and the last step."""
    margin = max((last - first) * _MARGIN, 0.5 if last - first < _FEW_STEPS else 0.0)
    return first - margin, last + margin


def fit_step_axis(figure: Drawing, first: int, last: int) -> None:
    """The axis below a figure of plotly as the steps from `first` to `last`."""
    figure.update_xaxes(
        range=[*step_ends(first, last)],
        tickmode="array",
        tickvals=step_ticks(first, last),
        tickformat="d",
        hoverformat="d",
    )
