"""Every curve by environment, and the environments that the mean over all hides.

The mean over all is of all rollouts alike, so that large environments weigh more, as trainers log it
(prime-rl@559b447 docs/training.md: entropy/{all,env}/mean, mismatch_kl/{all,env}/mean).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from board.core.groups.statistics import IntArray
from board.core.metrics.kl import FloatArray


@dataclass(frozen=True, slots=True)
class EnvCurves:
    """Means of a number of rollouts. steps: [S]. names: of environments, [E]; means, counts: [E, S],
    NaN and 0 where an environment has no value at a step. overall: [S] over all rollouts.

    The curve over all environments is a field of its own, so that an environment may be called "all".
    """

    steps: IntArray
    names: Sequence[str]
    means: FloatArray
    counts: IntArray
    overall: FloatArray


def curves_from(
    steps: IntArray, envs: IntArray, names: Sequence[str], sums: FloatArray, counts: IntArray
) -> EnvCurves:
    """Means of what was summed by step and environment, [n] each; counts: values in each sum.

    envs: places in names, -1 for rollouts without one, which count in `overall` alone.
    """
    unique, of_step = np.unique(steps, return_inverse=True)
    size = (len(names), len(unique))
    is_named = envs >= 0
    cells = envs[is_named] * size[1] + of_step[is_named]
    totals = np.bincount(cells, weights=sums[is_named], minlength=size[0] * size[1]).reshape(size)
    known = np.bincount(cells, weights=counts[is_named], minlength=size[0] * size[1]).reshape(size)
    every = np.bincount(of_step, weights=counts, minlength=size[1])
    whole = np.bincount(of_step, weights=sums, minlength=size[1])
    return EnvCurves(
        unique,
        names,
        np.divide(totals, known, out=np.full(size, np.nan), where=known > 0),
        known.astype(np.int64),
        np.divide(whole, every, out=np.full(size[1], np.nan), where=every > 0),
    )


ERRORS: Final = 3.0
"""A change counts when it is more than this many standard errors of its two windows."""
FOLLOWS: Final = 0.25
"""An environment is hidden when the mean follows its change by less than this part."""
_WINDOW: Final = 10
_LEAST: Final = 3


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


def hidden(curves: EnvCurves) -> list[Hidden]:
    """Environments whose change the mean over all hides, the largest change first; then the mix.

    Changes are between the means of the first and the last steps, and count when beyond ERRORS standard
    errors; fewer than 2 * 3 steps tell nothing.
    """
    if len(curves.means) < 2:
        return []
    whole = _change(curves.overall)
    if whole is None:
        return []
    changes = [_change(row) for row in curves.means]
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
