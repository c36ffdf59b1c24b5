"""Statistics that one odd step does not sway: medians, MADs and means of the steps before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.kl import FloatArray

MAD_TO_STD: Final = 1.4826
"""Scales the median absolute deviation to the standard deviation of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Of the steps before: their median, their scaled MAD, and the largest of them."""

    median: float
    spread: float
    largest: float


def baselines(
    values: FloatArray, steps: int, least: int, odd: float = np.inf
) -> list[Baseline | None]:
    """For each place the baseline of up to `steps` values before it; None with fewer than `least`.

    A value of more than `odd` times the largest before it does not enter later baselines: what is
    compared with is the calm before, however long the storm. NaN is left out.
    """
    calm: list[float] = []
    found: list[Baseline | None] = []
    for value in values.tolist():
        window = np.array(calm[-steps:])
        base = _baseline(window) if len(window) >= least else None
        found.append(base)
        if value == value and (base is None or value <= odd * base.largest):
            calm.append(value)
    return found


def _baseline(window: FloatArray) -> Baseline:
    middle = float(np.median(window))
    return Baseline(
        middle, MAD_TO_STD * float(np.median(np.abs(window - middle))), float(window.max())
    )


def trailing_mean(values: FloatArray, steps: int) -> FloatArray:
    """[n] mean of each value and the steps - 1 before it; NaN until there are so many.

    NaN among them is left out; NaN where fewer than half of them are recorded.
    """
    known = np.isfinite(values)
    total = np.cumsum(np.append(0.0, np.where(known, values, 0.0)))
    count = np.cumsum(np.append(0, known))
    found = np.full(len(values), np.nan)
    if len(values) >= steps:
        sums, counts = total[steps:] - total[:-steps], count[steps:] - count[:-steps]
        enough = counts * 2 >= steps
        found[steps - 1 :] = np.where(enough, sums / np.maximum(counts, 1), np.nan)
    return found


@dataclass(frozen=True, slots=True)
class Window:
    """Mean of some values, its standard error, and how many they are."""

    mean: float
    error: float
    count: int


def window(values: FloatArray) -> Window:
    """Of the finite values; NaN without any."""
    known = values[np.isfinite(values)]
    if not len(known):
        return Window(float("nan"), float("nan"), 0)
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("nan")
    return Window(float(known.mean()), error, len(known))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Places first..last that fire, with at most `calm` in a row between that do not; count: fire."""

    first: int
    last: int
    worst: int
    count: int


def stretches(fires: np.ndarray, badness: FloatArray, calm: int = 1) -> Iterator[Stretch]:
    """Stretches of firing places; worst: the place of the largest badness. fires, badness: [n]."""
    places = np.flatnonzero(fires)
    if not len(places):
        return
    for part in np.split(places, np.flatnonzero(np.diff(places) > calm + 1) + 1):
        worst = part[np.argmax(badness[part])]
        yield Stretch(int(part[0]), int(part[-1]), int(worst), len(part))


def onset(beyond: np.ndarray, place: int, steps: int) -> int:
    """The first place of the last `steps` up to `place` that is beyond a bound by itself: a trailing
    mean rises after what it is a mean of. `place` where none is. beyond: bool [n].
    """
    first = max(place - steps + 1, 0)
    hits = np.flatnonzero(beyond[first : place + 1])
    return first + int(hits[0]) if len(hits) else place
