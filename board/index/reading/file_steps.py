"""How many rollouts of which step one process wrote, in the order of its file.

A log of millions of rollouts is short: steps mostly rise, so that a range of steps with their
counts says it all, and a new range begins where the step falls. What a resume wrote again, what is
shown and how many rollouts there are follow from tallies alone, without a look at the rollouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

MAX_RESTARTS: Final = 8
"""More falls of the step within one file than this are no restarts: its lines are in no order."""
_MIN_WRITTEN_AGAIN: Final = 0.5
"""A restart writes a step again whole. Where fewer rollouts than this share of those before the fall
follow it, ranks that share the file were out of step with each other."""

_MOST_STEPS: Final = 100_000_000
"""More steps than this are a way to fill the memory of whoever reads it."""

IntArray = npt.NDArray[np.int64]
Counts = Sequence[tuple[int, int]]
"""(step, rollouts) in ascending order of the step."""


@dataclass(slots=True)
class StepRange:
    """Steps in ascending order, with the rollouts of each. line: of the first rollout."""

    line: int
    steps: list[int] = field(default_factory=list[int])
    counts: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class Restart:
    """Rollouts of lines before `line` are superseded from `step` on: they were written again."""

    line: int
    step: int


class StepCounts:
    """The ranges of one process in one file. ordered: it fell seldom enough to say where."""

    __slots__ = ("_histogram", "ordered", "ranges")

    def __init__(self) -> None:
        self.ranges: list[StepRange] = []
        self.ordered = True
        self._histogram: Counter[int] = Counter()

    def add(self, step: int, count: int, line: int) -> None:
        """Counts `count` rollouts of a step that follow each other, the first of them at `line`."""
        if not self.ordered:
            self._histogram[step] += count
            return
        last = self.ranges[-1] if self.ranges else None
        if last is None or step < last.steps[-1]:
            self.ranges.append(StepRange(line, [step], [count]))
            if len(self.ranges) > MAX_RESTARTS + 1:
                self.give_up_order()
        elif step == last.steps[-1]:
            last.counts[-1] += count
        else:
            last.steps.append(step)
            last.counts.append(count)

    def give_up_order(self) -> None:
        """From now on only counts: there is no telling what a restart wrote again."""
        if not self.ordered:
            return
        self._histogram = Counter(dict(self.counts()))
        self.ordered = False
        self.ranges = []

    def add_rows(self, steps: IntArray, lines: IntArray) -> None:
        """Counts rows in file order; steps, lines: [n]."""
        if len(steps) == 0:
            return
        if not self.ordered:
            unique, counts = np.unique(steps, return_counts=True)
            self._histogram.update(dict(zip(unique.tolist(), counts.tolist(), strict=True)))
            return
        starts = np.flatnonzero(np.concatenate(([True], np.diff(steps) != 0)))
        ends = np.append(starts[1:], len(steps))
        for step, count, line in zip(
            steps[starts].tolist(), (ends - starts).tolist(), lines[starts].tolist(), strict=True
        ):
            self.add(step, count, line)

    def merge(self, later: StepCounts) -> None:
        """Adds what the same process wrote further down in the same file."""
        if self.ordered and not later.ordered:
            self.give_up_order()
        if not self.ordered:
            self._histogram.update(dict(later.counts()))
            return
        for range_ in later.ranges:
            for step, count in zip(range_.steps, range_.counts, strict=True):
                self.add(step, count, range_.line)

    def copy(self) -> StepCounts:
        """Counts that grow on their own."""
        return StepCounts.from_json(self.to_json())

    def counts(self) -> Counts:
        """(step, rollouts), superseded ones included."""
        if not self.ordered:
            return sorted(self._histogram.items())
        if len(self.ranges) == 1:
            return list(zip(self.ranges[0].steps, self.ranges[0].counts, strict=True))
        total: Counter[int] = Counter()
        for range_ in self.ranges:
            total.update(dict(zip(range_.steps, range_.counts, strict=True)))
        return sorted(total.items())

    @property
    def ends(self) -> tuple[int, ...]:
        """Steps among which the first and the last one are; none where nothing was counted."""
        if not self.ordered:
            return tuple(self._histogram)
        return tuple(s.steps[end] for s in self.ranges if s.steps for end in (0, -1))

    def restarts(self) -> tuple[Restart, ...]:
        """Where the process began again at an earlier step, in file order.

        A restart is a fall to a step that the file already holds and that follows again whole. One
        fall that is no restart (several ranks share the file, or something else sorted it) means that
        the lines are in no order, and then there is none.
        """
        if not self.ordered:
            return ()
        restarts: list[Restart] = []
        for number in range(1, len(self.ranges)):
            again = self.ranges[number]
            step = again.steps[0]
            before = self.ranges[:number]
            if not any(_count_of(range_, step) for range_ in before):
                continue
            still_being_written = again is self.ranges[-1] and again.steps[-1] == step
            standing = sum(
                _count_of(range_, step) for range_ in before if not _is_over(range_, step, restarts)
            )
            if not still_being_written and again.counts[0] < _MIN_WRITTEN_AGAIN * standing:
                return ()
            restarts.append(Restart(again.line, step))
        return tuple(restarts)

    def visible(self, restarts: Iterable[Restart], from_step: int | None) -> Counts:
        """(step, rollouts) without what was written again; from_step: a later attempt starts there."""
        restarts = tuple(restarts)
        if not restarts:
            return [(s, n) for s, n in self.counts() if from_step is None or s < from_step]
        total: Counter[int] = Counter()
        for range_ in self.ranges:
            for step, count in zip(range_.steps, range_.counts, strict=True):
                later = from_step is not None and step >= from_step
                if not later and not _is_over(range_, step, restarts):
                    total[step] += count
        return sorted(total.items())

    def to_json(self) -> dict[str, Any]:
        """What JSON holds. Steps at one distance with equal counts, as in most logs, take one entry."""
        if not self.ordered:
            steps = sorted(self._histogram)
            return {"histogram": _encoded(steps, [self._histogram[step] for step in steps])}
        return {"stretches": [[s.line, _encoded(s.steps, s.counts)] for s in self.ranges]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> StepCounts:
        """What to_json gave."""
        counted = cls()
        if "histogram" in data:
            counted.ordered = False
            steps, counts = _decoded(data["histogram"])
            counted._histogram = Counter(dict(zip(steps, counts, strict=True)))
        for line, encoded in data.get("stretches", ()):
            counted.ranges.append(StepRange(line, *_decoded(encoded)))
        return counted


def _count_of(range_: StepRange, step: int) -> int:
    place = int(np.searchsorted(range_.steps, step))
    hit = place < len(range_.steps) and range_.steps[place] == step
    return range_.counts[place] if hit else 0


def _is_over(range_: StepRange, step: int, restarts: Iterable[Restart]) -> bool:
    return any(range_.line < r.line and step >= r.step for r in restarts)


def _encoded(steps: Sequence[int], counts: Sequence[int]) -> list[list[int]]:
    """Runs of [first step, distance, steps, rollouts of each]."""
    runs: list[list[int]] = []
    for step, count in zip(steps, counts, strict=True):
        if runs and runs[-1][3] == count:
            first, distance, length, _ = runs[-1]
            if length == 1 or step == first + distance * length:
                runs[-1] = [first, step - first if length == 1 else distance, length + 1, count]
                continue
        runs.append([step, 0, 1, count])
    return runs


def _decoded(runs: Iterable[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The steps of all runs, and the rollouts of each step."""
    steps: list[int] = []
    counts: list[int] = []
    for first, distance, length, count in runs:
        if length > _MOST_STEPS:
            raise ValueError(f"{length} steps are more than a file holds")
        steps += range(first, first + distance * length, distance) if distance else [first] * length
        counts += [count] * length
    return steps, counts
