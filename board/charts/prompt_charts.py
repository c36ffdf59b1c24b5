"""Charts of one prompt over the steps of a run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from board.charts.curves import finish_step_axis
from board.charts.downsample import keep_extremes
from board.charts.layout import fit_tick_labels, new_sketch, set_notes
from board.charts.palette import colour, faded
from board.charts.sketch import Sketch
from board.charts.text import number

Floats = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MAX_MARKS = 1500
"""Above this many rollouts a chart keeps the extremes and says so."""


def prompt_course(
    steps: IntArray, indices: IntArray, values: Floats, name: str, key: str, *, dark: bool
) -> Sketch:
    """A point for each rollout of a prompt over the steps, and a line through the means of its visits;
    for `board.charts.light.light`.

    steps, indices, values: [rollouts], NaN where not recorded: such rollouts are not drawn and are
    counted in the notes. The customdata of a point is its place in these arrays.
    """
    figure = new_sketch(dark=dark, height=250)
    known = np.isfinite(values)
    places = np.flatnonzero(known)
    columns = (
        places[keep_extremes([values[places]], [values[places]], MAX_MARKS)]
        if len(places)
        else places
    )
    shade = colour(key, dark=dark)
    figure.add_traces([_means(steps[known], values[known], name, shade)])
    figure.add_traces(
        [
            {
                "x": steps[columns],
                "y": values[columns],
                "mode": "markers",
                "marker": {"color": faded(shade, 0.45)},
                "customdata": columns,
                "text": [
                    f"{name} <b>{number(values[place])}</b><br>"
                    f"step {steps[place]}, rollout {indices[place]}"
                    for place in columns.tolist()
                ],
            }
        ]
    )
    finish_step_axis(figure, steps[known])
    fit_tick_labels(figure, "y", values)
    missing, thinned = int((~known).sum()), len(columns) < len(places)
    notes = (
        [f"Not drawn, without a {name}: {missing:,} of {len(known):,} rollouts."] if missing else []
    )
    notes += [f"{len(places):,} rollouts drawn with {len(columns):,} points."] if thinned else []
    set_notes(figure, notes, missing=missing)
    return figure


def _means(steps: IntArray, values: Floats, name: str, ink: str) -> dict[str, object]:
    """The line through the mean of each step. steps, values: [rollouts]."""
    at, counts = np.unique(steps, return_counts=True)
    means = [float(values[steps == step].mean()) for step in at.tolist()]
    return {
        "x": at,
        "y": np.array(means),
        "mode": "lines+markers",
        "name": f"mean {name}",
        "line": {"color": ink, "width": 2, "dash": "solid"},
        "marker": {"opacity": 0},
        "legendgroup": "0",
        "text": [
            f"mean {name} <b>{number(mean)}</b><br>step {step}, {count} rollout{'s' * (count > 1)}"
            for mean, step, count in zip(means, at.tolist(), counts.tolist(), strict=True)
        ],
    }
