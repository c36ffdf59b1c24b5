"""Curves over the steps of a run: the mean of a metric and how it is spread over the rollouts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import plotly.graph_objects as go

from board.charts.curve_data import (
    MAX_POINTS,
    Band,
    Beside,
    CurveOptions,
    Drawn,
    Series,
    beside_of,
    hover_texts,
    mean_column,
    prepared,
    thinned,
)
from board.charts.layout import (
    fit_tick_labels,
    new_figure,
    new_sketch,
    set_notes,
    show_legend_above,
)
from board.charts.palette import EVALUATIONS, colour, dash, faded
from board.charts.sketch import Drawing, Sketch
from board.charts.step_axis import fit_step_axis
from board.charts.text import safe_name

__all__ = [
    "MAX_POINTS",
    "Band",
    "Beside",
    "CurveOptions",
    "Series",
    "curve",
    "finish_step_axis",
    "last_means",
    "sketch",
]

Floats = npt.NDArray[np.float64]

_LOG_HEADROOM: Final = 0.25
_OPACITY: Final = 0.17
RECORDED_WIDTH: Final = 1
"""Of the line of recorded values behind a smoothed one; no other is as thin."""
_PEN_UP: Final = np.full((2, 1), np.nan)


def curve(
    steps: pd.DataFrame,
    series: Sequence[Series],
    options: CurveOptions | None = None,
    *,
    dark: bool,
    height: int = 250,
    beside: Sequence[Beside] = (),
) -> go.Figure:
    """Mean and band of each series over the steps; a click on a point carries x = the step, and the
    number of its series as the legendgroup.

    beside: other rollouts, of three splits at most, whose means of the first series are points, without
    an entry in the legend: the page has one for all charts. Their numbers come after those of the
    series. A step that only they have is no step of the series, and no gap in it.

    steps: the step table, ascending. Series without a column in it are left out. Steps at which a
    series is not recorded are gaps; a recorded step between two gaps is a visible point. Above
    MAX_POINTS steps the extremes of mean and band are kept. layout.meta holds `notes` (see
    `layout.notes_of`), `log_left_out` and `steps_drawn`, `steps_recorded`.
    """
    figure = new_figure(dark=dark, height=height)
    _draw(figure, steps, series, options or CurveOptions(), dark=dark, beside=beside)
    return figure


def sketch(
    steps: pd.DataFrame,
    series: Sequence[Series],
    options: CurveOptions | None = None,
    *,
    dark: bool,
    height: int = 250,
    beside: Sequence[Beside] = (),
) -> Sketch:
    """What `curve` draws, for `board.charts.light.light`, in a third of the time."""
    figure = new_sketch(dark=dark, height=height)
    _draw(figure, steps, series, options or CurveOptions(), dark=dark, beside=beside)
    return figure


def _draw(
    figure: Drawing,
    steps: pd.DataFrame,
    series: Sequence[Series],
    options: CurveOptions,
    *,
    dark: bool,
    beside: Sequence[Beside],
) -> None:
    drawable = [one for one in series if mean_column(steps, one.stem) is not None]
    tables = [steps for _ in drawable]
    drawn = [prepared(steps, one, options) for one in drawable]
    for one, key in zip(beside if drawable else (), EVALUATIONS, strict=False):
        if mean_column(one.steps, drawable[0].stem) is not None:
            tables.append(one.steps)
            drawn.append(beside_of(one, drawable[0], key, options))
    if options.log:
        _fit_log_axis(figure, drawn)
    drawn = [thinned(one) for one in drawn]
    for one, table in zip(drawn, tables, strict=True):
        one.hover = hover_texts(one, table.iloc[one.rows], options)
    for group, one in enumerate(drawn):
        figure.add_traces(list(_traces(one, options, dark, group=group)))
    if len(drawable) > 1:
        show_legend_above(figure)
    every = [table["step"].to_numpy(np.int64) for table in (steps, *tables[len(drawable) :])]
    is_share = bool(drawable) and all(one.unit == "share" for one in drawable)
    _finish_axes(figure, np.concatenate(every), options, is_share=is_share)
    if options.pick and len(drawn) > 1:
        figure.update_layout(hovermode="closest", hoverdistance=-1)
    if not options.log and not any(_reaches_below_zero(one) for one in drawn):
        figure.update_yaxes(rangemode="nonnegative")
    fit_tick_labels(figure, "y", np.concatenate([np.array([]), *(one.mean for one in drawn)]))
    _add_notes(figure, drawn, len(steps))


def last_means(steps: pd.DataFrame, stem: str, upto_step: int, n: int = 60) -> list[float]:
    """The last `n` recorded means up to and with `upto_step`; what is not recorded is left out."""
    column = mean_column(steps, stem)
    if column is None:
        return []
    values = column[steps["step"].to_numpy() <= upto_step]
    return values[np.isfinite(values)][-n:].tolist()


def _fit_log_axis(figure: Drawing, drawn: Sequence[Drawn]) -> None:
    """Leaves out and counts means of 0 or less; band edges down there go off the axis instead."""
    for one in drawn:
        one.left_out = int(np.count_nonzero(one.mean <= 0))
        one.mean = np.where(one.mean > 0, one.mean, np.nan)
        one.recorded = np.where(one.recorded > 0, one.recorded, np.nan)
    positive = [one.mean[~np.isnan(one.mean)] for one in drawn]
    means = np.concatenate(positive) if positive else np.array([])
    if len(means) == 0:
        return
    tops = [high[np.isfinite(high)] for one in drawn for _, high in one.bands]
    floor = float(means.min()) * 10**-_LOG_HEADROOM
    top = float(np.concatenate([means, *tops]).max()) * 10 ** (_LOG_HEADROOM / 3)
    for one in drawn:
        one.bands = [_above(floor, low, high) for low, high in one.bands]
    figure.update_yaxes(range=[np.log10(floor), np.log10(top)])


def _above(floor: float, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    is_visible = high > floor
    return np.where(is_visible, np.maximum(low, floor), np.nan), np.where(is_visible, high, np.nan)


def _traces(
    one: Drawn, options: CurveOptions, dark: bool, *, group: int
) -> Iterator[dict[str, Any]]:
    """Bands below, then the recorded values where the line is smoothed, then the line."""
    key = one.series.colour
    ink, legend = colour(key, dark=dark), {"legendgroup": str(group)}
    for low, high in one.bands:
        yield from band_traces(one.steps, low, high, faded(ink, _OPACITY), legend)
    if options.smoothing:
        yield dict(
            x=one.steps,
            y=one.recorded,
            mode="lines",
            line={"color": faded(ink, 0.3), "width": RECORDED_WIDTH},
            hoverinfo="skip",
            showlegend=False,
            **legend,
        )
    yield _line_trace(one, ink, legend)


def band_traces(
    steps: npt.NDArray[np.int64], low: Floats, high: Floats, fill: str, legend: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """A band between two edges [n] over the steps, NaN where it is not known.

    A closed shape for each stretch without a gap, an upright bar for a step between two gaps:
    one shape each, not fill="tonexty", which paints across gaps.
    """
    shapes: list[Floats] = []
    bars: list[Floats] = []
    for rows in _segments(low, high):
        there = np.stack([steps[rows], high[rows]])
        back = np.stack([steps[rows], low[rows]])[:, ::-1]
        (bars if len(rows) == 1 else shapes).append(np.hstack([there, back, _PEN_UP]))
    quiet: dict[str, Any] = {"mode": "lines", "hoverinfo": "skip", "showlegend": False, **legend}
    if shapes:
        x, y = np.hstack(shapes)
        yield dict(x=x, y=y, fill="toself", fillcolor=fill, line={"width": 0}, **quiet)
    if bars:
        x, y = np.hstack(bars)
        yield dict(x=x, y=y, line={"width": 7, "color": fill}, **quiet)


def _segments(low: Floats, high: Floats) -> list[npt.NDArray[np.int64]]:
    """Rows of each stretch without a gap."""
    rows = np.flatnonzero(np.isfinite(low) & np.isfinite(high))
    return np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1) if len(rows) else []


def _line_trace(one: Drawn, ink: str, legend: dict[str, str]) -> dict[str, Any]:
    """The mean. Markers make its points clickable; only those without neighbours are visible."""
    known = np.isfinite(one.mean)
    before, after = np.r_[False, known[:-1]], np.r_[known[1:], False]
    lone = known if one.points else known & ~before & ~after
    return dict(
        x=one.steps,
        y=one.mean,
        mode="lines+markers",
        name=safe_name(one.series.label),
        showlegend=not one.points,
        line={
            "color": ink,
            "width": 1.4 if one.points else 2.1,
            "dash": one.series.dash or dash(one.series.colour),
        },
        marker={"size": 7, "color": ink, "opacity": lone.astype(np.uint8) if lone.any() else 0},
        selected={"marker": {"opacity": 1}},
        connectgaps=False,
        text=np.array(one.hover, dtype=object),  # of a list plotly looks at each
        hovertemplate="%{text}<extra></extra>",
        **legend,
    )


def _finish_axes(
    figure: Drawing, steps: npt.NDArray[np.int64], options: CurveOptions, *, is_share: bool
) -> None:
    finish_step_axis(figure, steps)
    if options.log:
        figure.update_yaxes(type="log", tickformat="~g")
    elif is_share:
        figure.update_yaxes(tickformat=".0%")
    if options.shift_to_zero and not options.log:
        figure.update_yaxes(zeroline=True)


def finish_step_axis(figure: Drawing, steps: npt.NDArray[np.int64]) -> None:
    """The steps [n] as the axis below, and a pointer that shows all that is drawn at a step."""
    figure.update_layout(hovermode="x", dragmode="zoom", hoverdistance=40)
    if len(steps):
        fit_step_axis(figure, int(steps.min()), int(steps.max()))


def _reaches_below_zero(one: Drawn) -> bool:
    return any(bool(np.any(values < 0)) for values in (one.mean, *(low for low, _ in one.bands)))


def _add_notes(figure: Drawing, drawn: Sequence[Drawn], recorded: int) -> None:
    left_out = sum(one.left_out for one in drawn)
    steps_drawn = max((len(one.steps) for one in drawn), default=0)
    notes: list[str] = []
    if not any(np.isfinite(one.mean).any() for one in drawn):
        notes.append("Nothing that can be drawn is recorded.")
    if left_out:
        words = "1 value" if left_out == 1 else f"{left_out:,} values"
        notes.append(f"{words} of 0 or less left out: a log scale has no place for them.")
    if steps_drawn < recorded and drawn:
        notes.append(
            f"{recorded:,} steps drawn with {steps_drawn:,} points: the extremes are kept."
        )
    set_notes(
        figure, notes, log_left_out=left_out, steps_drawn=steps_drawn, steps_recorded=recorded
    )
