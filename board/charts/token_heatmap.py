"""All token metrics of one rollout at a glance: a row per metric, a column per token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from board.charts.layout import new_figure, set_notes
from board.charts.palette import colour, colour_key, ink
from board.charts.text import safe_name, safe_token, unit_suffix
from board.core.metrics import TOKEN_METRICS, token_metric

Floats = npt.NDArray[np.float64]

MAX_COLUMNS: Final = 4000
"""Above this many tokens several share a column, which shows the one of the largest magnitude."""

_ROW_HEIGHT: Final = 24
_CENTRE: Final = {"importance_ratio": 1.0, "mismatch_ratio": 1.0}
_LABEL_LENGTH: Final = 36


def token_heatmap(
    metrics: Mapping[str, npt.ArrayLike],
    tokens: Sequence[str],
    *,
    dark: bool,
    selected_token: int | None = None,
    height: int | None = None,
) -> go.Figure:
    """Token position on x, one row per metric, each on a scale of its own.

    metrics: arrays by name, entry i of token i; NaN and masked entries are gaps. tokens: as shown to
    a reader; where an array is longer than `tokens`, its last entries stand without a token.
    A row's colours span its 1st to 99th percentile; metrics that diverge are centred on 0, ratios
    on 1. Hover shows position, token and exact value.
    layout.meta: `notes`, `tokens`, `tokens_per_column`.
    """
    rows = {name: _as_floats(values) for name, values in metrics.items()}
    length = max((len(values) for values in rows.values()), default=len(tokens))
    per_column = -(-length // MAX_COLUMNS) or 1
    words = [safe_token(token) for token in tokens[:length]]
    words += ["(no token)"] * (length - len(words))
    figure = new_figure(dark=dark, height=height or 44 + _ROW_HEIGHT * max(1, len(rows)))
    for place, (name, values) in enumerate(rows.items()):
        figure.add_trace(_row(place, name, values, words, per_column, dark))
    _finish_axes(figure, list(rows), length)
    if selected_token is not None:
        line = {"color": ink(dark).text, "width": 1.2, "dash": "dot"}
        figure.add_vline(x=selected_token, line=line)
    _add_notes(figure, rows, length, per_column)
    return figure


def _as_floats(values: npt.ArrayLike) -> Floats:
    filled: Any = np.ma.filled(np.ma.asarray(values).astype(np.float64), np.nan)
    return np.where(np.isfinite(filled), filled, np.nan)


def _row(
    place: int, name: str, values: Floats, words: list[str], per_column: int, dark: bool
) -> go.Heatmap:
    metric = token_metric(name)
    at = largest_of_each(values, per_column)
    taken = values[at]
    low, high, scale = _scale(name, values, dark)
    return go.Heatmap(
        z=taken[None, :],
        x0=(per_column - 1) / 2,
        dx=per_column,
        y=[place],
        name=safe_name(metric.label),
        zmin=low,
        zmax=high,
        colorscale=scale,
        showscale=False,
        hoverongaps=False,
        ygap=3,
        # An array: plotly looks at every entry of a list, which takes longer than all the rest.
        text=np.array([[f"{i:,} &nbsp;{words[i]}" for i in at.tolist()]], dtype=object),
        hovertemplate="token %{text}<br>%{fullData.name}: <b>%{z:.6~g}</b>"
        + unit_suffix(metric.unit)
        + "<extra></extra>",
    )


def largest_of_each(values: Floats, per_column: int) -> npt.NDArray[np.int64]:
    """The place of the entry of largest magnitude in each stretch of `per_column` entries.

    values [n], NaN left out -> [ceil(n / per_column)]; the first place of a stretch without any.
    """
    padding = -len(values) % per_column
    size = np.where(np.isnan(values), -1.0, np.abs(values))
    grid = np.append(size, np.full(padding, -2.0)).reshape(-1, per_column)
    return grid.argmax(axis=1) + np.arange(len(grid)) * per_column


def _scale(name: str, values: Floats, dark: bool) -> tuple[float, float, list[list[Any]]]:
    """Smallest and largest value of a row's colours, and the colours."""
    metric, colours = token_metric(name), ink(dark)
    known = values[~np.isnan(values)]
    centre = _CENTRE.get(name, 0.0)
    both_signs = name not in TOKEN_METRICS and len(known) > 0 and known.min() < 0 < known.max()
    if metric.kind == "diverging" or name in _CENTRE or both_signs:
        reach = _reach(np.abs(known - centre))
        ends = [[0, colours.below], [0.5, colours.neutral], [1, colours.above]]
        return centre - reach, centre + reach, ends
    if metric.kind == "flag":
        return 0.0, 1.0, [[0, colours.neutral], [1, colours.muted]]
    ends = [[0, colours.neutral], [1, colour(colour_key(name), dark=dark)]]
    if name.endswith("logprobs"):  # The improbable token is the one to look at.
        ends = [[0, ends[1][1]], [1, colours.neutral]]
    return *_range(known), ends


def _reach(distances: Floats) -> float:
    """99th percentile of the distances to the centre; the largest where nearly all are at it."""
    if len(distances) == 0:
        return 1.0
    return float(np.percentile(distances, 99)) or float(distances.max()) or 1.0


def _range(known: Floats) -> tuple[float, float]:
    """1st to 99th percentile; all of it where that is a single value."""
    if len(known) == 0:
        return 0.0, 1.0
    low, high = (float(q) for q in np.percentile(known, (1, 99)))
    if low == high:
        low, high = float(known.min()), float(known.max())
    return (low, high) if low < high else (low, low + 1.0)


def _finish_axes(figure: go.Figure, names: list[str], length: int) -> None:
    labels = [safe_name(token_metric(name).label, _LABEL_LENGTH) for name in names]
    figure.update_layout(hovermode="closest", dragmode="zoom")
    figure.update_xaxes(range=[-0.5, max(length, 1) - 0.5], tickformat="d", nticks=12)
    figure.update_yaxes(
        tickmode="array",
        tickvals=list(range(len(names))),
        ticktext=labels,
        range=[max(len(names), 1) - 0.5, -0.5],
        showgrid=False,
        fixedrange=True,
    )


def _add_notes(figure: go.Figure, rows: Mapping[str, Floats], length: int, per_column: int) -> None:
    notes: list[str] = []
    if per_column > 1:
        notes.append(
            f"{length:,} tokens, {per_column} in a column: of each the entry of largest magnitude."
        )
    if len({len(values) for values in rows.values()}) > 1:
        notes.append("Arrays of unequal length: shorter rows end early.")
    set_notes(figure, notes, tokens=length, tokens_per_column=per_column)
