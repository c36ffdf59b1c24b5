"""Curves by environment: all in one chart, or one small chart for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from board.charts.curves import CurveOptions, Series, curve
from board.charts.palette import CATEGORIES
from board.core.environments import EnvCurves

ALL = "all environments"
"""Name of the mean over all; the stems of the curves are numbers, so no environment's name clashes."""


def overlaid(
    found: EnvCurves,
    shown: Sequence[int],
    unit: str,
    options: CurveOptions,
    *,
    dark: bool,
    height: int = 250,
) -> go.Figure:
    """A curve for each of the environments `shown` (their codes) and one, dashed, for all."""
    series = [Series("all", ALL, "reference", unit)]
    series += [_series(code, found.names[code], unit) for code in shown]
    return curve(_frame(found, shown), series, options, dark=dark, height=height)


def small_multiple(
    found: EnvCurves,
    code: int,
    unit: str,
    options: CurveOptions,
    *,
    dark: bool,
    height: int = 170,
) -> go.Figure:
    """One environment and, dashed, all; every small chart of a metric has the same value axis."""
    series = [Series("all", ALL, "reference", unit), _series(code, found.names[code], unit)]
    figure = curve(_frame(found, [code]), series, options, dark=dark, height=height)
    figure.update_layout(showlegend=False, margin={"t": 10})
    known = np.concatenate([found.means.ravel(), found.overall])
    known = known[np.isfinite(known)]
    if len(known) and not options.log:
        low, high = float(known.min()), float(known.max())
        margin = (high - low) * 0.06 or 0.5
        figure.update_yaxes(range=[low - margin, high + margin], rangemode="normal", nticks=4)
    return figure


def _series(code: int, name: str, unit: str) -> Series:
    return Series(f"e{code}", name, CATEGORIES[code % len(CATEGORIES)], unit)


def _frame(found: EnvCurves, shown: Sequence[int]) -> pd.DataFrame:
    columns = {"step": found.steps, "all_mean": found.overall}
    for code in shown:
        columns |= {f"e{code}_mean": found.means[code], f"e{code}_n": found.counts[code]}
    return pd.DataFrame(columns)
