"""Which steps of two runs are compared."""

from __future__ import annotations

from typing import Literal

import numpy as np

from board.core.arrays import FloatArray
from board.index.storage import StepRange
from board.query.checks import step_checks
from board.query.run import Run

Match = Literal["steps", "tokens", "time"]
"""Runs are compared at the same steps, after as many response tokens, or after as much time."""


def matched_steps(
    first: Run, second: Run, by: Match, shift: int = 0
) -> tuple[StepRange, StepRange] | None:
    """The steps of each run up to where both are; None where there are none, or it is not recorded.

    by "steps": those that both have, where shift is added to the second's; "tokens", "time": from the
    first step of each on, until the run that came less far ends.
    """
    if not first.counts or not second.counts:
        return None
    if by == "steps":
        low = max(min(first.counts), min(second.counts) + shift)
        high = min(max(first.counts), max(second.counts) + shift)
        return ((low, high), (low - shift, high - shift)) if low <= high else None
    spent = [_spent(run, by) for run in (first, second)]
    if not all(np.isfinite(own).any() for own in spent):
        return None
    least = min(float(np.nanmax(own)) for own in spent)
    ranges: list[StepRange] = []
    for run, own in zip((first, second), spent, strict=True):
        steps = np.fromiter(run.counts, np.int64)
        reached = steps[np.nan_to_num(own, nan=-np.inf) <= least]
        if not len(reached):
            return None
        ranges.append((int(steps[0]), int(reached[-1])))
    return ranges[0], ranges[1]


def _spent(run: Run, by: Match) -> FloatArray:
    """[S] response tokens of all steps up to each, or seconds since the first; NaN: not recorded."""
    nothing = np.full(len(run.counts), np.nan)
    if by == "time":
        checks = step_checks(run)
        return nothing if checks is None else checks.clock - checks.clock[0]
    if "response_tokens" not in run.metrics:
        return nothing
    mean, count = (step_column(run, f"response_tokens_{part}") for part in ("mean", "n"))
    return np.cumsum(np.nan_to_num(mean * count))


def step_column(run: Run, name: str) -> FloatArray:
    """[S] of the table of steps; NaN where there is no such column."""
    if name not in run.steps:
        return np.full(len(run.counts), np.nan)
    return run.steps[name].to_numpy(np.float64, na_value=np.nan)
