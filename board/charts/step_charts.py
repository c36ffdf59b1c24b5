"""Charts of one step: its rollouts, and what kinds of tokens a mean is made of.

The customdata of every point is its rollout's index. A browser takes about a millisecond for each mark
of its own, so what is drawn once per rollout is one path for all, where a click on it isn't needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from board.charts.curve_data import MAX_POINTS, column, keep_extremes
from board.charts.layout import (
    fit_tick_labels,
    new_figure,
    number,
    safe_name,
    set_notes,
    show_legend_above,
)
from board.charts.palette import colour, colour_key, faded, ink
from board.core.arrays import FloatArray, IntArray
from board.core.metrics.definitions import REWARD_PART, base_name, rollout_metric
from board.core.sampling import evenly_spaced

_WHO: Final = {"group_id": "group", "env": "env"}
_HEIGHT: Final = 260
_SMALL_HEIGHT: Final = 170
_MANY_ROLLOUTS: Final = 150
_FEW_ROLLOUTS: Final = 10
_MOST_VALUES: Final = 12
_MOST_BINS: Final = 40
_MOST_SHARES: Final = 7


def reward_by_rollout(
    rollouts: pd.DataFrame, *, dark: bool, selected_index: int | None = None
) -> go.Figure | None:
    """A point at each rollout's reward, joined to its reference reward where that is recorded.

    rollouts: rows of one step with `index` and `reward`; `ref_reward`, `group_id` and `env` are used
    where present. x = index within the step. None when no reward is recorded.
    """
    reward = _values(rollouts, "reward")
    if not np.isfinite(reward).any():
        return None
    reference, index = _values(rollouts, "ref_reward"), _index(rollouts)
    names = _with_mean("Reward", reward), _with_mean("Reference reward", reference)
    mean = float(_finite(reward).mean())
    selected: list[int] = np.flatnonzero(index == selected_index).tolist()
    rows = keep_extremes([reward, reference], [reward, reference], MAX_POINTS, selected)
    sampled, places = rollouts.iloc[rows], index[rows]
    reward, reference = reward[rows], reference[rows]
    figure = new_figure(dark=dark, height=_HEIGHT)
    if np.isfinite(reference).any():
        grey = colour("reference", dark=dark)
        both = np.isfinite(reward) & np.isfinite(reference)
        line = {"width": 1.4, "color": faded(grey, 0.5)}
        ends = [reference[both], reward[both]]
        figure.add_trace(_strokes([places[both]] * 2, ends, line=line, showlegend=False))
        # A short level line at each reference; its rollout's text is at the reward.
        ticks, line = [places - 0.35, places + 0.35], {"width": 2, "color": grey}
        figure.add_trace(_strokes(ticks, [reference, reference], name=names[1], line=line))
    size = 5 if len(sampled) > _MANY_ROLLOUTS else 8
    figure.add_scatter(
        x=places,
        y=reward,
        mode="markers",
        name=names[0],
        marker={"size": size, "color": colour("reward", dark=dark)},
        customdata=places,
        text=_rollout_texts(sampled, reward, reference),
        hovertemplate="%{text}<extra></extra>",
    )
    figure.add_hline(y=mean, line={"color": ink("zero", dark=dark), "dash": "dot", "width": 1.2})
    if selected_index is not None:
        figure.add_vline(x=selected_index, line={"color": ink("muted", dark=dark), "width": 1})
    _finish(figure, "rollout")
    figure.update_layout(legend={"traceorder": "reversed"})
    margin = max(0.7, np.ptp(index) * 0.015)
    low, high = float(index.min() - margin), float(index.max() + margin)
    figure.update_xaxes(range=[low, high], tickformat="d")
    if high - low < _FEW_ROLLOUTS:
        figure.update_xaxes(dtick=1)  # plotly would write a whole number at each fraction
    fit_tick_labels(figure, "y", np.concatenate([reward, reference]))
    _say_thinned(figure, len(rows), len(rollouts))
    return figure


def gap_to_reference(rollouts: pd.DataFrame, *, dark: bool) -> go.Figure | None:
    """Bars of reward - ref_reward, sorted from the largest loss to the largest win.

    rollouts: rows of one step with `index` and `reward_gap`. x = rank in that order. None when no
    gap is recorded.
    """
    gap = _values(rollouts, "reward_gap")
    order = np.argsort(gap, kind="stable")[: np.count_nonzero(~np.isnan(gap))]
    if len(order) == 0:
        return None
    ranks = evenly_spaced(len(order), MAX_POINTS)
    sampled = rollouts.iloc[order[ranks]]
    values = gap[order[ranks]]
    figure = new_figure(dark=dark, height=_HEIGHT)
    width = 0.85 if len(order) <= _MANY_ROLLOUTS else 1.0
    for own, key in ((values < 0, "below"), (values > 0, "above")):
        figure.add_trace(_bars(ranks[own], values[own], width, ink(key, dark=dark)))
    scores = _values(sampled, "reward"), _values(sampled, "ref_reward"), values
    figure.add_scatter(
        x=ranks,
        y=values,
        mode="lines",
        opacity=0,
        customdata=_index(sampled),
        text=_rollout_texts(sampled, *scores),
        hovertemplate="%{text}<extra></extra>",
        showlegend=False,
    )
    better, worse, equal = (int(n.sum()) for n in (gap > 0, gap < 0, gap == 0))
    _finish(figure, f"{better:,} above the reference, {worse:,} below, {equal:,} equal")
    figure.update_layout(hovermode="x")
    figure.update_xaxes(showticklabels=False)
    figure.update_yaxes(zeroline=True)
    _say_thinned(figure, len(ranks), len(order))
    return figure


def reward_distribution(rollouts: pd.DataFrame, *, dark: bool) -> go.Figure | None:
    """Histogram of reward, and of ref_reward as an outline over the same bins."""
    return distribution(rollouts, "reward", dark=dark)


def distribution(
    rollouts: pd.DataFrame, name: str, *, dark: bool, is_small: bool = False
) -> go.Figure | None:
    """Histogram of a metric of rollouts, and of a reward's reference as an outline over the same bins.

    is_small: low, and without a legend for a single histogram, whose name is said elsewhere.

    A few distinct, well separated values get a bar each, at the value. None when no value is recorded;
    entries that are not recorded are in no bar.
    """
    values = _finite(_values(rollouts, name))
    reference = _finite(_values(rollouts, "ref_reward" if name == "reward" else ""))
    if len(values) == 0:
        return None
    both = np.concatenate([values, reference])
    edges = _bin_edges(both)
    figure = new_figure(dark=dark, height=_SMALL_HEIGHT if is_small else _HEIGHT)
    label = "Reward" if name == "reward" else safe_name(rollout_metric(name).label, 40)
    figure.add_trace(_histogram(values, edges, colour_key(base_name(name)), label, dark))
    if len(reference):
        figure.add_trace(_histogram(reference, edges, "reference", "Reference reward", dark))
    if not is_small or len(reference):
        _finish(figure, "" if is_small else safe_name(name.removeprefix(REWARD_PART), 40))
    figure.update_layout(barmode="overlay", hovermode="x")
    figure.update_yaxes(title_text="rollouts", rangemode="tozero", tickformat="d")
    margin = (edges[-1] - edges[0]) * (0.03 if len(edges) > 2 else 2)
    figure.update_xaxes(range=[edges[0] - margin, edges[-1] + margin], nticks=7)
    fit_tick_labels(figure, "x", both)
    return figure


def _values(rollouts: pd.DataFrame, name: str) -> FloatArray:
    """A column [n], NaN where it holds no finite number."""
    values = column(rollouts, name)
    return np.where(np.isfinite(values), values, np.nan)


def _finite(values: FloatArray) -> FloatArray:
    return values[np.isfinite(values)]


def _index(rollouts: pd.DataFrame) -> IntArray:
    return rollouts["index"].to_numpy(np.int64)


def _rollout_texts(
    rollouts: pd.DataFrame, reward: FloatArray, reference: FloatArray, gap: FloatArray | None = None
) -> list[str]:
    """Hover text of each rollout: who it is, then its recorded scores."""
    scores = [("reward", reward), ("reference", reference)]
    scores += [("gap", gap)] if gap is not None else []
    known = [(name, values) for name, values in scores if np.isfinite(values).any()]
    named = [(word, rollouts[c].tolist()) for c, word in _WHO.items() if c in rollouts]
    texts: list[str] = []
    for i, index in enumerate(_index(rollouts)):
        lines = [f"rollout {index}"]
        lines += [f"{word} {safe_name(str(v[i]), 40)}" for word, v in named if not pd.isna(v[i])]
        lines += [f"{name} <b>{number(values[i])}</b>" for name, values in known]
        texts.append("<br>".join(lines))
    return texts


def _with_mean(name: str, values: FloatArray) -> str:
    known = _finite(values)
    return f"{name}, mean {number(float(known.mean()))}" if len(known) else name


def _bars(ranks: IntArray, values: FloatArray, width: float, ink: str) -> go.Scatter:
    """Bars from zero to the values, as one filled path."""
    left, right, zero = ranks - width / 2, ranks + width / 2, np.zeros(len(ranks))
    corners = [left, left, right, right], [zero, values, values, zero]
    return _strokes(*corners, line={"width": 0}, fill="toself", fillcolor=ink, showlegend=False)


def _strokes(x: Sequence[Any], y: Sequence[FloatArray], **look: Any) -> go.Scatter:
    """A line for each rollout, all of them one path. x, y: [points of a line] of [rollouts]."""
    gap = np.full(len(y[0]), np.nan)
    return go.Scatter(
        x=np.column_stack([*x, x[-1]]).ravel(),
        y=np.column_stack([*y, gap]).ravel(),
        mode="lines",
        hoverinfo="skip",
        **look,
    )


def _bin_edges(values: FloatArray) -> FloatArray:
    """Edges of the bins: around each value where there are few, of equal width otherwise.

    Falls back to one bin where the values are too close for floating point to cut between them.
    """
    distinct = np.unique(values)
    value_range = distinct[-1] - distinct[0]
    if value_range <= np.abs(distinct).max() * 1e-12:
        half = abs(distinct[0]) * 0.05 or 0.05
        return np.array([distinct[0] - half, distinct[-1] + half])
    nearest = np.diff(distinct).min()
    if len(distinct) <= _MOST_VALUES and nearest >= value_range / _MOST_BINS:
        half = min(nearest * 0.45, value_range * 0.07)
        return np.sort(np.concatenate([distinct - half, distinct + half]))
    bins = int(np.clip(2 * np.sqrt(len(values)), 10, _MOST_BINS))
    edges = np.linspace(distinct[0], distinct[-1], bins + 1)
    return edges if (np.diff(edges) > 0).all() else edges[[0, -1]]


def _histogram(values: FloatArray, edges: FloatArray, key: str, name: str, dark: bool) -> go.Bar:
    counts, _ = np.histogram(values, edges)
    used = counts > 0
    low, high = edges[:-1][used], edges[1:][used]
    shade = colour(key, dark=dark)
    plain = key == "reference"
    texts = [
        f"{name} {number(a)} to {number(b)}<br><b>{n:,}</b> of {len(values):,} rollouts"
        for a, b, n in zip(low, high, counts[used], strict=True)
    ]
    return go.Bar(
        x=(low + high) / 2,
        y=counts[used],
        width=(high - low) * 0.92,
        name=_with_mean(name, values),
        marker={
            "color": "rgba(0,0,0,0)" if plain else faded(shade, 0.75),
            "line": {"width": 1.8 if plain else 0, "color": shade},
        },
        text=texts,
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
    )


def _finish(figure: go.Figure, x_title: str) -> None:
    figure.update_xaxes(title_text=x_title)
    if any(trace.name for trace in figure.data):
        show_legend_above(figure)


def _say_thinned(figure: go.Figure, drawn: int, recorded: int) -> None:
    if drawn < recorded:
        set_notes(figure, [f"{recorded:,} rollouts drawn with {drawn:,} marks."])


@dataclass(frozen=True, slots=True)
class Share:
    """A type of token: its share of the metric, and of the tokens; both of 1."""

    name: str
    of_metric: float
    of_tokens: float


def shares_chart(
    shares: Sequence[Share], metric: str, colour_key: str, *, dark: bool
) -> dict[str, Any]:
    """A bar for each type's share of a metric, with a tick at its share of the tokens.

    shares: the largest first. Beyond seven, the others are drawn as one. metric: its label. Returns what
    `components.small_charts` draws: `rows` from top to bottom; `of_bars` and `of_ticks`, what they are in
    words; `low` and `high`, the ends of the axis (below 0 where signs differ); `ink` of the bars.
    """
    rows = [*shares]
    if len(shares) > _MOST_SHARES:
        others = rows[_MOST_SHARES - 1 :]
        of_metric, of_tokens = sum(s.of_metric for s in others), sum(s.of_tokens for s in others)
        rows[_MOST_SHARES - 1 :] = [Share(f"{len(others)} others", of_metric, of_tokens)]
    values = [value for row in rows for value in (row.of_metric, row.of_tokens)]
    return {
        "rows": [asdict(row) for row in rows],
        "of_bars": f"of {metric}",
        "of_ticks": "of the tokens",
        "low": min(0.0, *values),
        "high": max(0.01, *values),
        "ink": colour(colour_key, dark=dark),
    }
