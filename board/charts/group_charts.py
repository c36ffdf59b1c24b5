"""Charts of groups: a step's groups x rollouts, and what groups give over the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from board.charts.curve_data import smoothed
from board.charts.curves import CurveOptions, Series, band_traces, curve, finish_step_axis
from board.charts.layout import fit_tick_labels, new_figure, set_notes
from board.charts.palette import colour, faded, ink
from board.charts.text import number, safe_name
from board.core.groups.statistics import Groups, Outcome, StepGroups, pass_at_k_by_step
from board.core.metrics.shares import percent

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_CELLS: Final = 1200
"""A browser takes about a millisecond for each: more are drawn a part at a time."""

_QUARTERS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Ticks of an axis of shares."""

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
    values: Floats


def group_grid(
    cells: Cells, metric: str, *, diverging: bool, dark: bool, chosen: str | None = None
) -> go.Figure:
    """A square for each rollout, groups as rows; the customdata of each is its rollout's index.

    Rollouts without a value are crosses, never a colour of the scale; a smaller group leaves its row's
    end empty. diverging: the scale is symmetric around 0. chosen: name of the group that is marked.
    """
    count, widest = cells.index.shape
    height = int(np.clip(count * _CELL + 70, _LOWEST, _HIGHEST))
    figure = new_figure(dark=dark, height=height)
    side = float(np.clip((height - 70) / max(count, 1) * 0.72, 5, 22))
    rows, columns = np.nonzero(cells.index >= 0)
    known = np.isfinite(cells.values[rows, columns])
    if known.any():
        figure.add_trace(
            _squares(cells, rows[known], columns[known], metric, diverging, dark, side)
        )
    if not known.all():
        figure.add_trace(_crosses(cells, rows[~known], columns[~known], metric, dark, side))
    if chosen is not None and chosen in cells.names:
        place = list(cells.names).index(chosen)
        figure.add_hrect(
            y0=place - 0.5,
            y1=place + 0.5,
            fillcolor=faded(ink(dark).muted, 0.14),
            line_width=0,
            layer="below",
        )
    _finish_grid(figure, cells, count, widest)
    missing = int((~known).sum())
    notes = (
        [f"Crosses have no {metric}: {missing:,} of {(cells.index >= 0).sum():,} rollouts."]
        if missing
        else []
    )
    set_notes(figure, notes, missing=missing)
    return figure


def _squares(
    cells: Cells,
    rows: IntArray,
    columns: IntArray,
    metric: str,
    diverging: bool,
    dark: bool,
    side: float,
) -> go.Scatter:
    values = cells.values[rows, columns]
    low, high = _range(values, diverging)
    colours = ink(dark)
    ends = (colours.below, colours.neutral, colours.above)
    scale = ends if diverging else (colours.neutral, colour("reward", dark=dark))
    return go.Scatter(
        x=columns,
        y=rows,
        mode="markers",
        marker={
            "symbol": "square",
            "size": side,
            "color": values,
            "cmin": low,
            "cmax": high,
            "colorscale": [[i / (len(scale) - 1), shade] for i, shade in enumerate(scale)],
            "line": {"width": 1, "color": colours.zero},
            "colorbar": {
                "thickness": 8,
                "outlinewidth": 0,
                "tickfont": {"size": 11, "color": colours.muted},
                "nticks": 5,
                "len": 1,
            },
        },
        customdata=cells.index[rows, columns],
        text=[
            _hover(cells, row, column, f"{metric} <b>{number(value)}</b>")
            for row, column, value in zip(rows, columns, values, strict=True)
        ],
        hovertemplate="%{text}<extra></extra>",
    )


def _range(values: Floats, diverging: bool) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    if diverging:
        reach = max(abs(low), abs(high)) or 1.0
        return -reach, reach
    return (low, high) if low < high else (min(low, 0.0), max(high, low + 1.0, 0.0))


def _crosses(
    cells: Cells, rows: IntArray, columns: IntArray, metric: str, dark: bool, side: float
) -> go.Scatter:
    return go.Scatter(
        x=columns,
        y=rows,
        mode="markers",
        marker={
            "symbol": "x-thin",
            "size": side * 0.55,
            "line": {"width": 1.6, "color": ink(dark).muted},
        },
        customdata=cells.index[rows, columns],
        text=[
            _hover(cells, row, column, f"{metric} not recorded")
            for row, column in zip(rows, columns, strict=True)
        ],
        hovertemplate="%{text}<extra></extra>",
    )


def _hover(cells: Cells, row: int, column: int, rewards: str) -> str:
    group = f"group {safe_name(cells.names[row], 40)}, {cells.words[row]}"
    return f"rollout {cells.index[row, column]}<br>{rewards}<br>{group}"


def _finish_grid(figure: go.Figure, cells: Cells, count: int, widest: int) -> None:
    figure.update_layout(hovermode="closest", dragmode=False)
    labels = [
        f"{safe_name(name, 16)}  {word}"
        for name, word in zip(cells.names, cells.words, strict=True)
    ]
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


def no_gradient(
    by_step: StepGroups, *, dark: bool, smoothing: float = 0.0, height: int = 230
) -> go.Figure:
    """Shares of groups without a gradient over the steps, stacked: all right, all wrong, other.

    Shares are of the groups with 2 or more scores; a step without any is a gap. The line is their sum
    as it is, the layers are smoothed.
    """
    figure = new_figure(dark=dark, height=height)
    known = np.isfinite(by_step.zero_std)
    base = np.where(known, 0.0, np.nan)
    for place, (name, words, key) in enumerate(_SHARES):
        share = getattr(by_step, name)
        if not np.any(share[known] > 0):
            continue
        top = base + (smoothed(share, smoothing) if smoothing else share)
        group, shade = {"legendgroup": str(place)}, colour(key, dark=dark)
        figure.add_traces([*band_traces(by_step.steps, base, top, faded(shade, 0.6), group)])
        figure.add_trace(_edge(by_step, top, share, words, shade).update(group))
        base = top
    figure.add_trace(_total(by_step, dark))
    figure.update_layout(showlegend=True, margin={"t": 34})
    finish_step_axis(figure, by_step.steps)
    _set_shares_axis(figure)
    set_notes(figure, () if known.any() else ("Nothing that can be drawn is recorded.",))
    return figure


def _set_shares_axis(figure: go.Figure) -> None:
    figure.update_yaxes(range=[0, 1.02], tickformat=".0%")
    figure.update_yaxes(tickvals=_QUARTERS, ticktext=[*map(percent, _QUARTERS)])


def _edge(by_step: StepGroups, top: Floats, share: Floats, words: str, shade: str) -> go.Scatter:
    """The upper edge of a layer of the stack, which stands for the layer in the legend."""
    texts = [
        f"step {step}<br>{words} <b>{percent(value)}</b> of {n} groups" if n else ""
        for step, value, n in zip(by_step.steps, share, by_step.groups, strict=True)
    ]
    mean = float(share[np.isfinite(share)].mean())
    return _line(by_step, top, texts, f"{words}, mean {percent(mean)}", shade, 1.4)


def _total(by_step: StepGroups, dark: bool) -> go.Scatter:
    texts = [
        f"step {step}<br><b>{percent(total)}</b> of {n} groups with equal rewards<br>"
        f"{percent(right)} all right, {percent(wrong)} all wrong, {percent(other)} other"
        if n
        else ""
        for step, total, n, right, wrong, other in zip(
            by_step.steps,
            by_step.zero_std,
            by_step.groups,
            by_step.all_right,
            by_step.all_wrong,
            by_step.other,
            strict=True,
        )
    ]
    shade = faded(ink(dark).text, 0.35)
    return _line(by_step, by_step.zero_std, texts, "all of them", shade, 1.2)


def _line(
    by_step: StepGroups, values: Floats, texts: list[str], name: str, shade: str, width: float
) -> go.Scatter:
    return go.Scatter(
        x=by_step.steps,
        y=values,
        mode="lines+markers",
        line={"color": shade, "width": width, "dash": "solid"},
        marker={"opacity": 0, "size": 7},
        text=texts,
        hovertemplate="%{text}<extra></extra>",
        name=name,
    )


def effective_batch(
    by_step: StepGroups, *, dark: bool, smoothing: float = 0.0, height: int = 230
) -> go.Figure:
    """Rollouts in groups with a gradient, and all rollouts of groups, over the steps."""
    frame = pd.DataFrame(
        {"step": by_step.steps, "effective": by_step.effective, "all": by_step.rollouts}
    )
    series = [
        Series("effective", "rollouts in groups whose rewards differ", "reward"),
        Series("all", "all rollouts in groups", "reference"),
    ]
    options = CurveOptions(band="none", smoothing=smoothing)
    return curve(frame, series, options, dark=dark, height=height)


def pass_at(groups: Groups, *, dark: bool, smoothing: float = 0.0, height: int = 230) -> go.Figure:
    """Unbiased pass@k over the steps, for k = 1, 2, 4, ... up to the largest group."""
    frame = pd.DataFrame({"step": np.unique(groups.steps)})
    series: list[Series] = []
    for place, k in enumerate(powers(int(groups.judged.max(initial=0)))):
        _, values = pass_at_k_by_step(groups, k)
        if np.isfinite(values).any():
            frame[f"k{k}"] = values
            words = "pass@1 (solve rate)" if k == 1 else f"pass@{k}"
            series.append(
                Series(f"k{k}", words, _PASS_COLOURS[place % len(_PASS_COLOURS)], "share")
            )
    options = CurveOptions(band="none", smoothing=smoothing)
    figure = curve(frame, series, options, dark=dark, height=height)
    _set_shares_axis(figure)
    return figure


def powers(largest: int) -> list[int]:
    """1, 2, 4, ... up to `largest`; 128 at most, beyond which no group is."""
    return [k for k in (1, 2, 4, 8, 16, 32, 64, 128) if k <= largest]


def recorded_against_expected(
    recorded: Floats,
    expected: Floats,
    differs: npt.NDArray[np.bool_],
    index: IntArray,
    *,
    dark: bool,
) -> go.Figure:
    """Each rollout's advantage as recorded (y) over the one its rewards give (x), [rollouts] of a step.

    On the line they are equal; those that differ are drawn in the colour of warnings.
    """
    figure = new_figure(dark=dark, height=260)
    known = np.isfinite(recorded) & np.isfinite(expected)
    both = np.concatenate([recorded[known], expected[known]])
    if len(both):
        ends = [float(both.min()), float(both.max())]
        line = {"color": ink(dark).zero, "width": 1, "dash": "dot"}
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
    figure.update_layout(hovermode="closest", dragmode="zoom")
    figure.update_xaxes(title_text="recomputed from rewards")
    figure.update_yaxes(title_text="recorded")
    fit_tick_labels(figure, "y", recorded)
    set_notes(figure, ())
    return figure
