"""Shares of labels, each with its interval: of a sample, and over the steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import plotly.graph_objects as go

from board.charts.layout import new_figure, safe_name, show_legend_above
from board.charts.palette import colour
from board.core.labels.shares import LabelShare
from board.core.metrics.shares import interval, percent

_ROW: Final = 34
_HEIGHT: Final = 280
_TICKS: Final = (0, 25, 50, 75, 100)
_TICK_TEXTS: Final = tuple(f"{tick} %" for tick in _TICKS)
_DODGE: Final = 0.012
"""Of the width, between the points of two labels: their intervals would cover each other."""
_COLOURS: Final = ("kl", "reward", "entropy", "mismatch", "length", "groups", "ratio", "validation")


def shares_of_labels(shares: Sequence[LabelShare], *, dark: bool) -> go.Figure:
    """A row for each label: its share of the population with the 95 % interval, in percent."""
    figure = new_figure(dark=dark, height=70 + _ROW * len(shares))
    rows = [*range(len(shares))][::-1]
    values = [100 * one.share for one in shares]
    figure.add_scatter(
        x=values,
        y=rows,
        mode="markers",
        marker={"size": 9, "color": colour("kl", dark=dark)},
        error_x=_errors(shares, colour("kl", dark=dark)),
        hovertext=[_words(one) for one in shares],
        hoverinfo="text",
        showlegend=False,
    )
    names = [safe_name(one.label, 24) for one in shares]
    figure.update_yaxes(tickvals=rows, ticktext=names, range=[-0.6, len(shares) - 0.4])
    figure.update_xaxes(range=[0, 104], tickvals=_TICKS, ticktext=_TICK_TEXTS)
    return figure


def _errors(shares: Sequence[LabelShare], ink: str) -> dict[str, Any]:
    """The 95 % intervals in percent, as error bars."""
    above = [100 * (one.high - one.share) for one in shares]
    below = [100 * (one.share - one.low) for one in shares]
    return {"array": above, "arrayminus": below, "color": ink}


def _words(one: LabelShare) -> str:
    name = safe_name(one.label, 24)
    return (
        f"{name} <b>{percent(one.share)}</b><br>95 %: {interval(one.low, one.high)}<br>"
        f"{one.count} of {one.n} labelled"
    )


def shares_by_steps(
    ranges: Sequence[tuple[int, int, Sequence[LabelShare]]], labels: Sequence[str], *, dark: bool
) -> go.Figure:
    """A line for each label over the middles of ranges of steps, with 95 % intervals, in percent.

    ranges: first and last step, and the shares of all labels there.
    """
    figure = new_figure(dark=dark, height=_HEIGHT)
    for place, label in enumerate(labels):
        aside = (place - (len(labels) - 1) / 2) * _DODGE * (ranges[-1][1] - ranges[0][0])
        middles = [(first + last) / 2 + aside for first, last, _ in ranges]
        own = [next(one for one in shares if one.label == label) for *_, shares in ranges]
        shade = colour(_COLOURS[place % len(_COLOURS)], dark=dark)
        texts = [
            f"steps {first} to {last}<br>{_words(one)}"
            for (first, last, _), one in zip(ranges, own, strict=True)
        ]
        figure.add_scatter(
            x=middles,
            y=[100 * one.share for one in own],
            mode="lines+markers",
            name=safe_name(label, 24),
            line={"color": shade, "width": 1.5},
            error_y={
                **_errors(own, shade),
                "thickness": 1,
            },
            hovertext=texts,
            hoverinfo="text",
        )
    figure.update_yaxes(range=[0, 104], tickvals=_TICKS, ticktext=_TICK_TEXTS)
    # The steps that the ranges cover: of one range the middles are a single place, and no axis.
    first, last = ranges[0][0], ranges[-1][1]
    margin = max(1, (last - first) / 50)
    figure.update_xaxes(title_text="step", range=[first - margin, last + margin], tickformat="d")
    show_legend_above(figure)
    return figure
