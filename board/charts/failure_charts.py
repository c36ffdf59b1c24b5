"""Causes of failed rollouts over the steps, stacked, and by what they have in common."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from board.charts.curve_charts import shares_by_name
from board.charts.curve_data import smoothed
from board.charts.curves import CurveChart, Line, band_shapes
from board.charts.layout import new_figure, safe_name, show_legend_above
from board.charts.palette import colour, faded
from board.core.distinct_names import distinct_names
from board.core.failures.causes import CAUSES
from board.core.metrics.shares import percent

_HEIGHT: Final = 260
_ROW: Final = 26
_MOST_ROWS: Final = 16
_COLOURS: Final = {
    "policy": "reference",
    "truncated": "truncation",
    "tool_error": "mismatch",
    "sandbox": "kl",
    "judge": "groups",
    "server": "entropy",
    "timeout": "ratio",
    "aborted": "length",
    "unscored": "reward",
    "unknown": "validation",
}


def cause_colour(cause: str, *, dark: bool) -> str:
    """The hex colour of a cause, the same in every chart."""
    return colour(_COLOURS[cause], dark=dark)


def causes_over_steps(shares: pd.DataFrame, *, dark: bool, smoothing: float = 0.0) -> CurveChart:
    """Shares of the rollouts of each step by cause, stacked. shares: [steps], a column for each cause."""
    chart = CurveChart(dark, _HEIGHT, legend=True, percent=True, nonnegative=True)
    steps = shares.index.to_numpy(np.int64)
    base = np.zeros(len(steps))
    for place, cause in enumerate(map(str, shares)):
        share = shares[cause].to_numpy(np.float64)
        top = base + (smoothed(share, smoothing) if smoothing else share)
        shade = cause_colour(cause, dark=dark)
        chart.shapes += band_shapes(steps, base, top, faded(shade, 0.6), str(place))
        texts = [
            f"step {step}<br>{cause} <b>{percent(value)}</b> of the rollouts"
            for step, value in zip(steps.tolist(), share.tolist(), strict=True)
        ]
        line = Line(steps, top, texts, cause, shade, width=1.2, group=str(place))
        line.low = base  # layers are read by their height, from 0 on
        chart.lines.append(line)
        base = top
    if shares.empty:
        chart.notes = ["No rollout has a cause."]
    return chart


def tool_errors_over_steps(
    results: pd.DataFrame, *, dark: bool, smoothing: float = 0.0
) -> CurveChart:
    """For each tool the share of its results that are errors, of each step. results: step, tool,
    answered, errors; the tools in the order of their rows.
    """
    tables = {
        str(tool): pd.DataFrame(
            {"step": own["step"], "mean": own["errors"] / own["answered"], "n": own["answered"]}
        )
        for tool, own in results[results["answered"] > 0].groupby("tool", sort=False)
    }
    return shares_by_name(tables, dark=dark, smoothing=smoothing)


def causes_by_value(counts: pd.DataFrame, *, dark: bool) -> go.Figure:
    """A bar for each value, parted by cause: which share of its rollouts has each. counts: value, cause
    (None: no reason to ask), rollouts. The values with the largest share are drawn.
    """
    totals = counts.groupby("value")["rollouts"].sum()
    table = counts.dropna().pivot_table("rollouts", "value", "cause", "sum", fill_value=0)
    shares = table.div(totals.reindex(table.index), axis=0)
    shares = shares[[cause for cause in CAUSES if cause in shares]]
    order = shares.drop(columns="policy", errors="ignore").sum(axis=1).sort_values(ascending=False)
    shares = shares.loc[order.index[:_MOST_ROWS]]
    figure = new_figure(dark=dark, height=70 + _ROW * len(shares))
    names = [*map(safe_name, distinct_names([*map(str, shares.index)], 32))]
    rows = list(range(len(names)))[::-1]
    for cause in shares:
        own = shares[cause].to_numpy(np.float64)
        figure.add_bar(
            x=own,
            y=rows,
            orientation="h",
            name=str(cause),
            marker={"color": cause_colour(str(cause), dark=dark), "line_width": 0},
            text=[
                f"{name}<br>{cause} <b>{percent(share)}</b> of {int(totals[value]):,} rollouts"
                for name, value, share in zip(names, shares.index, own.tolist(), strict=True)
            ],
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
            width=0.7,
        )
    figure.update_layout(barmode="stack", dragmode=False)
    figure.update_xaxes(tickformat=".0%", showgrid=True)
    figure.update_yaxes(tickvals=rows, ticktext=names, showgrid=False)
    show_legend_above(figure)
    return figure
