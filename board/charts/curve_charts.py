"""Curves of several things over the steps: environments, runs, words; and the visits of a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Final, Protocol

import numpy as np
import pandas as pd

from board.charts.curve_data import MAX_POINTS, CurveOptions, Series, keep_extremes
from board.charts.curves import CurveChart, Dots, Line, curve
from board.charts.layout import number
from board.charts.palette import CATEGORIES, category, colour, faded
from board.core.arrays import FloatArray, IntArray
from board.core.groups.environments import EnvCurves
from board.core.metrics.definitions import Metric, base_name, rollout_metric

_MOST_BANDS: Final = 5
"""More would cover one another."""
ALL: Final = "all environments"
"""Name of the mean over all; the stems of the curves are numbers, so no environment's name clashes."""


def environment_curves(
    curves: EnvCurves,
    codes: Sequence[int],
    unit: str,
    options: CurveOptions,
    *,
    dark: bool,
    places: Mapping[int, int],
    alone: bool = False,
) -> CurveChart:
    """A curve for each of these environments and one, dashed, for all.

    places: of codes the place among the colours (`colour_places`). alone: a small chart without a legend;
    every small chart of a metric has the same value axis.
    """
    columns = {"step": curves.steps, "all_mean": curves.overall}
    series = [Series("all", ALL, "reference", unit)]
    for code in codes:
        columns |= {f"e{code}_mean": curves.means[code], f"e{code}_n": curves.counts[code]}
        key, dash = category(places[code])
        series.append(Series(f"e{code}", curves.names[code], key, unit, dash=dash))
    height = 170 if alone else 250
    chart = curve(pd.DataFrame(columns), series, options, dark=dark, height=height)
    if alone:
        chart.legend = False
        known = np.concatenate([curves.means.ravel(), curves.overall])
        known = known[np.isfinite(known)]
        if len(known) and not options.log:
            low, high = float(known.min()), float(known.max())
            margin = (high - low) * 0.06 or 0.5
            chart.ends, chart.nonnegative = (low - margin, high + margin), False
    return chart


def colour_places(curves: EnvCurves) -> dict[int, int]:
    """Places among the colours, by how many values environments have: the largest share none.

    Codes in order where there are no more of them than colours.
    """
    count = len(curves.names)
    if count <= len(CATEGORIES):
        return {code: code for code in range(count)}
    largest = np.argsort(-curves.counts.sum(axis=1), kind="stable").tolist()
    return {code: place for place, code in enumerate(largest)}


def overlaid_runs(
    runs: Mapping[str, pd.DataFrame], column: str, options: CurveOptions, *, dark: bool
) -> CurveChart:
    """The metric of each run, by name its table of steps; runs that do not record it are left out. Of
    many runs the bands are under the pointer alone.

    A step that one run lacks is a gap of that run only where it lies between two of its steps.
    """
    stem, tables = base_name(column), dict[str, pd.DataFrame]()
    for name, steps in runs.items():
        mean = f"{stem}_mean" if f"{stem}_mean" in steps else stem
        parts = ("std", "n", "se", "groups", "q00")
        names = {"step": "step", mean: "mean", **{f"{stem}_{part}": part for part in parts}}
        tables[name] = steps[[c for c in names if c in steps]].rename(columns=names)
    look = {"dark": dark, "height": 260, "draw_band": len(tables) <= _MOST_BANDS}
    chart = _by_name(tables, rollout_metric(column), options, **look)
    for line in chart.lines:  # runs that log every tenth step are lines, not lone points
        line.connect = True
    return chart


def over_seeds(tables: Mapping[str, pd.DataFrame], column: str, *, dark: bool) -> CurveChart:
    """A curve for each set of runs, by its name, with the interval of its mean.

    tables: with the columns step, mean, low and high.
    """
    options = CurveOptions(band="runs")
    return _by_name(tables, rollout_metric(column), options, dark=dark, height=270)


class StepHits(Protocol):
    """At a step, how many rollouts were read, and in how many of them words are said."""

    step: int
    rollouts: int
    hits: int


def word_shares(
    words: Mapping[str, Sequence[StepHits]], *, dark: bool, smoothing: float = 0.0
) -> CurveChart:
    """A curve for each name: of the rollouts of a step, the share in which it is said.

    words: by name (a pattern, an environment) one entry or several per step, which are added up.
    """
    tables: dict[str, pd.DataFrame] = {}
    for name, entries in words.items():
        rows = [(one.step, one.rollouts, one.hits) for one in entries]
        counts = pd.DataFrame(rows, columns=pd.Index(["step", "n", "hits"]))
        counts = counts.groupby("step", as_index=False).sum()
        tables[name] = counts.assign(mean=counts["hits"] / counts["n"].where(counts["n"] > 0))
    return shares_by_name(tables, dark=dark, smoothing=smoothing)


def shares_by_name(
    tables: Mapping[str, pd.DataFrame], *, dark: bool, smoothing: float = 0.0
) -> CurveChart:
    """A curve of shares for each table. tables: by name, with the columns step, mean and n."""
    options = CurveOptions(band="none", smoothing=smoothing)
    return _by_name(tables, Metric("", "", "share"), options, dark=dark, height=270)


def _by_name(
    tables: Mapping[str, pd.DataFrame],
    metric: Metric,
    options: CurveOptions,
    *,
    dark: bool,
    height: int,
    draw_band: bool = True,
) -> CurveChart:
    """A curve in a colour or dash of its own for each table with rows.

    tables: with the columns step and mean, and std and n where known.
    """
    drawn = {name: table for name, table in tables.items() if len(table) and "mean" in table}
    every = [table["step"].to_numpy(np.int64) for table in drawn.values()]
    steps = np.unique(np.concatenate([np.array([], np.int64), *every]))
    columns, series = {"step": steps}, list[Series]()
    for place, name in enumerate(tables):
        if name in drawn:
            own = drawn[name].set_index("step").reindex(steps).add_prefix(f"c{place}_")
            columns |= {str(key): values.to_numpy() for key, values in own.items()}
            key, dash = category(place)
            look = {"dash": dash, "possible": metric.possible, "draw_band": draw_band}
            series.append(Series(f"c{place}", name, key, metric.unit, **look))
    return curve(pd.DataFrame(columns), series, options, dark=dark, height=height)


def columns_over_steps(
    steps: Sequence[int] | IntArray,
    columns: Mapping[str, Sequence[float] | FloatArray | IntArray],
    unit: str,
    colours: Sequence[str],
    *,
    dark: bool,
    smoothing: float = 0.0,
) -> CurveChart:
    """A curve for each column of numbers, by its label; a number for each step."""
    frame = pd.DataFrame({"step": np.asarray(steps, np.int64)})
    series: list[Series] = []
    for place, ((label, numbers), key) in enumerate(zip(columns.items(), cycle(colours))):
        frame[f"c{place}"] = numbers
        series.append(Series(f"c{place}", label, key, unit))
    options = CurveOptions(band="none", smoothing=smoothing)
    return curve(frame, series, options, dark=dark, height=230)


def prompt_course(
    steps: IntArray, indices: IntArray, values: FloatArray, name: str, key: str, *, dark: bool
) -> CurveChart:
    """A point for each rollout of a prompt over the steps, and a line through the means of its visits.

    steps, indices, values: [rollouts], NaN where not recorded: such rollouts are not drawn and are
    counted in the notes. The id of a point is its place in these arrays.
    """
    chart = CurveChart(dark, height=250)
    known = np.flatnonzero(np.isfinite(values))
    drawn = known[keep_extremes([values[known]], [values[known]], MAX_POINTS)]
    shade = colour(key, dark=dark)
    visits = pd.Series(values[known]).groupby(steps[known]).agg(["mean", "size"])
    texts = [
        f"mean {name} <b>{number(mean)}</b><br>step {step}, {count} rollout{'s' * (count > 1)}"
        for step, mean, count in visits.itertuples()
    ]
    at, means = visits.index.to_numpy(np.int64), visits["mean"].to_numpy(np.float64)
    chart.lines.append(Line(at, means, texts, f"mean {name}", shade, width=2, group="0"))
    texts = [
        f"{name} <b>{number(float(values[i]))}</b><br>step {steps[i]}, rollout {indices[i]}"
        for i in drawn.tolist()
    ]
    chart.dots.append(Dots(steps[drawn], values[drawn], texts, drawn, faded(shade, 0.45)))
    if missing := len(values) - len(known):
        chart.notes.append(f"Not drawn, without a {name}: {missing:,} of {len(values):,} rollouts.")
    if len(drawn) < len(known):
        chart.notes.append(f"{len(known):,} rollouts drawn with {len(drawn):,} points.")
    return chart
