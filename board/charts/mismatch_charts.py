"""Charts of the sampler against the trainer: by sort of token, and over the steps of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Final, cast

import numpy as np
import plotly.graph_objects as go

from board.charts.curve_charts import columns_over_steps
from board.charts.curves import CurveChart
from board.charts.layout import (
    fit_tick_labels,
    new_figure,
    number,
    safe_name,
    safe_token,
    set_notes,
    show_legend_above,
)
from board.charts.palette import CATEGORIES, colour, faded
from board.core.arrays import FloatArray
from board.core.tokens.mismatch import Likelihood, Slice

MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "d_abs": ("mean |d|", "nats"),
    "d_mean": ("mean d", "nats"),
    "k3": ("KL(sampler‖trainer), k3", "nats"),
    "multiplicative": ("mean exp|d|", ""),
}
"""Field of a Slice -> its label and unit."""

_COLOURS: Final = ("mismatch", "ratio", "length", "groups")
_MOST_BARS: Final = 24
_ROW: Final = 19


def slice_bars(
    slices: Sequence[Slice], measure: str, *, dark: bool, level: bool, tokens: bool = False
) -> go.Figure:
    """A bar for each sort of token, in the order given; its width says nothing, its text how many.

    level: bars lie, with their names beside them; else they stand, in an order that means something.
    tokens: the names are tokens, whose spaces are made visible.
    The first 24 are drawn, and the notes say so.
    """
    largest = slices[:_MOST_BARS]
    names = [(safe_token if tokens else safe_name)(part.name, 24) for part in largest]
    values = _values(largest, measure)
    height = 40 + _ROW * max(len(largest), 6) if level else 320
    figure = new_figure(dark=dark, height=height)
    places = np.arange(len(largest))
    figure.add_bar(
        x=values if level else places,
        y=places if level else values,
        orientation="h" if level else "v",
        marker={"color": faded(colour("mismatch", dark=dark), 0.8), "line": {"width": 0}},
        text=_texts(names, largest, measure),
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
        width=0.78,
    )
    figure.update_layout(dragmode=False)
    ticks = {"tickmode": "array", "tickvals": places.tolist(), "ticktext": names, "showgrid": False}
    if level:
        figure.update_yaxes(**ticks, range=[len(largest) - 0.4, -0.6])
        figure.update_xaxes(showgrid=True, nticks=5, zeroline=True)
    else:
        figure.update_xaxes(**ticks, tickangle=-40)
        figure.update_yaxes(zeroline=True)
    fit_tick_labels(figure, "x" if level else "y", values)
    if len(largest) < len(slices):
        set_notes(figure, [f"The first {len(largest)} of {len(slices):,} are drawn."])
    return figure


def over_lags(parts: Mapping[str, Sequence[Slice]], *, dark: bool) -> go.Figure:
    """How far policies are apart, k3 (y), by how many versions the sampling weights lag (x).

    parts: slices by lag, by what to call their line.
    """
    figure = new_figure(dark=dark, height=230)
    for (name, slices), key in zip(parts.items(), cycle(_COLOURS)):
        ordered = sorted(slices, key=lambda part: float(part.name))
        names = [f"{safe_name(name)}, lag {part.name}" for part in ordered]
        figure.add_scatter(
            x=[float(part.name) for part in ordered],
            y=_values(ordered, "k3"),
            mode="lines+markers",
            name=safe_name(name),
            line={"color": colour(key, dark=dark), "width": 2.1},
            marker={"size": 7},
            text=_texts(names, ordered, "k3"),
            hovertemplate="%{text}<extra></extra>",
        )
    known = _values([part for one in parts.values() for part in one], "k3")
    fit_tick_labels(figure, "y", known)
    figure.update_xaxes(title_text="lag, versions", nticks=8)
    figure.update_yaxes(rangemode="tozero")
    if len(parts) > 1:
        show_legend_above(figure)
    return figure


def _values(slices: Sequence[Slice], measure: str) -> FloatArray:
    return np.array([getattr(part, measure) for part in slices], np.float64)


def _texts(names: Sequence[str], slices: Sequence[Slice], measure: str) -> list[str]:
    """What is said of each slice under the pointer."""
    label, unit = MEASURES[measure]
    return [
        f"{name}<br>{label} <b>{number(getattr(part, measure))}</b> {unit}<br>{part.tokens:,} tokens"
        for name, part in zip(names, slices, strict=True)
    ]


def fields_over_steps(
    steps: Mapping[int, object | None], fields: Mapping[str, str], unit: str, *, dark: bool
) -> CurveChart:
    """A curve for each field of what is known of the steps; those that are never recorded are left out.

    fields: of a `Decomposition` or `RuleShares`, as in "total.forward_k3" -> label.
    """
    recorded: dict[str, list[float]] = {}
    for field, label in fields.items():
        values = [_float(one, field) for one in steps.values()]
        if np.isfinite(values).any():
            recorded[label] = values
    return columns_over_steps([*steps], recorded, unit, _COLOURS, dark=dark)


def likelihoods(steps: Mapping[int, Sequence[Likelihood]], field: str, *, dark: bool) -> CurveChart:
    """Negative log-likelihood of tokens trained with cross-entropy, over the steps, by who speaks.

    field: of Likelihood, "mean" or "largest". The first 8 are drawn, and the notes say so.
    """
    by_step = [{part.name: part for part in own} for own in steps.values()]
    names = [*dict.fromkeys(name for own in by_step for name in own)]
    drawn = names[: len(CATEGORIES)]
    columns = {name: [_float(own.get(name), field) for own in by_step] for name in drawn}
    chart = columns_over_steps([*steps], columns, "nats", CATEGORIES, dark=dark)
    if len(drawn) < len(names):
        chart.notes = [f"The first {len(drawn)} of {len(names):,} are drawn."]
    return chart


def _float(of: object, field: str) -> float:
    """A field or a field of a field; NaN where any of them is None."""
    for name in field.split("."):
        of = getattr(of, name, None)
    return float("nan") if of is None else float(cast(float, of))
