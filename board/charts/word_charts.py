"""How often words are said, over the steps of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from board.charts.curves import CurveOptions, Series, curve
from board.charts.palette import category


class Said(Protocol):
    """What of a step the chart needs."""

    @property
    def step(self) -> int:
        """The step."""
        ...

    @property
    def rollouts(self) -> int:
        """How many were read."""
        ...

    @property
    def hits(self) -> int:
        """In how many of them it is said."""
        ...


def shares_said(
    found: Mapping[str, Sequence[Said]], *, dark: bool, smoothing: float = 0.0
) -> go.Figure:
    """A curve for each name: of the rollouts of a step, the share in which it is said.

    found: by name (a pattern, an environment) one entry or several per step, which are added up.
    """
    joined = pd.DataFrame({"step": pd.Series([], dtype="int64")})
    series: list[Series] = []
    for place, (name, entries) in enumerate(found.items()):
        if not entries:
            continue
        part = pd.DataFrame(
            [(one.step, one.rollouts, one.hits) for one in entries],
            columns=pd.Index(["step", "rollouts", "hits"]),
        )
        part = part.groupby("step", as_index=False).sum()
        read = part["rollouts"].to_numpy(np.float64)
        shares = np.divide(
            part["hits"].to_numpy(np.float64), read, out=np.full(len(read), np.nan), where=read > 0
        )
        own = pd.DataFrame({"step": part["step"], f"w{place}": shares, f"w{place}_n": read})
        joined = joined.merge(own, on="step", how="outer")
        key, dash = category(place)
        series.append(Series(f"w{place}", name, key, "share", dash=dash))
    joined = joined.sort_values("step").reset_index(drop=True)
    options = CurveOptions(band="none", smoothing=smoothing)
    figure = curve(joined, series, options, dark=dark, height=270)
    figure.update_yaxes(tickformat=".0%")
    return figure
