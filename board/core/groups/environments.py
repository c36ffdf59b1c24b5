"""Every curve by environment, and the environments that the mean over all hides.

The mean over all is of all rollouts alike, so that large environments weigh more, as trainers log it
(prime-rl@559b447 docs/training.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from board.core.arrays import FloatArray, IntArray, divided
from board.core.metrics.autocorrelation import error_of_change, usual_change, wander
from board.core.metrics.distributions import student_t_p


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
    shape = (len(names), len(unique))
    is_named = envs >= 0
    cells = (envs[is_named], of_step[is_named])
    totals, known = np.zeros(shape), np.zeros(shape, np.int64)
    np.add.at(totals, cells, sums[is_named])
    np.add.at(known, cells, counts[is_named])
    every = np.bincount(of_step, weights=counts, minlength=shape[1])
    whole = np.bincount(of_step, weights=sums, minlength=shape[1])
    return EnvCurves(unique, names, divided(totals, known), known, divided(whole, every))


RATE: Final = 0.01
"""A change counts when chance alone would make one of any environment in this share of runs."""
_FOLLOWS: Final = 0.25
"""An environment is hidden when the mean follows its change by less than this part."""
_WINDOW: Final = 10
_ROUNDING: Final = 1e-9
_CAUTION: Final = 3.5
_LEAST: Final = 5


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

    Changes are between the means of the first and the last steps. They count when chance makes one as
    large in at most RATE of runs, over all environments together (Bonferroni; Dunn 1961), by Student's t
    and the error of means that wander from step to step (board.core.metrics.autocorrelation): a few
    steps hardly ever tell. Fewer than 2 * 5 steps tell nothing.
    """
    rate = RATE / max(len(curves.means), 1)
    whole, changes = _change(curves.overall, rate), [_change(row, rate) for row in curves.means]
    if len(changes) < 2 or whole is None:
        return []
    moved = {code: c for code, c in enumerate(changes) if c is not None and c.counts}
    all_of = (whole.before, whole.after)
    against = [
        Hidden("against", code, c.before, c.after, *all_of, c.window)
        for code, c in moved.items()
        if whole.delta * np.sign(c.delta) < _FOLLOWS * abs(c.delta)
    ]
    against.sort(key=lambda one: -abs(one.after - one.before))
    if whole.counts and not moved and None not in changes:
        against.append(Hidden("mix", -1, np.nan, np.nan, *all_of, whole.window))
    return against


@dataclass(frozen=True, slots=True)
class _Change:
    before: float
    after: float
    window: int
    delta: float
    counts: bool


def _change(values: FloatArray, rate: float) -> _Change | None:
    """From the first to the last recorded steps; None where they are too few. rate: of chance."""
    known = values[np.isfinite(values)]
    window = min(len(known) // 2, _WINDOW)
    if window < _LEAST:
        return None
    first, last = known[:window], known[-window:]
    before, after = float(first.mean()), float(last.mean())
    delta = after - before
    wanders = wander(known, window, _CAUTION)
    assert wanders is not None, "there are two windows"
    error = error_of_change(wanders, window, len(known) - window)
    errors = [(error, wanders.freedom), *filter(None, [usual_change(known, window)])]
    counts = abs(delta) > _ROUNDING * max(abs(before), abs(after)) and all(
        size == 0 or bool(student_t_p(np.array([delta / size]), np.array([freedom])) <= rate)
        for size, freedom in errors
    )
    return _Change(before, after, window, delta, counts)
