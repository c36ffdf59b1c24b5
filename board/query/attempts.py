"""Launches of a training, restarts within a file, and which rollouts were written again by them.

A training that is killed and resumed writes its last steps a second time. Files of the native format
say so in their headers: an attempt supersedes all earlier ones from its start_step on, whatever the
ranks. One that goes on in the file of the one before ends steps a second time (StepCounts.restarts_by).
Append-only formats do not say it; there, falling steps do (StepCounts.restarts).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa

from board.core.problems import Problem
from board.core.records import is_number
from board.formats import reader_named
from board.index.manifest import FileState, Manifest
from board.index.reading.file_steps import Restart
from board.index.repeat_keys import UNORDERED
from board.query.database import numbers_table

_MOST_COMPARED: Final = 256
"""More launches than this are in the order of their clocks: each is compared with every other one."""
_MOST_NAMED: Final = 64
"""Missing ranks beyond these are not named: the number of ranks is whatever a header says."""
_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Attempt:
    """One launch. start_step: first step it trains; world_size: how many ranks write; None: not said."""

    name: str
    started: float
    start_step: int | None
    world_size: int | None


@dataclass(frozen=True, slots=True)
class Written:
    """What an attempt wrote into one file: its first and last step, and when the file last changed, in
    ns by the clock of the file system.
    """

    first: int
    last: int
    mtime_ns: int


def attempts_of(
    headers: Sequence[Mapping[str, Any] | None],
) -> tuple[list[Attempt], list[str | None]]:
    """The attempts named in the headers, oldest first by what these say of the time, and the attempt of
    each file (None: unnamed).
    """
    attempts: dict[str, Attempt] = {}
    of_file: list[str | None] = []
    for header in headers:
        attempt = _attempt(header) if header is not None else None
        of_file.append(attempt.name if attempt else None)
        if attempt is not None:
            known = attempts.get(attempt.name, attempt)
            attempts[attempt.name] = min(known, attempt, key=lambda a: a.started)
    return sorted(attempts.values(), key=lambda a: (a.started, a.name)), of_file


def _attempt(header: Mapping[str, Any]) -> Attempt:
    return Attempt(
        str(header.get("attempt", "")),
        _number(header.get("started")) or 0.0,
        _whole(header.get("start_step")),
        _whole(header.get("world_size")),
    )


def _number(value: object) -> float | None:
    return float(value) if is_number(value) and math.isfinite(value) else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def resumed_in_order(
    attempts: Sequence[Attempt], written: Mapping[str, Sequence[Written]]
) -> list[Attempt]:
    """The attempts, oldest first, also where a machine's clock was wrong.

    attempts: in the order of the clocks of their machines; written: by name, of files with rollouts. An
    attempt that goes on in the middle of another's steps, or right after them, and that was last written
    after it, comes after it, whatever its own clock said. Two signs are needed, since each of them alone
    has another cause: a training begun again in the same folder, and files copied without their times.
    """
    if not 1 < len(attempts) <= _MOST_COMPARED:
        return list(attempts)
    spans = {
        name: Written(
            min(file.first for file in files),
            max(file.last for file in files),
            max(file.mtime_ns for file in files),
        )
        for name, files in written.items()
        if files
    }
    waiting, ordered = list(attempts), list[Attempt]()
    while waiting:
        # There is always one: who goes on from another starts at a later step than it.
        following = next(
            one for one in waiting if not any(_goes_on(one, other, spans) for other in waiting)
        )
        waiting.remove(following)
        ordered.append(following)
    return ordered


def _goes_on(later: Attempt, earlier: Attempt, spans: Mapping[str, Written]) -> bool:
    mine, theirs = spans.get(later.name), spans.get(earlier.name)
    if mine is None or theirs is None:
        return False
    start = mine.first if later.start_step is None else later.start_step
    begin = theirs.first if earlier.start_step is None else earlier.start_step
    return begin < start <= theirs.last + 1 and mine.mtime_ns > theirs.mtime_ns


class RunFiles:
    """The files of a run as an index has them, and what of each was written again.

    states: of the files, in the order of the run. number_of: the position of each in it, by id. attempts:
    oldest first; attempt_of: of each file the name of its own, None for none. counts: by id of a file its
    rollouts of each step; current_counts: those that were not written again.
    """

    def __init__(self, manifest: Manifest, order: Sequence[str]) -> None:
        positions = {path: number for number, path in enumerate(order)}
        states = [state for state in manifest.files if state.path in positions]
        self.states = sorted(states, key=lambda state: positions[state.path])
        self.number_of = {state.id: positions[state.path] for state in self.states}
        self.counts = {state.id: Counter[int]() for state in self.states}
        for state in self.states:
            for tally in state.all_tallies.values():
                self.counts[state.id].update(tally.counts())
        attempts, self.attempt_of = attempts_of([state.header for state in self.states])
        self.attempts = resumed_in_order(attempts, self._written()) if attempts else []
        self._from_step = dict[int, int]()
        """By id of a file the step from which on a later attempt wrote all of it again."""
        self._restarts = dict[tuple[int, int], Sequence[Restart]]()
        """By id of a file and rank where it began again, without a launch of its own."""
        self._find_rules()
        self.current_counts = {state.id: self._current_counts(state) for state in self.states}

    def _written(self) -> dict[str, list[Written]]:
        """By attempt, what it wrote into each of its files."""
        written: dict[str, list[Written]] = {}
        for state, name in zip(self.states, self.attempt_of, strict=True):
            counts = self.counts[state.id]
            if name is not None and counts:
                own = Written(min(counts), max(counts), state.mtime_ns)
                written.setdefault(name, []).append(own)
        return written

    def _find_rules(self) -> None:
        starts = self._starts()
        order = {attempt.name: number for number, attempt in enumerate(self.attempts)}
        for state, name in zip(self.states, self.attempt_of, strict=True):
            if name is not None:
                later = [start for start in starts[order[name] + 1 :] if start is not None]
                if later:
                    self._from_step[state.id] = min(later)
                for rank, counts in state.all_tallies.items():
                    self._restarts[state.id, rank] = counts.restarts_by(state.ended)
            elif reader_named(state.reader).repeats not in UNORDERED:
                for rank, counts in state.all_tallies.items():
                    self._restarts[state.id, rank] = counts.restarts()

    def _starts(self) -> list[int | None]:
        """The step each attempt begins at; where its header does not say, the first one it wrote."""
        first_steps: dict[str | None, int] = {}
        for state, name in zip(self.states, self.attempt_of, strict=True):
            if counts := self.counts[state.id]:
                first_steps[name] = min(first_steps.get(name, _NEVER), *counts)
        return [
            first_steps.get(attempt.name) if attempt.start_step is None else attempt.start_step
            for attempt in self.attempts
        ]

    def _current_counts(self, state: FileState) -> Counter[int]:
        counts = Counter[int]()
        for rank, of_rank in state.all_tallies.items():
            restarts = self._restarts.get((state.id, rank), ())
            counts.update(of_rank.visible(restarts, self._from_step.get(state.id)))
        return counts

    @property
    def has_ended(self) -> bool | None:
        """Whether every rank of the newest launch said that nothing more follows; None: files of this
        kind never say it.
        """
        if not self.attempts:
            return None
        newest = self.attempts[-1]
        files = zip(self.states, self.attempt_of, strict=True)
        own = [state for state, name in files if name == newest.name]
        closed = {state.rank for state in own if state.closed}
        return closed >= {state.rank for state in own} and len(closed) >= (newest.world_size or 1)

    @property
    def resumed_at(self) -> list[int]:
        """The steps, ascending, from which a later launch went on."""
        return sorted({start for start in self._starts()[1:] if start is not None})

    @property
    def restarted_at(self) -> list[int]:
        """The steps, ascending, from which a restart within a file went on that names no launch."""
        return sorted({one.step for several in self._restarts.values() for one in several})

    @property
    def written_again_by(self) -> str:
        """What wrote steps again, in words: "a resume" where a later launch is named."""
        return "a resume" if self._from_step else "a restart"

    @property
    def superseded_ranges(self) -> list[tuple[int, int | None, int, int]]:
        """What is superseded: id of a file, rank (NO_RANK: of rows without one; None: of any), the line
        before which, and the step from which on, rows of it are.
        """
        launches = [(number, None, _NEVER, step) for number, step in self._from_step.items()]
        restarts = (
            (number, rank, one.line, one.step)
            for (number, rank), several in self._restarts.items()
            for one in several
        )
        return [*launches, *restarts]

    @property
    def rules(self) -> dict[str, int]:
        """The rules as plain data: equal where the same rollouts are superseded of the same lines."""
        return {
            f"{number}" if rank is None else f"{number}/{rank}/{line}": step
            for number, rank, line, step in self.superseded_ranges
        }

    def superseded(self) -> Iterator[Problem]:
        """A note for each file of which rollouts are superseded; its count is how many."""
        for state in self.states:
            if hidden := self.counts[state.id] - self.current_counts[state.id]:
                by = "a resume" if state.id in self._from_step else "a restart"
                reason = f"steps {min(hidden)} to {max(hidden)} were written again by {by}"
                hint = "the later rollouts are shown; the earlier ones are only counted"
                yield Problem(state.path, None, "step", reason, hint, "note", hidden.total())

    def maybe_written_again(self) -> Iterator[Problem]:
        """A note for each file, of a format whose steps may come in any order, in which steps fall and
        come again whole: a restart looks like this, as do several logs in one file. None is superseded.
        """
        for state, name in zip(self.states, self.attempt_of, strict=True):
            if name is not None or reader_named(state.reader).repeats not in UNORDERED:
                continue
            restarts = [one for tally in state.all_tallies.values() for one in tally.restarts()]
            if restarts:
                first = min(restarts, key=lambda one: one.line)
                reason = f"steps come again from step {first.step} on"
                hint = (
                    "by a restart, or as several logs in one file: all are counted. A mapping file "
                    "(docs/own_format.md) makes the later ones replace the earlier"
                )
                yield Problem(state.path, first.line, "step", reason, hint, "note", len(restarts))

    def table(self, sides: Sequence[str]) -> pa.Table:
        """id, number, rank, side and path of each file. sides: by number the reader of each side."""
        of_reader = {reader: number for number, reader in enumerate(sides)}
        rows = [
            (state.id, self.number_of[state.id], state.rank, of_reader.get(state.reader, 0))
            for state in self.states
        ]
        # Names of files need not be UTF-8.
        paths = [state.path.encode("utf-8", "replace").decode() for state in self.states]
        return numbers_table(rows, ("id", "number", "rank", "side")).append_column("path", [paths])

    def newest_attempts(self, counts: Mapping[int, Counter[int]]) -> dict[int, Attempt | None]:
        """By step the newest attempt that wrote it, None for files that name none.

        counts: by id of a file its visible rollouts of each step.
        """
        numbers = {attempt.name: number for number, attempt in enumerate(self.attempts)}
        newest: dict[int, int] = {}
        for state, name in zip(self.states, self.attempt_of, strict=True):
            number = -1 if name is None else numbers[name]
            for step in counts[state.id]:
                newest[step] = max(newest.get(step, -1), number)
        return {step: None if n < 0 else self.attempts[n] for step, n in newest.items()}

    def missing_ranks(self, counts: Mapping[int, Counter[int]]) -> dict[int, tuple[int, ...]]:
        """By step the ranks that have not said that they wrote it, none where all have.

        Steps of files without a header, or whose header does not say how many ranks there are, are
        absent. counts: as of newest_attempts.
        """
        ended: dict[tuple[str, int], set[int]] = {}
        for state, name in zip(self.states, self.attempt_of, strict=True):
            if name is not None:
                for step in state.all_ended:
                    ended.setdefault((name, step), set()).add(state.rank or 0)
        missing_by_step: dict[int, tuple[int, ...]] = {}
        for step, attempt in self.newest_attempts(counts).items():
            if attempt is not None and attempt.world_size:
                known = ended.get((attempt.name, step), set[int]())
                missing = min(max(attempt.world_size - len(known), 0), _MOST_NAMED)
                absent = (r for r in range(attempt.world_size + len(known)) if r not in known)
                missing_by_step[step] = tuple(islice(absent, missing))
        return missing_by_step
