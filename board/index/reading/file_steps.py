"""How many rollouts of which step one process wrote, in the order of its file.

A log of millions of rollouts is short: steps mostly rise, so that a range of steps with their
counts says it all, and a new range begins where the step falls. What a resume wrote again, what is
shown and how many rollouts there are follow from tallies alone, without a look at the rollouts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Final, Self

import numpy as np

from board.core.arrays import IntArray

MAX_RESTARTS: Final = 8
"""More falls of the step within one file than this are no restarts: its lines are in no order."""
_MOST_RANGES: Final = 64
"""Of more falls than this it is not remembered where they are."""
_WRITTEN_TWICE: Final = 1.5
"""So many times the usual rollouts of a step a step has at least that was written again. Where writers
were merely out of step with each other its rollouts are the usual ones, in pieces."""

_MOST_STEPS: Final = 100_000_000
"""More steps than this are a way to fill the memory of whoever reads it."""


@dataclass(slots=True)
class StepRange:
    """Rollouts by step, ascending. line: of the first rollout; last_line: where the last ones of one step
    begin.
    """

    line: int
    counts: dict[int, int]
    last_line: int = 0

    def add(self, step: int, count: int, line: int) -> None:
        """Counts more rollouts of a step, of a later line."""
        is_late = step not in self.counts and bool(self.counts) and step < self.newest
        self.counts[step] = self.counts.get(step, 0) + count
        self.last_line = line
        if is_late:
            self.counts = dict(sorted(self.counts.items()))

    @property
    def first(self) -> int:
        """The first step."""
        return next(iter(self.counts))

    @property
    def newest(self) -> int:
        """The last step."""
        return next(reversed(self.counts))


@dataclass(frozen=True, slots=True)
class Restart:
    """Rollouts of lines before `line` are superseded from `step` on: they were written again."""

    line: int
    step: int


class StepCounts:
    """The rollouts of one process in one file.

    ranges: a new one begins where the step falls, and where StepEnds can't say yet whether what follows
    began again. ordered: there were few enough falls to say where; else all is in one range.
    """

    __slots__ = ("ordered", "ranges")

    def __init__(self, ranges: Iterable[StepRange] = (), *, ordered: bool = True) -> None:
        self.ranges = [*ranges]
        self.ordered = ordered

    @staticmethod
    def _goes_back(step: int, newest: int) -> bool:
        return step < newest

    def add(self, step: int, count: int, line: int) -> None:
        """Counts `count` rollouts of a step that follow each other, the first of them at `line`."""
        if not self.ranges or (self.ordered and self._goes_back(step, self.ranges[-1].newest)):
            self._begin(step, count, line)
        else:
            self.ranges[-1].add(step, count, line)

    def _begin(self, step: int, count: int, line: int) -> None:
        self.ranges.append(StepRange(line, {step: count}, line))
        if len(self.ranges) > _MOST_RANGES:
            self.give_up_order()

    def give_up_order(self) -> None:
        """From now on only counts."""
        self.ranges = [StepRange(0, self.counts())]
        self.ordered = False

    def add_rows(self, steps: IntArray, lines: IntArray, ends: StepEnds | None = None) -> None:
        """Counts rows in file order; steps, lines: [n]. ends: where the same lines end steps."""
        if not self.ordered:
            steps, lines = np.sort(steps), np.zeros_like(steps)
        gaps = np.zeros_like(steps) if ends is None or not self.ordered else ends.gaps(lines)
        begins = (np.diff(gaps, prepend=gaps[:1]) != 0) & (gaps % 2 == 0)
        starts = np.flatnonzero((np.diff(steps, prepend=steps[:1] - 1) != 0) | begins)
        sizes = np.diff(starts, append=len(steps))
        columns = (steps[starts], sizes, lines[starts], gaps[starts] % 2 == 1, begins[starts])
        for step, count, line, goes_on, is_new in zip(*(c.tolist() for c in columns), strict=True):
            if goes_on and self.ranges:
                self.ranges[-1].add(step, count, line)
            elif is_new and self.ordered:
                self._begin(step, count, line)
            else:
                self.add(step, count, line)

    def merge(self, later: StepCounts, ends: StepEnds | None = None) -> None:
        """Adds what the same process wrote further down in the same file. ends: where both end steps."""
        if not later.ordered:
            self.give_up_order()
        self.ranges += (StepRange(o.line, dict(o.counts), o.last_line) for o in later.ranges)
        if not self.ordered:
            self.give_up_order()
            return
        self._join_ranges(ends)
        if len(self.ranges) > _MOST_RANGES:
            self.give_up_order()

    def _join_ranges(self, ends: StepEnds | None) -> None:
        """Joins each range to the one before if, as is known by now, nothing began again between them."""
        if len(self.ranges) < 2:
            return
        lines = np.array([(one.line, one.last_line) for one in self.ranges])
        gaps = np.zeros_like(lines) if ends is None else ends.gaps(lines)
        joined, gap_before = self.ranges[:1], int(gaps[0, 1])
        for range_, (gap, last_gap) in zip(self.ranges[1:], gaps[1:].tolist(), strict=True):
            falls = self._goes_back(range_.first, joined[-1].newest)
            if gap % 2 == 1 or (gap == gap_before and not falls):
                for step, count in range_.counts.items():
                    joined[-1].add(step, count, range_.last_line)
            else:
                joined.append(range_)
            gap_before = last_gap
        self.ranges = joined

    def copy(self) -> Self:
        """Counts that grow on their own."""
        ranges = (StepRange(one.line, dict(one.counts), one.last_line) for one in self.ranges)
        return type(self)(ranges, ordered=self.ordered)

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

        A restart is a fall to a step that the file already holds, which is written again whole, as are
        those after it. Rollouts that come late complete their step; where they do, the lines are in no
        order, and then there is no restart.
        """
        if not self.ordered or not 1 < len(self.ranges) <= MAX_RESTARTS + 1:
            return ()
        sizes = self._usual_sizes()
        restarts: list[Restart] = []
        for number, range_ in enumerate(self.ranges[1:], 1):
            before = Counter[int]()
            for earlier in self.ranges[:number]:
                current = (s for s in earlier.counts if not _is_over(earlier, s, restarts))
                before.update({step: earlier.counts[step] for step in current})
            step, follows = range_.first, next(islice(range_.counts, 1, None), None)
            expected = min((one for one in before if one > step), default=None)
            is_alone = follows is not None and expected is not None and follows > max(before)
            if step not in before or (is_alone and follows != expected):
                continue  # new, or one step alone that came late, such as an evaluation
            is_whole = _is_twice(before, range_, sizes) if len(sizes) else self._is_begun_again()
            if not is_whole:
                return ()
            restarts.append(Restart(range_.line, step))
        return tuple(restarts)

    def _usual_sizes(self) -> IntArray:
        """The rollouts of each step that is in one range alone and was not written last."""
        ranges = Counter(step for range_ in self.ranges for step in range_.counts)
        last = self.ranges[-1].newest
        counts = self.counts().items()
        return np.array([n for step, n in counts if ranges[step] == 1 and step != last], np.int64)

    def _is_begun_again(self) -> bool:
        """Whether there are two ranges and each step of both is in them as often, but for the last ones;
        and more often together than the newest one, where it was not written twice.
        """
        first, again = self.ranges[0].counts, self.ranges[-1].counts
        newest = self.ranges[-1].newest
        whole = first.keys() & again.keys() - {self.ranges[0].newest, newest}
        least = 0 if newest in first else again[newest]
        is_twice = all(first[s] == again[s] and 2 * first[s] > least for s in whole)
        return len(self.ranges) == 2 and bool(whole) and is_twice

    def restarts_by(self, ends: StepEnds) -> tuple[Restart, ...]:
        """Where the process began again by the steps that it ended twice, in file order.

        The rollouts of a step that is ended again begin between that end and the one before it, at the
        first fall to a step that had been ended. ends: of the same file.
        """
        restarts: list[Restart] = []
        for again in ends.again() if self.ordered else ():
            lines = (
                range_.line
                for before, range_ in pairwise(self.ranges)
                if again.after < range_.line < again.line
                and range_.first <= again.newest
                and range_.first < before.newest
            )
            if (line := next(lines, None)) is not None:
                restarts.append(Restart(line, again.step))
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
            "ranges": [[one.line, one.last_line, _encoded(one.counts)] for one in self.ranges],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What to_json gave. Raises ValueError, KeyError or TypeError on anything else."""
        ranges = [
            StepRange(int(line), _decoded(runs), int(last)) for line, last, runs in data["ranges"]
        ]
        return cls(ranges, ordered=bool(data["ordered"]))


@dataclass(frozen=True, slots=True)
class EndedAgain:
    """A step that a file ends a second time. line: of that end; after: of the end before it; newest:
    the step that this one ended.
    """

    step: int
    line: int
    after: int
    newest: int


class StepEnds(StepCounts):
    """Where a file says that a step is written; a new range begins where one is ended again."""

    __slots__ = ()

    @staticmethod
    def _goes_back(step: int, newest: int) -> bool:
        return step <= newest

    def gaps(self, lines: IntArray) -> IntArray:
        """In which gap between ends each line is; an array of the same shape. Odd: those between two ends
        of which the later one is of a later step. Nothing began again there: what is out of order in them
        was merely late.
        """
        bounds = [(one.line, one.last_line) for one in self.ranges if self.ordered]
        return np.searchsorted(np.array(bounds, np.int64).ravel(), lines)

    def again(self) -> Iterator[EndedAgain]:
        """Where steps are ended again, in file order: the first step of each time, if the ones after it
        follow. None where that is too often for restarts.
        """
        if not self.ordered or len(self.ranges) > MAX_RESTARTS + 1:
            return
        known = {*self.ranges[0].counts} if self.ranges else set[int]()
        for before, range_ in pairwise(self.ranges):
            step, follows = range_.first, next(islice(range_.counts, 1, None), None)
            expected = min((one for one in known if one > step), default=None)
            # Where training goes on behind it, one step alone came late, such as an evaluation.
            is_alone = follows is not None and expected is not None and follows > expected
            if step in known and not is_alone:
                yield EndedAgain(step, range_.line, before.last_line, before.newest)
            known |= range_.counts.keys()

    def current(self) -> set[int]:
        """The steps that are ended, without those that a restart is about to write again."""
        restarts = [Restart(again.line, again.step) for again in self.again()]
        return {*self.visible(restarts, None)}


def _is_over(range_: StepRange, step: int, restarts: Iterable[Restart]) -> bool:
    return any(range_.line < r.line and step >= r.step for r in restarts)


def _is_twice(before: Mapping[int, int], range_: StepRange, sizes: IntArray) -> bool:
    """Whether a range has steps of before once more. sizes: of steps that were written once."""
    usual = float(np.median(sizes))
    both = [step for step in range_.counts if step in before]
    whole = both[:-1] if len(both) > 1 and both[-1] == range_.newest else both
    written = [min(before[step] + range_.counts[step], 2 * usual) for step in whole]
    largest = max((size for size in sizes.tolist() if size < 2 * usual), default=0)
    mean = sum(written) / len(written)
    return mean >= _WRITTEN_TWICE * usual and mean > largest


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
