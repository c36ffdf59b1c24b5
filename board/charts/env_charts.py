"""Curves by environment: all in one chart, or one small chart for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from board.charts.curves import CurveOptions, Series, curve
from board.charts.palette import CATEGORIES, category
from board.core.groups.environments import EnvCurves

ALL = "all environments"
"""Name of the mean over all; the stems of the curves are numbers, so no environment's name clashes."""


def overlaid(
    found: EnvCurves,
    numbers: Sequence[int],
    unit: str,
    options: CurveOptions,
    *,
    dark: bool,
    height: int = 250,
    places: Mapping[int, int] | None = None,
) -> go.Figure:
    """A curve for each of the environments `shown` (their codes) and one, dashed, for all.

    places: of codes the place among the colours, where it is not the code itself (`colour_places`).
    """
    series = [Series("all", ALL, "reference", unit)]
    series += [_series(code, found.names[code], unit, places) for code in numbers]
    return curve(_frame(found, numbers), series, options, dark=dark, height=height)


def small_multiple(
    found: EnvCurves,
    code: int,
    unit: str,
    options: CurveOptions,
    *,
    dark: bool,
    height: int = 170,
    places: Mapping[int, int] | None = None,
) -> go.Figure:
    """One environment and, dashed, all; every small chart of a metric has the same value axis."""
    own = _series(code, found.names[code], unit, places)
    series = [Series("all", ALL, "reference", unit), own]
    figure = curve(_frame(found, [code]), series, options, dark=dark, height=height)
    figure.update_layout(showlegend=False, margin={"t": 10})
    known = np.concatenate([found.means.ravel(), found.overall])
    known = known[np.isfinite(known)]
    if len(known) and not options.log:
        low, high = float(known.min()), float(known.max())
        margin = (high - low) * 0.06 or 0.5
        figure.update_yaxes(range=[low - margin, high + margin], rangemode="normal", nticks=4)
    return figure


def colour_places(curves: EnvCurves) -> dict[int, int]:
    """Places among the colours, by how many values environments have: the largest share none.

    Codes in order where there are no more of them than colours.
    """
    count = len(curves.names)
    if count <= len(CATEGORIES):
        return {code: code for code in range(count)}
    largest = np.argsort(-curves.counts.sum(axis=1), kind="stable").tolist()
    return {code: place for place, code in enumerate(largest)}


def _series(code: int, name: str, unit: str, places: Mapping[int, int] | None) -> Series:
    place = code if places is None else places[code]
    key, dash = category(place)
    return Series(f"e{code}", name, key, unit, dash=dash)


def _frame(found: EnvCurves, numbers: Sequence[int]) -> pd.DataFrame:
    columns = {"step": found.steps, "all_mean": found.overall}
    for code in numbers:
        columns |= {f"e{code}_mean": found.means[code], f"e{code}_n": found.counts[code]}
    return pd.DataFrame(columns)
