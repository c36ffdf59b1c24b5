"""A metric by environment over the steps, and environments that the mean over all hides.

The mean over all is of all rollouts alike, so that large environments weigh more, as trainers log it
(prime-rl's {metric}/all beside {metric}/{env}). It is kept apart from the environments here, whose
names may be anything, "all" among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from board.core.kl import FloatArray

IntArray = npt.NDArray[np.int64]

ERRORS: Final = 3.0
"""A change counts when it is more than this many standard errors of its two windows."""
FOLLOWS: Final = 0.25
"""An environment is hidden when the mean follows its change by less than this part."""
_WINDOW: Final = 10
_LEAST: Final = 3


@dataclass(frozen=True, slots=True)
class ByEnvironment:
    """steps: [S] ascending. mean, std, count: [E, S] of the recorded values of each environment; NaN
    where it has none (std with n - 1, NaN for one value). all_mean, all_std, all_count: [S].
    """

    steps: IntArray
    mean: FloatArray
    std: FloatArray
    count: IntArray
    all_mean: FloatArray
    all_std: FloatArray
    all_count: IntArray


def by_environment(
    steps: IntArray, environments: IntArray, values: FloatArray, count: int
) -> ByEnvironment:
    """The means of `count` environments and of all rollouts, those of no environment among them.

    steps, environments, values: [n]; an environment is its code, below 0 for none; NaN is left out.
    """
    unique, at = np.unique(steps, return_inverse=True)
    known = np.isfinite(values)
    own = known & (environments >= 0)
    size = len(unique)
    cells = environments[own] * size + at[own]
    mean, std, number = _moments(cells, values[own], count * size)
    every = _moments(at[known], values[known], size)
    shape = (count, size)
    return ByEnvironment(
        unique, mean.reshape(shape), std.reshape(shape), number.reshape(shape), *every
    )


def _moments(
    cells: IntArray, values: FloatArray, count: int
) -> tuple[FloatArray, FloatArray, IntArray]:
    number = np.bincount(cells, minlength=count)
    mean = _divided(np.bincount(cells, weights=values, minlength=count), number)
    squares = np.bincount(cells, weights=(values - mean[cells]) ** 2, minlength=count)
    spread = np.sqrt(_divided(squares, np.maximum(number - 1, 0)))
    return mean, spread, number.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Hidden:
    """What the mean over all does not tell.

    kind "against": environment (its code) changed from `before` to `after`, and the mean over all,
    from all_before to all_after, did not follow. kind "mix": the mean over all changed, and no
    environment did: their shares of the rollouts changed; environment is -1, before and after NaN.
    Windows: the first and the last `window` steps with values.
    """

    kind: Literal["against", "mix"]
    environment: int
    before: float
    after: float
    all_before: float
    all_after: float
    window: int


def hidden(found: ByEnvironment) -> list[Hidden]:
    """Environments whose change the mean over all hides, the largest change first; then the mix.

    Changes are between the means of the first and the last steps, and count when beyond ERRORS standard
    errors; fewer than 2 * 3 steps tell nothing.
    """
    if len(found.mean) < 2:
        return []
    whole = _change(found.all_mean)
    if whole is None:
        return []
    changes = [_change(row) for row in found.mean]
    against: list[Hidden] = []
    for code, change in enumerate(changes):
        if change is None or not change.counts:
            continue
        follows = whole.delta * np.sign(change.delta)
        if follows < FOLLOWS * abs(change.delta):
            against.append(
                Hidden(
                    "against",
                    code,
                    change.before,
                    change.after,
                    whole.before,
                    whole.after,
                    change.window,
                )
            )
    against.sort(key=lambda one: -abs(one.after - one.before))
    moved = [c for c in changes if c is not None and c.counts]
    if whole.counts and not moved and all(c is not None for c in changes):
        nan = float("nan")
        against.append(Hidden("mix", -1, nan, nan, whole.before, whole.after, whole.window))
    return against


@dataclass(frozen=True, slots=True)
class _Change:
    before: float
    after: float
    error: float
    window: int

    @property
    def delta(self) -> float:
        return self.after - self.before

    @property
    def counts(self) -> bool:
        return abs(self.delta) > ERRORS * self.error and self.delta != 0


def _change(values: FloatArray) -> _Change | None:
    """From the first to the last recorded steps; None where they are too few."""
    known = values[np.isfinite(values)]
    window = min(len(known) // 2, _WINDOW)
    if window < _LEAST:
        return None
    first, last = known[:window], known[-window:]
    error = float(np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / window))
    return _Change(float(first.mean()), float(last.mean()), error, window)


def _divided(total: npt.NDArray[Any], count: npt.NDArray[Any]) -> FloatArray:
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
