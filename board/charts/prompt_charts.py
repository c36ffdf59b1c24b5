"""Charts of one prompt over the steps of a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from board.charts.downsample import keep_extremes
from board.charts.layout import fit_tick_labels, new_figure, set_notes
from board.charts.palette import colour, ink
from board.charts.step_axis import fit_step_axis
from board.charts.text import number

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_MARKS = 1500
"""Above this many rollouts a chart keeps the extremes and says so."""


def prompt_course(
    steps: IntArray, indices: IntArray, values: Floats, name: str, key: str, *, dark: bool
) -> go.Figure:
    """A point for each rollout of a prompt over the steps, and a line through the means of its visits.

    steps, indices, values: [rollouts], NaN where not recorded: such rollouts are not drawn and are
    counted in the notes. The customdata of a point is its place in these arrays.
    """
    figure = new_figure(dark=dark, height=250)
    known = np.isfinite(values)
    places = np.flatnonzero(known)
    shown = (
        places[keep_extremes([values[places]], [values[places]], MAX_MARKS)]
        if len(places)
        else places
    )
    at = np.unique(steps[known])
    means = np.array([float(values[known & (steps == step)].mean()) for step in at.tolist()])
    shade = colour(key, dark=dark)
    figure.add_scatter(
        x=at,
        y=means,
        mode="lines",
        line={"color": shade, "width": 2},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=steps[shown],
        y=values[shown],
        mode="markers",
        marker={
            "size": 7,
            "color": shade,
            "opacity": 0.45,
            "line": {"width": 1, "color": ink(dark).surface},
        },
        customdata=shown,
        text=[
            f"step {steps[place]}, rollout {indices[place]}<br>{name} <b>{number(values[place])}</b>"
            for place in shown.tolist()
        ],
        hovertemplate="%{text}<extra></extra>",
    )
    figure.update_layout(hovermode="closest", dragmode="zoom")
    figure.update_xaxes(title_text="step")
    if len(at):
        fit_step_axis(figure, int(at[0]), int(at[-1]))
    fit_tick_labels(figure, "y", values)
    missing, thinned = int((~known).sum()), len(shown) < len(places)
    notes = (
        [f"Not drawn, without a {name}: {missing:,} of {len(known):,} rollouts."] if missing else []
    )
    notes += [f"{len(places):,} rollouts drawn with {len(shown):,} points."] if thinned else []
    set_notes(figure, notes, missing=missing)
    return figure
