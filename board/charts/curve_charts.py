"""Curves of several things over the steps: environments, runs, words; and the visits of a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.charts.curve_data import CurveOptions, Series, keep_extremes
from board.charts.curves import CurveChart, Dots, Line, curve
from board.charts.layout import number
from board.charts.palette import CATEGORIES, category, colour, faded
from board.core.groups.environments import EnvCurves
from board.core.metrics.definitions import ROLLOUT_METRICS, rollout_metric

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ALL: Final = "all environments"
"""Name of the mean over all; the stems of the curves are numbers, so no environment's name clashes."""
MAX_MARKS: Final = 1500
"""Above this many rollouts a chart keeps the extremes and says so."""
_STATISTICS: Final = frozenset(
    ("mean", "std", "n", "q00", "q05", "q25", "q50", "q75", "q95", "q100")
)


def overlaid(
    curves: EnvCurves,
    codes: Sequence[int],
    unit: str,
    options: CurveOptions,
    *,
    dark: bool,
    height: int = 250,
    places: Mapping[int, int] | None = None,
) -> CurveChart:
    """A curve for each of these environments and one, dashed, for all.

    places: of codes the place among the colours, where it is not the code itself (`colour_places`).
    """
    columns = {"step": curves.steps, "all_mean": curves.overall}
    series = [Series("all", ALL, "reference", unit)]
    for code in codes:
        columns |= {f"e{code}_mean": curves.means[code], f"e{code}_n": curves.counts[code]}
        key, dash = category(code if places is None else places[code])
        series.append(Series(f"e{code}", curves.names[code], key, unit, dash=dash))
    return curve(pd.DataFrame(columns), series, options, dark=dark, height=height)


def small_multiple(
    curves: EnvCurves,
    code: int,
    unit: str,
    options: CurveOptions,
    *,
    dark: bool,
    places: Mapping[int, int] | None = None,
) -> CurveChart:
    """One environment and, dashed, all; every small chart of a metric has the same value axis."""
    chart = overlaid(curves, [code], unit, options, dark=dark, height=170, places=places)
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


@dataclass(frozen=True, slots=True)
class RunSteps:
    """A run's table of steps; shift is added to its steps."""

    name: str
    steps: pd.DataFrame
    shift: int = 0


def overlaid_runs(
    runs: Sequence[RunSteps], column: str, options: CurveOptions, *, dark: bool
) -> CurveChart:
    """The metric of each run, in a colour or dash of its own; runs that do not record it are left out.

    A step that one run lacks is a gap of that run only where it lies between two of its steps.
    """
    stem = column.removesuffix("_mean") if column in ROLLOUT_METRICS else column
    tables: list[pd.DataFrame] = []
    series: list[Series] = []
    for place, run in enumerate(runs):
        names = [str(name) for name in run.steps.columns]
        own = [c for c in names if c == stem or c.removeprefix(f"{stem}_") in _STATISTICS]
        if own:
            columns = {c: f"r{place}{c.removeprefix(stem)}" for c in own}
            table = run.steps[own].rename(columns=columns)
            tables.append(table.assign(step=run.steps["step"] + run.shift))
            key, dash = category(place)
            unit = rollout_metric(column).unit
            series.append(Series(f"r{place}", run.name, key, unit, dash=dash))
    chart = curve(_joined(tables), series, options, dark=dark, height=260)
    for line in chart.lines:  # runs that log every tenth step are lines, not lone points
        line.connect = True
    return chart


def _joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The tables side by side, a row for each step that one of them has."""
    by_step = [table.set_index("step") for table in tables]
    empty = pd.DataFrame(index=pd.Index([], dtype="int64"))
    joined = pd.concat([empty, *by_step], axis="columns").sort_index()
    return joined.rename_axis("step").reset_index()


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
    tables: list[pd.DataFrame] = []
    series: list[Series] = []
    for place, (name, entries) in enumerate(words.items()):
        if entries:
            rows = [(one.step, one.rollouts, one.hits) for one in entries]
            counts = pd.DataFrame(rows, columns=pd.Index(["step", "n", "hits"]))
            counts = counts.groupby("step", as_index=False).sum()
            shares = counts["hits"] / counts["n"].where(counts["n"] > 0)
            own = {"step": counts["step"], f"w{place}": shares, f"w{place}_n": counts["n"]}
            tables.append(pd.DataFrame(own))
            key, dash = category(place)
            series.append(Series(f"w{place}", name, key, "share", dash=dash))
    options = CurveOptions(band="none", smoothing=smoothing)
    return curve(_joined(tables), series, options, dark=dark, height=270)


def prompt_course(
    steps: IntArray, indices: IntArray, values: Floats, name: str, key: str, *, dark: bool
) -> CurveChart:
    """A point for each rollout of a prompt over the steps, and a line through the means of its visits.

    steps, indices, values: [rollouts], NaN where not recorded: such rollouts are not drawn and are
    counted in the notes. The id of a point is its place in these arrays.
    """
    chart = CurveChart(dark, height=250)
    known = np.flatnonzero(np.isfinite(values))
    drawn = known
    if len(known):
        drawn = known[keep_extremes([values[known]], [values[known]], MAX_MARKS)]
    shade = colour(key, dark=dark)
    visits = pd.Series(values[known]).groupby(steps[known]).agg(["mean", "size"])
    texts = [
        f"mean {name} <b>{number(mean)}</b><br>step {step}, {count} rollout{'s' * (count > 1)}"
        for step, mean, count in visits.itertuples()
    ]
    at, means = visits.index.to_numpy(np.int64), visits["mean"].to_numpy(np.float64)
    chart.lines.append(Line(at, means, texts, f"mean {name}", shade, width=2, group="0"))
    texts = [
        f"{name} <b>{number(values[i])}</b><br>step {steps[i]}, rollout {indices[i]}"
        for i in drawn.tolist()
    ]
    chart.dots.append(Dots(steps[drawn], values[drawn], texts, drawn, faded(shade, 0.45)))
    if missing := len(values) - len(known):
        chart.notes.append(f"Not drawn, without a {name}: {missing:,} of {len(values):,} rollouts.")
    if len(drawn) < len(known):
        chart.notes.append(f"{len(known):,} rollouts drawn with {len(drawn):,} points.")
    return chart
