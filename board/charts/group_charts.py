"""Charts of groups: a step's groups x rollouts, and what groups give over the steps of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from board.charts.curve_charts import columns_over_steps
from board.charts.curve_data import CurveOptions, Series, smoothed
from board.charts.curves import CurveChart, Line, band_shapes, curve
from board.charts.layout import (
    fit_step_axis,
    fit_tick_labels,
    new_figure,
    number,
    safe_name,
    set_notes,
)
from board.charts.palette import colour, faded, ink
from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.distinct_names import distinct_names
from board.core.groups.solve_rates import pass_at_k_by_step, solve_rate_shares
from board.core.groups.statistics import Groups, Outcome, StepGroups
from board.core.metrics.shares import percent

MAX_CELLS: Final = 1200
"""A browser takes about a millisecond for each: more are drawn a part at a time."""

_SHARE_ENDS: Final = (0.0, 1.02)
OUTCOME_WORDS: Final = {
    Outcome.MIXED: "rewards differ",
    Outcome.ALL_RIGHT: "all right",
    Outcome.ALL_WRONG: "all wrong",
    Outcome.OTHER: "all equal",
    Outcome.TOO_FEW_SCORED: "too few scored",
}
_CELL: Final = 30
_LOWEST: Final = 150
_HIGHEST: Final = 620
_CURVE_HEIGHT: Final = 230
_MOST_COLUMNS: Final = 60
# Of the stacked shares: all right, all wrong, equal otherwise.
_SHARES: Final = (
    ("all_right", "all right", "length"),
    ("all_wrong", "all wrong", "mismatch"),
    ("other", "all equal otherwise", "reference"),
)
_PASS_COLOURS: Final = ("reward", "ratio", "length", "truncation", "groups", "kl", "mismatch")


@dataclass(frozen=True, slots=True)
class Cells:
    """A step's groups as rows of a grid. names, words: [groups] of the rows, words of how it went.

    index: [groups, widest] index of the rollout within its step, -1 where a group is smaller; values:
    the same shape, NaN where a rollout has none.
    """

    names: Sequence[str]
    words: Sequence[str]
    index: IntArray
    values: FloatArray


def group_grid(
    cells: Cells, metric: str, *, diverging: bool, dark: bool, chosen: str | None = None
) -> go.Figure:
    """A square for each rollout, groups as rows; the customdata of each is its rollout's index.

    Rollouts without a value are crosses, never a colour of the scale; a smaller group leaves its row's
    end empty. diverging: the scale is symmetric around 0. chosen: name of the group that is marked.
    """
    count = len(cells.names)
    height = int(np.clip(count * _CELL + 70, _LOWEST, _HIGHEST))
    figure = new_figure(dark=dark, height=height)
    side = float(np.clip((height - 70) / max(count, 1) * 0.72, 5, 22))
    rows, columns = np.nonzero(cells.index >= 0)
    known = np.isfinite(cells.values[rows, columns])
    if known.any():
        values = cells.values[rows[known], columns[known]]
        texts = [f"{metric} <b>{number(value)}</b>" for value in values]
        marker = {"symbol": "square", "size": side, **_colour_scale(values, diverging, dark)}
        figure.add_trace(_marks(cells, rows[known], columns[known], texts, marker))
    if not known.all():
        lines = {"width": 1.6, "color": ink("muted", dark=dark)}
        marker = {"symbol": "x-thin", "size": side * 0.55, "line": lines}
        texts = [f"{metric} not recorded"] * int((~known).sum())
        figure.add_trace(_marks(cells, rows[~known], columns[~known], texts, marker))
        missing = f"{(~known).sum():,} of {len(known):,} rollouts"
        set_notes(figure, [f"Crosses have no {metric}: {missing}."])
    if chosen is not None and chosen in cells.names:
        row = list(cells.names).index(chosen)
        shade = faded(ink("muted", dark=dark), 0.14)
        figure.add_hrect(y0=row - 0.5, y1=row + 0.5, fillcolor=shade, line_width=0, layer="below")
    _finish_grid(figure, cells)
    return figure


def _colour_scale(values: FloatArray, diverging: bool, dark: bool) -> dict[str, Any]:
    low, high = float(values.min()), float(values.max())
    if diverging:
        scale = (ink("below", dark=dark), ink("neutral", dark=dark), ink("above", dark=dark))
        high = max(abs(low), abs(high)) or 1.0
        low = -high
    else:
        scale = (ink("neutral", dark=dark), colour("reward", dark=dark))
        if low == high:
            low, high = min(low, 0.0), max(high, low + 1.0, 0.0)
    ticks = {"size": 11, "color": ink("muted", dark=dark)}
    return {
        "color": values,
        "cmin": low,
        "cmax": high,
        "colorscale": [[i / (len(scale) - 1), shade] for i, shade in enumerate(scale)],
        "line": {"width": 1, "color": ink("zero", dark=dark)},
        "colorbar": {"thickness": 8, "outlinewidth": 0, "tickfont": ticks, "nticks": 5, "len": 1},
    }


def _marks(
    cells: Cells, rows: IntArray, columns: IntArray, texts: Sequence[str], marker: Mapping[str, Any]
) -> go.Scatter:
    """A mark for each of these rollouts. texts: what is said of their values."""
    return go.Scatter(
        x=columns,
        y=rows,
        mode="markers",
        marker=marker,
        customdata=cells.index[rows, columns],
        text=[
            f"rollout {cells.index[row, column]}<br>{text}<br>"
            f"group {safe_name(cells.names[int(row)], 40)}, {cells.words[row]}"
            for row, column, text in zip(rows.tolist(), columns.tolist(), texts, strict=True)
        ],
        hovertemplate="%{text}<extra></extra>",
    )


def _finish_grid(figure: go.Figure, cells: Cells) -> None:
    count, widest = cells.index.shape
    figure.update_layout(dragmode=False)
    rows = zip(distinct_names(cells.names, 16), cells.words, strict=True)
    labels = [f"{safe_name(name)}  {words}" for name, words in rows]
    every = max(1, round(count / (_HIGHEST / 18)))
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(0, count, every)),
        ticktext=labels[::every],
        range=[count - 0.5, -0.5],
        showgrid=False,
    )
    figure.update_xaxes(
        range=[-0.6, widest - 0.4], title_text="rollout of the group", showticklabels=False
    )


def zero_std_groups(by_step: StepGroups, *, dark: bool, smoothing: float = 0.0) -> CurveChart:
    """Shares of zero-std groups over the steps, stacked: all right, all wrong, other.

    Shares are of the groups with 2 or more scores; a step without any is a gap. The line is their sum
    as it is, the layers are smoothed.
    """
    chart = CurveChart(dark, _CURVE_HEIGHT, legend=True, percent=True, ends=_SHARE_ENDS)
    known = np.isfinite(by_step.zero_std)
    base = np.where(known, 0.0, np.nan)
    for group, (name, words, key) in enumerate(_SHARES):
        share = getattr(by_step, name)
        if not np.any(share[known] > 0):
            continue
        top = base + (smoothed(share, smoothing) if smoothing else share)
        shade = colour(key, dark=dark)
        chart.shapes += band_shapes(by_step.steps, base, top, faded(shade, 0.6), str(group))
        texts = [
            f"step {step}<br>{words} <b>{percent(value)}</b> of {n} groups" if n else ""
            for step, value, n in zip(by_step.steps, share, by_step.groups, strict=True)
        ]
        label = f"{words}, mean {percent(float(np.nanmean(share)))}"
        # The legend names a layer of the stack by its upper edge.
        edge = Line(by_step.steps, top, texts, label, shade, width=1.4, group=str(group))
        chart.lines.append(edge)
        base = top
    shade, texts = faded(ink("text", dark=dark), 0.35), _total_texts(by_step)
    total = Line(by_step.steps, by_step.zero_std, texts, "all of them", shade, width=1.2)
    chart.lines.append(total)
    if not known.any():
        chart.notes = ["Nothing that can be drawn is recorded."]
    return chart


def _total_texts(by_step: StepGroups) -> list[str]:
    shares = (by_step.zero_std, by_step.all_right, by_step.all_wrong, by_step.other)
    texts: list[str] = []
    for step, n, *own in zip(by_step.steps, by_step.groups, *shares, strict=True):
        total, right, wrong, other = map(percent, own)
        words = f"{right} all right, {wrong} all wrong, {other} other"
        equal = f"step {step}<br><b>{total}</b> of {n} groups with equal rewards<br>{words}"
        texts.append(equal if n else "")
    return texts


def effective_batch(by_step: StepGroups, *, dark: bool, smoothing: float = 0.0) -> CurveChart:
    """Rollouts in groups whose rewards differ, and all rollouts of groups, over the steps."""
    columns = {
        "rollouts in groups whose rewards differ": by_step.effective,
        "all rollouts in groups": by_step.rollouts,
    }
    colours = ("reward", "reference")
    return columns_over_steps(by_step.steps, columns, "", colours, dark=dark, smoothing=smoothing)


def pass_at(groups: Groups, *, dark: bool, smoothing: float = 0.0) -> CurveChart:
    """Unbiased pass@k over the steps, for k = 1, 2, 4, ... up to the largest group; with the interval of
    the mean over groups, drawn for k = 1.
    """
    largest = int(groups.graded.max(initial=0))
    frame = pd.DataFrame({"step": np.unique(groups.steps)})
    series: list[Series] = []
    for k, key in zip((1, 2, 4, 8, 16, 32, 64, 128), (*_PASS_COLOURS, "entropy"), strict=True):
        own = pass_at_k_by_step(groups, k) if k <= largest else None
        if own is not None and np.isfinite(own.mean).any():
            name = f"k{k}"
            frame[[f"{name}_mean", f"{name}_low", f"{name}_high"]] = np.stack(
                [own.mean, own.low, own.high], axis=1
            )
            label = "pass@1 (solve rate)" if k == 1 else f"pass@{k}"
            series.append(Series(name, label, key, "share", draw_band=k == 1))
    options = CurveOptions(band="groups", smoothing=smoothing)
    chart = curve(frame, series, options, dark=dark, height=_CURVE_HEIGHT)
    chart.ends = _SHARE_ENDS
    return chart


def solve_rates(groups: Groups, *, dark: bool) -> go.Figure | None:
    """Shares of groups (colour) by how many of their rollouts are right (y) over the steps; None where no
    rollout is judged. Of more than 60 steps several are put together, each as often as it has groups.
    """
    own = solve_rate_shares(groups)
    known = np.flatnonzero(own.groups > 0)
    if not len(known):
        return None
    parts = np.array_split(known, min(len(known), _MOST_COLUMNS))
    counts = np.nan_to_num(own.shares) * own.groups
    totals = np.array([own.groups[part].sum() for part in parts])
    shares = np.stack([counts[:, part].sum(axis=1) for part in parts], axis=1) / totals
    spans = [(int(own.steps[part[0]]), int(own.steps[part[-1]])) for part in parts]
    words = [f"step {low}" if low == high else f"steps {low} to {high}" for low, high in spans]
    figure = new_figure(dark=dark, height=_CURVE_HEIGHT)
    figure.add_heatmap(
        x=[(low + high) / 2 for low, high in spans],
        y=list(range(len(own.labels))),
        z=shares,
        zmin=0.0,
        zmax=float(shares.max()),
        colorscale=[[0, faded(colour("reward", dark=dark), 0.0)], [1, colour("reward", dark=dark)]],
        text=[
            [
                f"{word}<br>{safe_name(label)} right: <b>{percent(share)}</b> of {total} groups"
                for word, share, total in zip(words, row, totals, strict=True)
            ]
            for label, row in zip(own.labels, shares, strict=True)
        ],
        hovertemplate="%{text}<extra></extra>",
        colorbar={"thickness": 10, "tickformat": ".0%", "outlinewidth": 0, "nticks": 4},
    )
    figure.update_yaxes(
        tickvals=list(range(len(own.labels))),
        ticktext=[safe_name(label) for label in own.labels],
        showgrid=False,
    )
    fit_step_axis(figure, spans[0][0], spans[-1][1])
    figure.update_xaxes(title={"text": "step", "standoff": 10})
    return figure


def recorded_against_expected(
    recorded: FloatArray, expected: FloatArray, differs: BoolArray, index: IntArray, *, dark: bool
) -> go.Figure:
    """Each rollout's advantage as recorded (y) over the one its rewards give (x), [rollouts] of a step.

    On the line they are equal; those that differ are drawn in the colour of warnings.
    """
    figure = new_figure(dark=dark, height=260)
    known = np.isfinite(recorded) & np.isfinite(expected)
    both = np.concatenate([recorded[known], expected[known]])
    if len(both):
        ends = [float(both.min()), float(both.max())]
        line = {"color": ink("zero", dark=dark), "width": 1, "dash": "dot"}
        figure.add_scatter(x=ends, y=ends, mode="lines", line=line, hoverinfo="skip")
    for rows, key in ((known & ~differs, "reward"), (known & differs, "mismatch")):
        if not rows.any():
            continue
        figure.add_scatter(
            x=expected[rows],
            y=recorded[rows],
            mode="markers",
            marker={"size": 7, "color": colour(key, dark=dark), "opacity": 0.8},
            customdata=index[rows],
            text=[
                f"rollout {i}<br>recorded <b>{number(a)}</b><br>recomputed <b>{number(b)}</b>"
                for i, a, b in zip(index[rows], recorded[rows], expected[rows], strict=True)
            ],
            hovertemplate="%{text}<extra></extra>",
        )
    figure.update_xaxes(title_text="recomputed from rewards")
    figure.update_yaxes(title_text="recorded")
    fit_tick_labels(figure, "y", recorded)
    return figure
