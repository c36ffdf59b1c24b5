"""Charts of the sampler against the trainer: by sort of token, and over the steps of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from board.charts.curves import CurveOptions, Series, curve
from board.charts.layout import fit_tick_labels, new_figure, set_notes, show_legend_above
from board.charts.palette import CATEGORIES, colour, faded
from board.charts.text import number, safe_name, safe_token
from board.core.findings.rule_counts import RuleShares
from board.core.tokens.masks import Side
from board.core.tokens.mismatch import Apart, Decomposition, Likelihood
from board.core.tokens.mismatch_slices import Slice

MEASURES: Final[Mapping[str, tuple[str, str]]] = {
    "d_abs": ("mean |d|", "nats"),
    "d_mean": ("mean d", "nats"),
    "k3": ("KL(sampler‖trainer), k3", "nats"),
    "multiplicative": ("mean exp|d|", ""),
}
"""Field of a Slice -> its label and unit."""

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
    label, unit = MEASURES[measure]
    values = np.array([float(getattr(part, measure)) for part in largest])
    names = [(safe_token if tokens else safe_name)(part.name, 24) for part in largest]
    texts = [
        f"{name}<br>{label} <b>{number(value)}</b> {unit}<br>{part.tokens:,} tokens"
        for name, value, part in zip(names, values.tolist(), largest, strict=True)
    ]
    height = 40 + _ROW * max(len(largest), 6) if level else 320
    figure = new_figure(dark=dark, height=height)
    places = np.arange(len(largest))
    figure.add_bar(
        x=values if level else places,
        y=places if level else values,
        orientation="h" if level else "v",
        marker={"color": faded(colour("mismatch", dark=dark), 0.8), "line": {"width": 0}},
        text=texts,
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
        width=0.78,
    )
    figure.update_layout(hovermode="closest", dragmode=False)
    ticks = {"tickmode": "array", "tickvals": places.tolist(), "ticktext": names, "showgrid": False}
    if level:
        figure.update_yaxes(**ticks, range=[len(largest) - 0.4, -0.6])
        figure.update_xaxes(showgrid=True, nticks=5, zeroline=True)
    else:
        figure.update_xaxes(**ticks, tickangle=-40)
        figure.update_yaxes(zeroline=True)
    fit_tick_labels(figure, "x" if level else "y", values)
    cut = len(largest) < len(slices)
    set_notes(figure, [f"The first {len(largest)} of {len(slices):,} are drawn."] if cut else [])
    return figure


@dataclass(frozen=True, slots=True)
class StepValue:
    """What of a step the curves need."""

    step: int
    parts: Decomposition | None
    rules: Sequence[RuleShares] = ()
    likelihood: Sequence[Likelihood] = ()


def distances(
    found: Sequence[StepValue], fields: Mapping[str, str], unit: str, *, dark: bool
) -> go.Figure:
    """Estimates of how far sampler and trainer are apart, over the steps. fields: of Apart -> label."""
    frame = pd.DataFrame({"step": np.array([one.step for one in found], np.int64)})
    for field in fields:
        frame[field] = [_of(one.parts.total if one.parts else None, field) for one in found]
    return _drawn(frame, fields, unit, dark)


def parts(values: Sequence[StepValue], *, dark: bool) -> go.Figure:
    """k3 of the whole mismatch, of the engine's part and of the stale part, over the steps."""
    fields = {"total": "total", "engine": "engine only", "staleness": "staleness only"}
    frame = pd.DataFrame({"step": np.array([one.step for one in values], np.int64)})
    for field in fields:
        frame[field] = [
            _of(getattr(one.parts, field) if one.parts else None, "forward_k3") for one in values
        ]
    recorded = {name: label for name, label in fields.items() if frame[name].notna().any()}
    return _drawn(frame, recorded, "nats", dark)


def rule_curves(found: Sequence[StepValue], rule: str, bound: Side, *, dark: bool) -> go.Figure:
    """Shares of the loss tokens that a rule stops beyond one of its bounds: of all, and of those with a
    positive and with a negative advantage, each among its own. What the rule does not stop is not drawn.
    """
    by_step = [next((r for r in one.rules if r.rule == rule), None) for one in found]
    lines: dict[str, tuple[str, Callable[[RuleShares], float]]] = {
        "all": ("of all loss tokens", lambda shares: getattr(shares, bound)),
        "positive": ("of those with A > 0", lambda shares: getattr(shares.positive, bound)),
        "negative": ("of those with A < 0", lambda shares: getattr(shares.negative, bound)),
    }
    frame = pd.DataFrame({"step": np.array([one.step for one in found], np.int64)})
    for name, (_, share) in lines.items():
        frame[name] = [np.nan if one is None else share(one) for one in by_step]
    recorded = {name: label for name, (label, _) in lines.items() if frame[name].notna().any()}
    figure = _drawn(frame, recorded, "share", dark)
    figure.update_yaxes(tickformat=".2%")
    return figure


def over_lags(parts: Mapping[str, Sequence[Slice]], measure: str, *, dark: bool) -> go.Figure:
    """How far policies are apart (y) by how many versions the sampling weights lag (x).

    parts: slices by lag, by what to call their line; measure: one of MEASURES.
    """
    label, unit = MEASURES[measure]
    figure = new_figure(dark=dark, height=230)
    for place, (name, slices) in enumerate(parts.items()):
        ordered = sorted(slices, key=lambda part: float(part.name))
        values = [float(getattr(part, measure)) for part in ordered]
        figure.add_scatter(
            x=[float(part.name) for part in ordered],
            y=values,
            mode="lines+markers",
            name=safe_name(name),
            line={"color": colour(_COLOURS[place % len(_COLOURS)], dark=dark), "width": 2.1},
            marker={"size": 7},
            text=[
                f"{safe_name(name)}, lag {part.name}<br>{label} <b>{number(value)}</b> {unit}<br>"
                f"{part.tokens:,} tokens"
                for part, value in zip(ordered, values, strict=True)
            ],
            hovertemplate="%{text}<extra></extra>",
        )
    known = np.array([getattr(part, measure) for one in parts.values() for part in one], np.float64)
    fit_tick_labels(figure, "y", known)
    figure.update_layout(hovermode="closest", dragmode="zoom")
    figure.update_xaxes(title_text="lag, versions", nticks=8)
    figure.update_yaxes(rangemode="tozero")
    if len(parts) > 1:
        show_legend_above(figure)
    set_notes(figure, ())
    return figure


def likelihoods(found: Sequence[StepValue], field: str, *, dark: bool) -> go.Figure:
    """Negative log-likelihood of tokens trained with cross-entropy, over the steps, by who speaks.

    field: of Likelihood, "mean" or "largest". The first 8 are drawn, and the notes say so.
    """
    names = [*dict.fromkeys(part.name for one in found for part in one.likelihood)]
    frame = pd.DataFrame({"step": np.array([one.step for one in found], np.int64)})
    for place, name in enumerate(names[: len(CATEGORIES)]):
        own = [next((p for p in one.likelihood if p.name == name), None) for one in found]
        frame[f"s{place}"] = [np.nan if p is None else float(getattr(p, field)) for p in own]
    series = [
        Series(f"s{place}", name, CATEGORIES[place], "nats")
        for place, name in enumerate(names[: len(CATEGORIES)])
    ]
    figure = curve(frame, series, CurveOptions(band="none"), dark=dark, height=230)
    if len(series) < len(names):
        set_notes(figure, [f"The first {len(series)} of {len(names):,} are drawn."])
    return figure


def _of(apart: Apart | None, field: str) -> float:
    return float("nan") if apart is None else float(getattr(apart, field))


_COLOURS: Final = ("mismatch", "ratio", "length", "groups")


def _drawn(frame: pd.DataFrame, fields: Mapping[str, str], unit: str, dark: bool) -> go.Figure:
    series = [
        Series(name, label, _COLOURS[place % len(_COLOURS)], unit)
        for place, (name, label) in enumerate(fields.items())
    ]
    return curve(frame, series, CurveOptions(band="none"), dark=dark, height=230)
