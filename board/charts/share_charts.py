"""What kinds of tokens a step's mean is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

from board.charts.layout import new_figure, show_legend_above
from board.charts.palette import colour, faded, ink
from board.charts.text import safe_name

_MOST_BARS: Final = 7
_BAR_HEIGHT: Final = 27
_HEADROOM: Final = 1.22


@dataclass(frozen=True, slots=True)
class Share:
    """A type of token: its share of the metric, and of the tokens; both of 1."""

    name: str
    of_metric: float
    of_tokens: float


def shares_chart(shares: Sequence[Share], metric: str, colour_key: str, *, dark: bool) -> go.Figure:
    """A bar for each type's share of a metric, with a tick at its share of the tokens.

    shares: the largest first. Beyond seven, the rest is drawn as one. metric: its label.
    """
    rows = _folded(shares)
    names = [safe_name(row.name, 24) for row in rows]
    figure = new_figure(dark=dark, height=_BAR_HEIGHT * len(rows) + 62)
    ink_of = colour(colour_key, dark=dark)
    of_metric = [row.of_metric * 100 for row in rows]
    of_tokens = [row.of_tokens * 100 for row in rows]
    hover = [
        f"{name}<br><b>{m:.1f} %</b> of {safe_name(metric)}<br>{t:.1f} % of the tokens"
        for name, m, t in zip(names, of_metric, of_tokens, strict=True)
    ]
    figure.add_bar(
        x=of_metric,
        y=names,
        orientation="h",
        name=f"share of {safe_name(metric)}",
        width=0.62,
        marker={"color": [ink_of] + [faded(ink_of, 0.55)] * (len(rows) - 1), "line": {"width": 0}},
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
    )
    figure.add_scatter(
        x=of_tokens,
        y=names,
        mode="markers",
        name="share of the tokens",
        marker={"symbol": "line-ns", "size": 15, "line": {"width": 2.5, "color": ink(dark).text}},
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
    )
    _add_numbers(figure, names, of_metric, of_tokens, dark=dark)
    _finish(figure, [*of_metric, *of_tokens])
    return figure


def _add_numbers(
    figure: go.Figure,
    names: Sequence[str],
    of_metric: Sequence[float],
    of_tokens: Sequence[float],
    *,
    dark: bool,
) -> None:
    """The share in figures, right of bar and tick, so that neither is written over."""
    figure.add_scatter(
        x=[max(a, b, 0.0) for a, b in zip(of_metric, of_tokens, strict=True)],
        y=names,
        mode="text",
        text=[f"  {v:.0f} %" if abs(v) >= 1 or v == 0 else f"  {v:.1f} %" for v in of_metric],
        textposition="middle right",
        textfont={"color": ink(dark).text, "size": 12.5},
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
    )


def _folded(shares: Sequence[Share]) -> list[Share]:
    if len(shares) <= _MOST_BARS:
        return [*shares]
    rest = shares[_MOST_BARS - 1 :]
    others = Share(
        f"{len(rest)} others", sum(s.of_metric for s in rest), sum(s.of_tokens for s in rest)
    )
    return [*shares[: _MOST_BARS - 1], others]


def _finish(figure: go.Figure, values: Sequence[float]) -> None:
    low, high = min(0.0, *values), max(0.0, *values)
    axis: dict[str, Any] = {"range": [low * _HEADROOM, max(high * _HEADROOM, 1.0)]}
    figure.update_xaxes(
        **axis, ticksuffix=" %", showgrid=True, zeroline=low < 0, nticks=6, fixedrange=True
    )
    figure.update_yaxes(
        autorange="reversed", showgrid=False, nticks=0, tickfont={"size": 13}, fixedrange=True
    )
    figure.update_layout(dragmode=False, hovermode="closest")
    show_legend_above(figure)
