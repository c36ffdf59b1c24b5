"""How many rollouts of which step one process wrote, in the order of its file.

A log of millions of rollouts is short: steps mostly rise, so that a range of steps with their
counts says it all, and a new range begins where the step falls. What a resume wrote again, what is
shown and how many rollouts there are follow from tallies alone, without a look at the rollouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from board.core.arrays import IntArray

MAX_RESTARTS: Final = 8
"""More falls of the step within one file than this are no restarts: its lines are in no order."""
_MIN_WRITTEN_AGAIN: Final = 0.5
"""A restart writes a step again whole. Where fewer rollouts than this share of those before the fall
follow it, ranks that share the file were out of step with each other."""

_MOST_STEPS: Final = 100_000_000
"""More steps than this are a way to fill the memory of whoever reads it."""


@dataclass(slots=True)
class StepRange:
    """Rollouts by step, in the order of the file. line: of the first rollout."""

    line: int
    counts: dict[int, int]


@dataclass(frozen=True, slots=True)
class Restart:
    """Rollouts of lines before `line` are superseded from `step` on: they were written again."""

    line: int
    step: int


class StepCounts:
    """The rollouts of one process in one file.

    ranges: in each of them the steps ascend. ordered: there were few enough restarts to say where; else
    all is in one range, in any order.
    """

    __slots__ = ("ordered", "ranges")

    def __init__(self, ranges: Iterable[StepRange] = (), *, ordered: bool = True) -> None:
        self.ranges = [*ranges]
        self.ordered = ordered

    def add(self, step: int, count: int, line: int) -> None:
        """Counts `count` rollouts of a step that follow each other, the first of them at `line`."""
        last = self.ranges[-1].counts if self.ranges else None
        if last is None or (self.ordered and step < next(reversed(last))):
            self.ranges.append(StepRange(line, {step: count}))
            if len(self.ranges) > MAX_RESTARTS + 1:
                self.give_up_order()
        else:
            last[step] = last.get(step, 0) + count

    def give_up_order(self) -> None:
        """From now on only counts."""
        self.ranges = [StepRange(0, self.counts())]
        self.ordered = False

    def add_rows(self, steps: IntArray, lines: IntArray) -> None:
        """Counts rows in file order; steps, lines: [n]."""
        if not self.ordered:
            steps, lines = np.sort(steps), np.zeros_like(steps)
        starts = np.flatnonzero(np.diff(steps, prepend=steps[:1] - 1))
        sizes = np.diff(starts, append=len(steps))
        for step, count, line in zip(
            steps[starts].tolist(), sizes.tolist(), lines[starts].tolist(), strict=True
        ):
            self.add(step, count, line)

    def merge(self, later: StepCounts) -> None:
        """Adds what the same process wrote further down in the same file."""
        if not later.ordered:
            self.give_up_order()
        for range_ in later.ranges:
            for step, count in range_.counts.items():
                self.add(step, count, range_.line)

    def copy(self) -> StepCounts:
        """Counts that grow on their own."""
        ranges = (StepRange(one.line, dict(one.counts)) for one in self.ranges)
        return StepCounts(ranges, ordered=self.ordered)

    def counts(self) -> dict[int, int]:
        """Rollouts by step, ascending, superseded ones included."""
        if self.ordered and len(self.ranges) == 1:
            return dict(self.ranges[0].counts)
        total: Counter[int] = Counter()
        for range_ in self.ranges:
            total.update(range_.counts)
        return dict(sorted(total.items()))

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
            again = self.ranges[number].counts
            step = next(iter(again))
            before = self.ranges[:number]
            if not any(step in range_.counts for range_ in before):
                continue
            still_being_written = number == len(self.ranges) - 1 and len(again) == 1
            current = sum(
                range_.counts.get(step, 0)
                for range_ in before
                if not _is_over(range_, step, restarts)
            )
            if not still_being_written and again[step] < _MIN_WRITTEN_AGAIN * current:
                return ()
            restarts.append(Restart(self.ranges[number].line, step))
        return tuple(restarts)

    def visible(self, restarts: Collection[Restart], from_step: int | None) -> dict[int, int]:
        """Rollouts by step, ascending, without what was written again.

        from_step: where a later attempt starts.
        """
        if not restarts:
            return {s: n for s, n in self.counts().items() if from_step is None or s < from_step}
        total: Counter[int] = Counter()
        for range_ in self.ranges:
            for step, count in range_.counts.items():
                later = from_step is not None and step >= from_step
                if not later and not _is_over(range_, step, restarts):
                    total[step] += count
        return dict(sorted(total.items()))

    def to_json(self) -> dict[str, Any]:
        """What JSON holds. Steps at one distance with equal counts, as in most logs, take one entry."""
        return {
            "ordered": self.ordered,
            "ranges": [[range_.line, _encoded(range_.counts)] for range_ in self.ranges],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StepCounts:
        """What to_json gave. Raises ValueError, KeyError or TypeError on anything else."""
        ranges = [StepRange(int(line), _decoded(runs)) for line, runs in data["ranges"]]
        return cls(ranges, ordered=bool(data["ordered"]))


def _is_over(range_: StepRange, step: int, restarts: Iterable[Restart]) -> bool:
    return any(range_.line < r.line and step >= r.step for r in restarts)


def _encoded(counts: Mapping[int, int]) -> list[list[int]]:
    """Runs of [first step, distance, steps, rollouts of each]."""
    runs: list[list[int]] = []
    for step, count in counts.items():
        if runs and runs[-1][3] == count:
            first, distance, length, _ = runs[-1]
            if length == 1 or step == first + distance * length:
                runs[-1] = [first, step - first if length == 1 else distance, length + 1, count]
                continue
        runs.append([step, 0, 1, count])
    return runs


def _decoded(runs: Iterable[Sequence[int]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for first, distance, length, count in runs:
        if length > _MOST_STEPS:
            raise ValueError(f"{length} steps are more than a file holds")
        steps = range(first, first + distance * length, distance) if length > 1 else (first,)
        counts |= dict.fromkeys(steps, count)
    return counts
