"""Means over the last steps, and periods of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray

_MOST_NAMED: Final = 32
"""Periods of a rule of which rollouts are named: each is a step whose rows are read."""
_AFTER: Final = 3
"""Places that tell the level after a change."""


def trailing_mean(values: FloatArray, steps: int) -> FloatArray:
    """[n] mean of each value and the steps - 1 before it; NaN until there are so many.

    NaN among them is left out; NaN where fewer than half of them are recorded.
    """
    known = np.isfinite(values)
    total = np.cumsum(np.append(0.0, np.where(known, values, 0.0)))
    count = np.cumsum(np.append(0, known))
    result = np.full(len(values), np.nan)
    if len(values) >= steps:
        sums, counts = total[steps:] - total[:-steps], count[steps:] - count[:-steps]
        enough = counts * 2 >= steps
        result[steps - 1 :] = np.where(enough, sums / np.maximum(counts, 1), np.nan)
    return result


def trailing_error(values: FloatArray, steps: int) -> FloatArray:
    """[n] standard error of `trailing_mean`, by the spread of the values; NaN where that is."""
    means = trailing_mean(values, steps)
    middle = values[np.isfinite(values)].mean() if np.isfinite(values).any() else 0.0
    squares = trailing_mean((values - middle) ** 2, steps) - (means - middle) ** 2
    counts = trailing_mean(np.isfinite(values).astype(np.float64), steps) * steps
    return np.sqrt(np.maximum(squares, 0.0) / np.maximum(counts - 1, 1))


@dataclass(frozen=True, slots=True)
class Period:
    """Steps at places first..last of which `count` fire. worst: the place of the largest badness.

    steps: the worst, the first and the last one, as a Finding has them. most: the step to look at: the
    worst, or, of a mean over several steps, the one of the largest value. is_named: whether its rollouts
    are to be named, which is so of the strongest of many periods.
    """

    first: int
    last: int
    worst: int
    count: int
    steps: tuple[int, int, int]
    most: int
    is_named: bool = True

    @property
    def step(self) -> int:
        """The worst one."""
        return self.steps[0]

    @property
    def from_first(self) -> tuple[int, int, int]:
        """`steps` of what is looked at where it begins: the first, the first and the last one."""
        return self.steps[1], *self.steps[1:]


def periods(
    steps: IntArray, fires: np.ndarray, badness: FloatArray, calm: int = 1
) -> Iterator[Period]:
    """Periods of steps that fire, with at most `calm` in a row between that do not. All [n]."""
    places = np.flatnonzero(fires)
    if not len(places):
        return
    parts = np.split(places, np.flatnonzero(np.diff(places) > calm + 1) + 1)
    worst_places = [int(part[np.argmax(badness[part])]) for part in parts]
    strength = badness[worst_places] * np.sqrt([len(part) for part in parts])
    named = {*np.argsort(-strength, kind="stable")[:_MOST_NAMED].tolist()}
    for number, (part, worst) in enumerate(zip(parts, worst_places, strict=True)):
        first, last = int(part[0]), int(part[-1])
        own = (int(steps[worst]), int(steps[first]), int(steps[last]))
        yield Period(first, last, worst, len(part), own, own[0], number in named)


def window_periods(
    steps: IntArray,
    fires: np.ndarray,
    badness: FloatArray,
    values: FloatArray,
    bound: float,
    window: int,
    *,
    calm: int | None = None,
) -> Iterator[Period]:
    """Periods of what means over the last `window` steps show: they begin at the onset in `values`, and
    `most` is the step of the largest value. values: [n], what the means are of, larger is worse; bound:
    what a single one may reach. calm: as of periods, `window` where not given.
    """
    for period in periods(steps, fires, badness, calm=window if calm is None else calm):
        step, _, last = period.steps
        first = int(steps[onset(values, bound, period.first, window)])
        most = int(steps[worst_of(values, period.worst, window)])
        yield replace(period, steps=(step, first, last), most=most)


def onset(values: FloatArray, bound: float, place: int, steps: int) -> int:
    """Where what a mean over `steps` places shows at `place` began: it rises after what it is a mean of.

    values: [n], larger is worse; bound: what a single place may reach. Of the last `steps` places up to
    `place`, the one from which on the values exceed the reference most in sum: the estimate of a change
    point by cumulative sums (Page 1954, Continuous inspection schemes, Biometrika 41). The reference is
    half way between the level before and the level after; not below the bound, so that what grows
    slowly begins where it passes the bound. NaN counts as the reference; `place` where none exceeds it.
    """
    first = max(place - steps + 1, 0)
    before, after = (part[np.isfinite(part)] for part in (values[:first], values[place:][:_AFTER]))
    if not len(after):
        return place
    calm = float(np.median(before)) if len(before) else bound
    reference = max(bound, (calm + float(np.median(after))) / 2)
    excess = np.nan_to_num(values[first : place + 1] - reference)
    sums = np.cumsum(excess[::-1])[::-1]
    best = int(np.argmax(sums))
    return first + best if sums[best] > 0 else place


def window_words(steps: int, step: int) -> str:
    """The steps that a mean is of, as words: "the 5 steps up to 24", "step 24"."""
    return f"the {steps} steps up to {step}" if steps > 1 else f"step {step}"


def worst_of(values: FloatArray, place: int, steps: int) -> int:
    """Of the last `steps` places up to `place`, the one of the largest value, and of equal ones the one
    nearest to `place`: a mean over them has none to look at.
    """
    window = values[max(place - steps + 1, 0) : place + 1]
    return place - int(np.argmax(np.nan_to_num(window[::-1], nan=-np.inf)))
