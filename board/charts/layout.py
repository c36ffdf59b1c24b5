"""What all figures of plotly have in common: fonts, grid, axis of steps, notes, and texts made safe.

Plotly and the light charts read HTML in every text, and %{...} in hover templates. Names from logs and
models pass through `safe_name` and go into `text` or `name`, never into a template.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from itertools import count
from typing import Any, Final, Literal

import numpy as np
import plotly.graph_objects as go

from board.charts.palette import faded, ink
from board.core.arrays import FloatArray
from board.core.metrics import shares

_FONT: Final = '"Source Sans", "Source Sans Pro", sans-serif'
_SMALL: Final = 0.005
_LARGE: Final = 1e4
_MOST_STEP_INTERVALS: Final = 5
_CROWDED: Final = 0.4
_STEP_MARGIN: Final = 0.015
_FEW_STEPS: Final = 8
_SIGNS: Final = {"\n": "⏎", "\r": "␍", "\t": "⇥"}
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})

PLOTLY_CONFIG: Final[Mapping[str, Any]] = {
    "displaylogo": False,
    "scrollZoom": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "pan2d"],
}
"""For st.plotly_chart(config=...)."""


def new_figure(*, dark: bool, height: int) -> go.Figure:
    """An empty figure, transparent, in the fonts and colours of the page; height in pixels."""
    text, muted, grid, zero = (ink(name, dark=dark) for name in ("text", "muted", "grid", "zero"))
    axis = {
        "tickfont": {"size": 11.5, "color": muted},
        "title": {"font": {"size": 12, "color": muted}, "standoff": 6},
        "gridcolor": grid,
        "zerolinecolor": zero,
        "linecolor": grid,
        "showline": False,
        "ticks": "",
        "automargin": True,
    }
    layout = dict[str, Any](
        template="none",
        height=height,
        margin={"l": 8, "r": 10, "t": 10, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": _FONT, "size": 12.5, "color": text},
        hoverlabel={
            "bgcolor": ink("surface", dark=dark),
            "bordercolor": zero,
            "font": {"family": _FONT, "size": 12.5, "color": text},
            "align": "left",
        },
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": faded(muted, 0.6), "activecolor": text},
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "font": {"size": 12, "color": muted},
            "bgcolor": "rgba(0,0,0,0)",
        },
        showlegend=False,
        hovermode="closest",
        dragmode="zoom",
        xaxis={**axis, "showgrid": False, "zeroline": False},
        yaxis={**axis, "showgrid": True, "zeroline": False, "nticks": 5, "ticklabelstandoff": 5},
    )
    # One mapping for all: plotly takes ten times as long to update a figure.
    return go.Figure(layout=layout)


def fit_tick_labels(figure: go.Figure, axis: Literal["x", "y"], values: FloatArray) -> None:
    """Tick labels that distinguish `values` (any length, NaN left out).

    Small numbers as 5e-5, where plotly writes 50μ; large ones close together in full, where it
    writes 100.001k.
    """
    known = values[np.isfinite(values)]
    if len(known) == 0:
        figure.update_layout({f"{axis}axis": {"showticklabels": False}})
        return
    size = np.abs(known).max()
    if 0 < size < _SMALL:  # around zeroes alone the axis goes to 0.5
        figure.update_layout({f"{axis}axis": {"exponentformat": "e"}})
    elif size >= _LARGE and np.ptp(known) < size * 0.02:
        figure.update_layout({f"{axis}axis": {"exponentformat": "none", "separatethousands": True}})


def set_notes(figure: go.Figure, notes: Sequence[str]) -> None:
    """Puts notes for the reader into layout.meta."""
    figure.update_layout(meta={"notes": list(notes)})


def notes_of(figure: go.Figure) -> tuple[str, ...]:
    """What the page has to say below a figure: sentences of the board's own, no text from a log."""
    layout: Any = figure.layout
    meta: Any = layout.meta
    return tuple(meta["notes"]) if isinstance(meta, Mapping) else ()


def show_legend_above(figure: go.Figure) -> None:
    """Turns the legend on and makes room for it."""
    figure.update_layout(showlegend=True, margin={"t": 34})


def step_ticks(first: int, last: int) -> list[int]:
    """The named steps: the first one and the multiples of 1, 2 or 5 times a power of ten after it.

    `stepTicks` and `stepEnds` of components/curve_grid/js/axis.js are the same rules for light charts.

    At most five such intervals lie between `first` and `last`. A multiple so close behind the first
    step that their labels would touch replaces it.
    """
    if last <= first:
        return [first]
    intervals = (factor * 10**power for power in count() for factor in (1, 2, 5))
    interval = next(n for n in intervals if n >= (last - first) / _MOST_STEP_INTERVALS)
    ticks = list(range(math.ceil(first / interval) * interval, last + 1, interval))
    if ticks[0] - first >= _CROWDED * interval:
        ticks.insert(0, first)
    return ticks


def step_ends(first: int, last: int) -> tuple[float, float]:
    """Both ends of the axis: a little beyond the first and the last step."""
    margin = max((last - first) * _STEP_MARGIN, 0.5 if last - first < _FEW_STEPS else 0.0)
    return first - margin, last + margin


def fit_step_axis(figure: go.Figure, first: int, last: int) -> None:
    """The axis below a figure of plotly as the steps from `first` to `last`."""
    figure.update_xaxes(
        range=[*step_ends(first, last)],
        tickmode="array",
        tickvals=step_ticks(first, last),
        tickformat="d",
        hoverformat="d",
    )


def safe_name(text: str, limit: int = 60) -> str:
    """A name for legends, axis and hover labels: at most `limit` characters, nothing interpreted."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return escape(visible_text(cut), quote=False)


def safe_token(text: str, limit: int = 40) -> str:
    """A token for hover labels: as `safe_name`, with its spaces visible."""
    return safe_name(text, limit).replace(" ", "␣")


def visible_text(text: str) -> str:
    """The text with signs and code points in place of what steers a line or is not seen."""
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char in _SIGNS:
        return _SIGNS[char]
    return f"⟨U+{ord(char):04X}⟩" if unicodedata.category(char) in _UNSEEN else char


def number(value: float) -> str:
    """A number to read: 4 significant digits, all digits left of the point, "-" if not recorded."""
    return "-" if math.isnan(value) else shares.number(value)
