"""What all figures have in common: fonts, grid, margins, and the notes for their reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from board.charts.palette import faded, ink
from board.charts.sketch import Drawing, Sketch

Floats = npt.NDArray[np.float64]

_SMALL: Final = 0.005
_LARGE: Final = 1e4

FONT: Final = '"Source Sans", "Source Sans Pro", sans-serif'

PLOTLY_CONFIG: Final[Mapping[str, Any]] = {
    "displaylogo": False,
    "scrollZoom": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "pan2d"],
}
"""For st.plotly_chart(config=...)."""


def new_figure(*, dark: bool, height: int) -> go.Figure:
    """An empty figure, transparent, in the fonts and colours of the page; height in pixels."""
    # One mapping for all: plotly takes ten times as long to update a figure.
    return go.Figure(layout=_layout(dark=dark, height=height))


def new_sketch(*, dark: bool, height: int) -> Sketch:
    """The same without plotly."""
    return Sketch(_layout(dark=dark, height=height))


def _layout(*, dark: bool, height: int) -> dict[str, Any]:
    colours = ink(dark)
    axis = {
        "tickfont": {"size": 11.5, "color": colours.muted},
        "title": {"font": {"size": 12, "color": colours.muted}, "standoff": 6},
        "gridcolor": colours.grid,
        "zerolinecolor": colours.zero,
        "linecolor": colours.grid,
        "showline": False,
        "ticks": "",
        "automargin": True,
    }
    return dict[str, Any](
        template="none",
        height=height,
        margin={"l": 8, "r": 10, "t": 10, "b": 8},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 12.5, "color": colours.text},
        hoverlabel={
            "bgcolor": colours.surface,
            "bordercolor": colours.zero,
            "font": {"family": FONT, "size": 12.5, "color": colours.text},
            "align": "left",
        },
        modebar={
            "bgcolor": "rgba(0,0,0,0)",
            "color": faded(colours.muted, 0.6),
            "activecolor": colours.text,
        },
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "font": {"size": 12, "color": colours.muted},
            "bgcolor": "rgba(0,0,0,0)",
        },
        showlegend=False,
        xaxis={**axis, "showgrid": False, "zeroline": False},
        yaxis={
            **axis,
            "showgrid": True,
            "zeroline": False,
            "nticks": 5,
            "ticklabelstandoff": 5,
        },
    )


def fit_tick_labels(figure: Drawing, axis: Literal["x", "y"], values: Floats) -> None:
    """Tick labels to tell `values` (any length, NaN left out) apart.

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


def set_notes(figure: Drawing, notes: Sequence[str], **facts: Any) -> None:
    """Puts notes for the reader, and the counts behind them, into layout.meta."""
    figure.update_layout(meta={"notes": list(notes), **facts})


def notes_of(figure: Drawing) -> tuple[str, ...]:
    """What the page has to say below a figure: sentences of the board's own, no text from a log."""
    layout: Any = figure.layout
    meta: Any = layout.meta
    return tuple(meta["notes"]) if isinstance(meta, Mapping) else ()


def show_legend_above(figure: Drawing) -> None:
    """Turns the legend on and makes room for it."""
    figure.update_layout(showlegend=True, margin={"t": 34})
