"""Where compared runs stand at the end: means over the last steps that all have, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.autocorrelation import reach_of_mean
from board.core.metrics.definitions import base_name, reward_parts, rollout_metric
from board.core.metrics.intervals import (
    Estimated,
    Scale,
    difference_of_estimates,
    interval_of_means,
    two_values,
)
from board.core.metrics.seeds import LEAST
from board.core.metrics.shares import with_interval, without_residue
from board.core.metrics.skewed_means import interval_over_steps
from board.core.metrics.trainer import PREFIX
from board.query.compare.paired import TOTALS
from board.query.run import Run
from board.query.steps import errors_of
from board.query.trainer.metrics import TrainerMetrics

LAST: Final = 10
"""Of more common steps the last so many."""
_PAST: Final = 40
"""Steps whose errors are computed, of a part of a run, to tell how skewed the means are."""
EXPLAINED: Final = (
    "95 % intervals. Those of rollouts count groups, not rollouts; where a step has a single group, or "
    "the trainer logged the mean, they are over the steps, as far as 20 of them tell how these wander."
)
"""What the intervals of the table are."""


class Estimate(NamedTuple):
    """A mean or a difference of two with its 95 % interval; NaN where not known."""

    value: float
    low: float
    high: float

    def text(self, unit: str, *, signed: bool = False) -> str:
        """In words; a dash where it is not recorded."""
        if self.value != self.value:
            return "–"
        return with_interval(self.value, self.low, self.high, unit, signed=signed)


UNKNOWN: Final = Estimate(np.nan, np.nan, np.nan)


@dataclass(frozen=True, slots=True)
class MetricEnd:
    """A metric of several runs at the end.

    steps: the last common ones, with the shifts; none without a common step. means: of each run. gaps: of
    each other run, its mean minus the first one's; not known where the two are other quantities.
    """

    metric: str
    steps: IntArray
    means: tuple[Estimate, ...]
    gaps: tuple[Estimate, ...]

    @property
    def steps_text(self) -> str:
        """The steps in words."""
        if not len(self.steps):
            return "no common step"
        first, last, count = int(self.steps[0]), int(self.steps[-1]), len(self.steps)
        if count == 1:
            return f"step {first}"
        of_range = "" if count == last - first + 1 else f"{count} of "
        return f"{of_range}steps {first} to {last}"


@dataclass(frozen=True, slots=True)
class _Course:
    """A metric of a run, arrays [steps]: steps with a value, and what the error of each mean needs, NaN
    where that is not known. history: means of all steps up to the last of these, for how they wander.
    """

    steps: IntArray
    mean: FloatArray
    error: FloatArray
    groups: FloatArray
    count: FloatArray
    least: FloatArray
    scale: Scale | None = None
    history: FloatArray = field(default_factory=lambda: np.zeros(0))
    past_errors: FloatArray = field(default_factory=lambda: np.zeros(0))

    def at(self, steps: IntArray) -> _Course:
        """The course at these of its steps."""
        rows = np.searchsorted(self.steps, steps)
        upto, errors = (values[: int(rows[-1]) + 1] for values in (self.mean, self.error))
        mean, error, groups, count, least = (
            values[rows] for values in (self.mean, self.error, self.groups, self.count, self.least)
        )
        return _Course(steps, mean, error, groups, count, least, self.scale, upto, errors)


def run_ends(
    runs: Sequence[Run],
    shifts: Sequence[int],
    metrics: Sequence[str],
    trainers: Sequence[TrainerMetrics] = (),
) -> list[MetricEnd]:
    """Each metric over the last LAST steps that all runs have, and that it is recorded at.

    shifts: steps added to each run's. trainers: of each run, where metrics are its trainer's. Raises
    UnreadableError.
    """
    parts = [{*reward_parts(run.metrics)} for run in runs]
    moved = zip(runs, shifts, strict=True)
    every = reduce(
        np.intersect1d, [np.fromiter(run.counts, np.int64) + shift for run, shift in moved]
    )
    courses: dict[str, list[_Course | None]] = {}
    steps: dict[str, IntArray] = {}
    for metric in metrics:
        if metric.startswith(PREFIX):
            of_runs = [_of_trainer(trainer, metric) for trainer in trainers]
        else:
            of_runs = [_of_rollouts(run, metric) for run in runs]
        sides = zip(of_runs, shifts, strict=False)
        known = [course.steps + shift for course, shift in sides if course is not None]
        if known:
            courses[metric] = of_runs
            steps[metric] = reduce(np.intersect1d, known, every)[-LAST:]
    columns = [
        _estimates(
            run, {metric: courses[metric][place] for metric in courses}, steps, shifts[place]
        )
        for place, run in enumerate(runs)
    ]
    ends: list[MetricEnd] = []
    for metric, common in steps.items():
        first, *others = (column[metric] for column in columns)
        is_other = [metric in TOTALS and names != parts[0] for names in parts[1:]]
        gaps = tuple(
            UNKNOWN if other else _gap(first, mean)
            for mean, other in zip(others, is_other, strict=True)
        )
        ends.append(MetricEnd(metric, common, (first, *others), gaps))
    return ends


def mean_at_end(run: Run, metric: str, steps: IntArray) -> Estimate:
    """The mean of a metric over these last steps of a run, those without a value left out, with its
    interval as of `run_ends`.
    """
    course = _of_rollouts(run, metric)
    known = steps if course is None else np.intersect1d(steps, course.steps)
    return UNKNOWN if course is None or not len(known) else _estimate(course.at(known))


def _estimates(
    run: Run, courses: Mapping[str, _Course | None], steps: Mapping[str, IntArray], shift: int
) -> dict[str, Estimate]:
    """The mean of each metric over its common steps, which have the shift."""
    at = {
        metric: course.at(steps[metric] - shift)
        for metric, course in courses.items()
        if course is not None and len(steps[metric])
    }
    # The table of steps of a part of a run is without errors of means.
    lacking = {
        metric: course
        for metric, course in at.items()
        if metric in run.metrics and f"{base_name(metric)}_se" not in run.steps
    }
    if lacking:
        low = min(int(_past(courses[metric], course)[0]) for metric, course in lacking.items())
        high = max(int(course.steps[-1]) for course in lacking.values())
        errors = errors_of(run.where(steps=(low, high)), [*lacking]).set_index("step")
        for metric, course in lacking.items():
            own, past = (
                errors.reindex(of) for of in (course.steps, _past(courses[metric], course))
            )
            error, groups = (
                _numbers(own, f"{base_name(metric)}_{part}") for part in ("se", "even")
            )
            past_errors = _numbers(past, f"{base_name(metric)}_se")
            history = course.history[-len(past_errors) :]
            at[metric] = replace(
                course, error=error, groups=groups, history=history, past_errors=past_errors
            )
    return {metric: _estimate(at[metric]) if metric in at else UNKNOWN for metric in courses}


def _past(whole: _Course | None, course: _Course) -> IntArray:
    """The last _PAST steps of a course up to the last of those that are compared."""
    assert whole is not None, "it has the steps of the other"
    return whole.steps[whole.steps <= course.steps[-1]][-_PAST:]


def _of_rollouts(run: Run, metric: str) -> _Course | None:
    stem, table = base_name(metric), run.steps
    name = next((name for name in (f"{stem}_mean", stem) if name in table), None)
    if name is None:
        return None
    table = table[np.isfinite(_numbers(table, name))]
    if table.empty:
        return None
    mean = without_residue(_numbers(table, name), _numbers(table, f"{stem}_std"))
    names = ("se", "even", "n", "q00", "std", "q100")
    error, even, n, least, std, most = (_numbers(table, f"{stem}_{part}") for part in names)
    is_share = rollout_metric(metric).unit == "share"
    scale = (0.0, 1.0) if is_share else two_values(mean, std, n, least, most)
    return _Course(table["step"].to_numpy(np.int64), mean, error, even, n, least, scale)


def _of_trainer(trainer: TrainerMetrics, metric: str) -> _Course | None:
    curve = trainer.curves.get(metric)
    if curve is None or not curve.points:
        return None
    known = np.isfinite(curve.values)
    unknown = np.full(int(known.sum()), np.nan)
    mean = curve.values[known]
    return _Course(curve.steps[known], mean, unknown, unknown, unknown, unknown)


def _estimate(course: _Course) -> Estimate:
    """The mean over the steps of a course, each of them as much as the others."""
    count, value = len(course.steps), float(course.mean.mean())
    if not np.isfinite(course.error).all():
        reach = reach_of_mean(course.history, LAST, count)
        if count < LEAST or reach is None:
            return Estimate(value, np.nan, np.nan)
        return Estimate(value, value - reach, value + reach)
    if course.scale is None:
        past = course.history, course.past_errors
        low, high = interval_over_steps(course.mean, course.error, course.groups, past)
        return Estimate(value, max(low, 0.0) if (course.least >= 0).all() else low, high)
    squares = course.error**2
    with np.errstate(invalid="ignore", divide="ignore"):
        # Degrees of freedom of a sum of means: Welch 1947.
        freedom = squares.sum() ** 2 / np.nansum(squares**2 / (course.groups - 1))
    low, high = interval_of_means(
        np.array([value]),
        np.array([np.sqrt(squares.sum()) / count]),
        np.array([freedom + 1]),
        np.array([course.count.sum()]),
        course.scale,
    )
    return Estimate(value, float(low[0]), float(high[0]))


def _gap(first: Estimate, second: Estimate) -> Estimate:
    """The second minus the first."""
    value, low, high = difference_of_estimates(_arrays(first), _arrays(second))
    return Estimate(float(value[0]), float(low[0]), float(high[0]))


def _arrays(one: Estimate) -> Estimated:
    return np.array([one.value]), np.array([one.low]), np.array([one.high])


def _numbers(table: pd.DataFrame, name: str) -> FloatArray:
    if name not in table:
        return np.full(len(table), np.nan)
    return pd.to_numeric(table[name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
