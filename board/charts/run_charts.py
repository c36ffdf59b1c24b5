"""Several runs on one curve, aligned by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from board.charts.curves import CurveOptions, Series, curve
from board.charts.palette import category
from board.core.metrics.definitions import ROLLOUT_METRICS, rollout_metric


@dataclass(frozen=True, slots=True)
class RunSteps:
    """A run's table of steps; shift is added to its steps."""

    name: str
    steps: pd.DataFrame
    shift: int = 0


def overlaid_runs(
    runs: Sequence[RunSteps], column: str, options: CurveOptions, *, dark: bool, height: int = 260
) -> go.Figure:
    """The metric of each run, in a colour or dash of its own; runs that do not record it are left out.

    A step that one run lacks is a gap of that run only where it lies between two of its steps.
    """
    stem = column.removesuffix("_mean") if column in ROLLOUT_METRICS else column
    unit = rollout_metric(column).unit
    joined = pd.DataFrame({"step": pd.Series([], dtype="int64")})
    series: list[Series] = []
    for number, run in enumerate(runs):
        names = [str(name) for name in run.steps.columns]
        own = [c for c in names if c == stem or c.removeprefix(f"{stem}_") in _ENDINGS]
        if not own:
            continue
        part = run.steps[["step", *own]].rename(
            columns={c: f"r{number}{c[len(stem) :]}" for c in own}
        )
        part = part.assign(step=part["step"] + run.shift)
        joined = joined.merge(part, on="step", how="outer")
        key, dash = category(number)
        series.append(Series(f"r{number}", run.name, key, unit, dash=dash))
    joined = joined.sort_values("step").reset_index(drop=True)
    return _closed(curve(joined, series, options, dark=dark, height=height))


_ENDINGS = frozenset(("mean", "std", "n", "q00", "q05", "q25", "q50", "q75", "q95", "q100"))


def _closed(figure: go.Figure) -> go.Figure:
    """Runs that log every tenth step beside one that logs each are lines, not lone points."""
    figure.update_traces(connectgaps=True, selector={"mode": "lines+markers"})
    return figure
