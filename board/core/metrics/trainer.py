"""What the trainer logs of the same quantities that the rollouts have: names, shifted steps, differences.

A trainer's mean of a quantity and that over the recorded rollouts should be one number. Where they are
not, rollouts are missing, or the two are defined differently.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray

PREFIX: Final = "trainer/"
"""Begins the name of each trainer metric, so that it is never taken for one of the rollouts."""

_TABLE: Final = tomllib.loads(
    resources.files("board.core.metrics").joinpath("trainer.toml").read_text(encoding="utf-8")
)
_EVALUATION: Final = re.compile(r"(^|/)(eval|evaluation|val|validation|test)([/_]|$)", re.I)
_RELATIVE: Final = 0.02
_OF_STD: Final = 0.01
"""Two means are one number up to 2 % of it, or 1 % of the standard deviation over the rollouts."""
_LEAST_STEPS: Final = 5
_ALIKE: Final = 0.1
_UNLIKE: Final = 0.5
"""Steps are moved where at most a tenth of them differ then, and half of them did before: a wrong shift
is worse than none.
"""
_LEAST_DEVIATION: Final = 1e-3
_LEAST_DEVIATION_SHARE: Final = 0.01
_SHIFTS: Final = (0, 1, -1)


@dataclass(frozen=True, slots=True)
class Topic:
    """Metrics of one kind, by regular expressions of their names, the best first. most: how many are
    taken.
    """

    title: str
    patterns: tuple[str, ...]
    most: int = 1

    def of(self, names: Iterable[str]) -> list[str]:
        """The names that belong to it, evaluations left out."""
        own = [name for name in names if not _EVALUATION.search(name.removeprefix(PREFIX))]
        matches = (
            name
            for pattern in self.patterns
            for name in own
            if _compiled(pattern).fullmatch(name.removeprefix(PREFIX))
        )
        return [*dict.fromkeys(matches)][: self.most]


_compiled = cache(
    partial(re.compile, flags=re.I)
)  # when it is needed: most runs have no trainer's file


def _patterns(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(rf"(?:.*[/.])?{text}" for text in texts)


TOPICS: Final = tuple(
    Topic(about["title"], _patterns(about["names"]), about.get("most", 1))
    for about in _TABLE["topics"].values()
)
"""The charts that are drawn of any trainer that logs them, in order."""
SAME: Final[Mapping[str, Topic]] = {
    column: Topic(column, _patterns(names)) for column, names in _TABLE["same"].items()
}
"""By column of the rollouts, what trainers call its mean."""


@dataclass(frozen=True, slots=True)
class Means:
    """Means of a column over the rollouts of each step, [S] ascending; NaN where not recorded.

    std: over the rollouts. weighting: what the means are over, in words. counts: rollouts with a value.
    """

    column: str
    weighting: str
    steps: IntArray
    values: FloatArray
    std: FloatArray
    counts: IntArray


@dataclass(frozen=True, slots=True)
class Agreement:
    """A trainer metric against the rollouts, [n] steps that both have.

    column, weighting: of the means of rollouts that come closest. theirs: the trainer's; counts: rollouts
    of each mean. differs: whether the two are not one number. missing: how many of the rollouts that were
    trained on are not in the log; None where nothing says so. is_sampled: whether the exporter was asked
    to write a part of the rollouts only, so that means differ by chance.
    """

    trainer: str
    column: str
    weighting: str
    steps: IntArray
    theirs: FloatArray
    ours: FloatArray
    counts: IntArray
    differs: BoolArray
    missing: Sequence[int | None] = ()
    is_sampled: bool = False

    @property
    def worst(self) -> int:
        """The place of the step at which they differ most."""
        return int(np.argmax(np.abs(self.theirs - self.ours)))

    def words(self, place: int) -> str:
        """What the two say at a step, and over how many rollouts."""
        count, missing = int(self.counts[place]), self.missing[place] if self.missing else None
        text = f"trainer {self.theirs[place]:.4g}, rollouts {self.ours[place]:.4g}"
        if not count:
            return text
        if not missing:
            return f"{text} over {count:,}"
        verb = "is" if missing == 1 else "are"
        return f"{text} over {count:,} of {count + missing:,} recorded: {missing:,} {verb} missing"

    @property
    def summary(self) -> str:
        """Whether the two agree, and at which step they differ most if they do not."""
        sampled = "; a part of them is recorded" if self.is_sampled else ""
        names = f"{self.trainer} and {self.column} (mean over {self.weighting}{sampled})"
        steps = "1 step" if len(self.steps) == 1 else f"{len(self.steps):,} steps"
        count = int(self.differs.sum())
        if not count:
            return f"{names} agree at {'' if len(self.steps) == 1 else 'all '}{steps}"
        worst = f"at step {self.steps[self.worst]}: {self.words(self.worst)}"
        return f"{names} differ at {count:,} of {steps}, most {worst}"

    def document(self) -> dict[str, object]:
        """The comparison as one JSON object; of each step that differs what both say."""
        differing = [
            {
                "step": int(self.steps[place]),
                "trainer": float(self.theirs[place]),
                "rollouts": float(self.ours[place]),
                "recorded": int(self.counts[place]),
                "missing": self.missing[place] if self.missing else None,
            }
            for place in np.flatnonzero(self.differs).tolist()
        ]
        return {
            "trainer": self.trainer,
            "rollouts": self.column,
            "weighting": self.weighting,
            "steps": len(self.steps),
            "differing": differing,
        }


def agreement(
    trainer: str,
    steps: IntArray,
    values: FloatArray,
    candidates: Sequence[Means],
    tolerance: tuple[float, float] = (_RELATIVE, _OF_STD),
) -> Agreement | None:
    """A trainer metric against what it may be a mean of; None where no step has both.

    steps, values: [n], of the trainer. tolerance: two means are one number up to these shares of the
    mean, and of the standard deviation over the rollouts.
    """
    of_mean, of_std = tolerance
    fits: list[tuple[float, Agreement]] = []
    for means in [*candidates, *(_since_last_point(one, steps) for one in candidates)]:
        common, own, other = np.intersect1d(steps, means.steps, return_indices=True)
        theirs, ours = values[own], means.values[other]
        known = np.isfinite(theirs) & np.isfinite(ours)
        if not known.any():
            continue
        theirs, ours, std = theirs[known], ours[known], np.nan_to_num(means.std[other][known])
        size = np.maximum(np.abs(theirs), np.abs(ours))
        differs = np.abs(theirs - ours) > of_mean * size + of_std * std
        one = Agreement(
            trainer,
            means.column,
            means.weighting,
            common[known],
            theirs,
            ours,
            means.counts[other][known],
            differs,
        )
        fits.append((float(np.median(np.abs(theirs - ours))), one))
    if not fits:
        return None
    best = min(fits, key=lambda fit: fit[0])[1]
    # Of a mean over several steps, of which one is recorded, nothing can be said.
    is_sampled = _interval(steps) > 1 and not any(
        np.isfinite(_since_last_point(one, steps).values).any() for one in candidates
    )
    return replace(best, is_sampled=is_sampled)


def _interval(steps: IntArray) -> int:
    """Every how many steps the trainer logs."""
    return int(np.median(np.diff(steps))) if len(steps) > 1 else 1


def _since_last_point(means: Means, steps: IntArray) -> Means:
    """Means as a trainer logs them that logs every few steps only: of the means of all steps since the
    one it logged before. steps: [n], at which it did; empty where that is each step.
    """
    every = _interval(steps)
    if every <= 1:
        return replace(means, steps=means.steps[:0], values=means.values[:0])
    begins = np.append(steps[0] - every, steps[:-1])
    low, high = (np.searchsorted(means.steps, at, side="right") for at in (begins, steps))

    def summed(numbers: FloatArray | IntArray) -> FloatArray:
        totals = np.append(0.0, np.cumsum(np.nan_to_num(numbers)))
        return totals[high] - totals[low]

    known = np.isfinite(means.values)
    # Where a step of them is not recorded, the mean is not theirs.
    recorded = np.where(summed(known) == steps - begins, steps - begins, np.nan)
    weighting = f"{means.weighting}, of the steps since the last point"
    values, std = summed(means.values) / recorded, summed(means.std) / recorded
    counts = summed(means.counts).astype(np.int64)
    return Means(means.column, weighting, steps, values, std, counts)


def detect_shift(
    curves: Mapping[str, tuple[IntArray, FloatArray]], means: Mapping[str, Sequence[Means]]
) -> tuple[int, str]:
    """How many steps the trainer's have to be moved by to be those of the rollouts, and the name of the
    metric that says so; 0 and no name where none does.

    curves: steps and values by name of the trainer metric. means: by column.
    """
    for column, topic in SAME.items():
        for name in topic.of(curves):
            steps, values = curves[name]
            differing = {
                shift: _differing(steps + shift, values, means.get(column, ())) for shift in _SHIFTS
            }
            best = min(differing, key=lambda shift: differing[shift])
            if differing[best] <= _ALIKE and (best == 0 or differing[0] >= _UNLIKE):
                return best, name
    return 0, ""


def _differing(steps: IntArray, values: FloatArray, candidates: Sequence[Means]) -> float:
    """The share of steps at which they differ; 1 where too few are in both."""
    one = agreement("", steps, values, candidates)
    return 1.0 if one is None or len(one.steps) < _LEAST_STEPS else float(one.differs.mean())


def explaining_column(steps: IntArray, curves: Mapping[str, FloatArray], step: int) -> str | None:
    """The column whose mean stands out most at a step, by its distance from the median over all steps in
    median absolute deviations, of which none is less than 0.001 and 1 % of the median; None where none
    has a value there.

    steps: [S]; curves: [S] by column.
    """
    place = int(np.searchsorted(steps, step))
    if place >= len(steps) or steps[place] != step:
        return None
    distances: dict[str, float] = {}
    for column, values in curves.items():
        known = values[np.isfinite(values)]
        if len(known) and np.isfinite(values[place]):
            middle = float(np.median(known))
            deviation = float(np.median(np.abs(known - middle)))
            # A ratio that is 1 but for rounding must not stand out by its rounding.
            least = max(_LEAST_DEVIATION, _LEAST_DEVIATION_SHARE * abs(middle))
            distances[column] = abs(float(values[place]) - middle) / max(deviation, least)
    return max(distances, key=lambda column: distances[column]) if distances else None
