"""What kinds of tokens a step's mean is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from board.charts.palette import colour

_MOST_BARS: Final = 7


@dataclass(frozen=True, slots=True)
class Share:
    """A type of token: its share of the metric, and of the tokens; both of 1."""

    name: str
    of_metric: float
    of_tokens: float


@dataclass(frozen=True, slots=True)
class ShareBars:
    """Bars of shares of a metric, each with a tick at its share of the tokens.

    rows: from top to bottom. of_bars, of_ticks: what they are, in words. low, high: the ends of the
    axis; shares are of 1, and below 0 where signs differ. ink: the colour of the bars.
    """

    rows: list[Share]
    of_bars: str
    of_ticks: str
    low: float
    high: float
    ink: str


def shares_chart(shares: Sequence[Share], metric: str, colour_key: str, *, dark: bool) -> ShareBars:
    """A bar for each type's share of a metric, with a tick at its share of the tokens.

    shares: the largest first. Beyond seven, the rest is drawn as one. metric: its label.
    """
    rows = _folded(shares)
    values = [value for row in rows for value in (row.of_metric, row.of_tokens)]
    return ShareBars(
        rows,
        of_bars=f"of {metric}",
        of_ticks="of the tokens",
        low=min(0.0, *values),
        high=max(0.01, *values),
        ink=colour(colour_key, dark=dark),
    )


def _folded(shares: Sequence[Share]) -> list[Share]:
    if len(shares) <= _MOST_BARS:
        return [*shares]
    rest = shares[_MOST_BARS - 1 :]
    others = Share(
        f"{len(rest)} others", sum(s.of_metric for s in rest), sum(s.of_tokens for s in rest)
    )
    return [*shares[: _MOST_BARS - 1], others]
