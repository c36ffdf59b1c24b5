"""What of a log a later attempt or a restart wrote again: those rollouts are superseded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from board.core.problems import Problem
from board.formats import reader_named
from board.index.manifest import FileState
from board.index.reading.file_steps import Restart
from board.query.attempts import Attempt

_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _Rules:
    """What of a file is superseded: all from a step on, and what its restarts wrote again, by rank."""

    from_step: int | None
    restarts: Mapping[int, tuple[Restart, ...]]

    @property
    def hides_nothing(self) -> bool:
        return self.from_step is None and not any(self.restarts.values())


class Superseded:
    """The rules of a run. files: of the index; attempts: in their order; attempt_of: of each file the
    name of its attempt, None for none.
    """

    def __init__(
        self,
        files: Sequence[FileState],
        attempts: Sequence[Attempt],
        attempt_of: Sequence[str | None],
    ) -> None:
        self._files = files
        self._attempts = attempts
        self._attempt_of = attempt_of
        self._rules = dict(zip((s.id for s in files), self._find_rules(), strict=True))

    def _find_rules(self) -> Iterator[_Rules]:
        starts = self._starts()
        order = {attempt.name: number for number, attempt in enumerate(self._attempts)}
        for state, name in zip(self._files, self._attempt_of, strict=True):
            if name is None:
                in_order = reader_named(state.reader).repeats != "unique_id"
                tallies = state.all_tallies if in_order else {}
                yield _Rules(None, {rank: tally.restarts() for rank, tally in tallies.items()})
            else:
                later = [start for start in starts[order[name] + 1 :] if start is not None]
                yield _Rules(min(later, default=None), {})

    def _starts(self) -> list[int | None]:
        """The step each attempt begins at; where its header does not say, the first one it wrote."""
        return [
            a.start_step if a.start_step is not None else self._first_of(a) for a in self._attempts
        ]

    def _first_of(self, attempt: Attempt) -> int | None:
        steps = [
            tally.counts()[0][0]
            for state, name in zip(self._files, self._attempt_of, strict=True)
            if name == attempt.name
            for tally in state.all_tallies.values()
        ]
        return min(steps, default=None)

    @property
    def resumed_at(self) -> list[int]:
        """The steps, ascending, from which a later launch or a restart within a file went on."""
        launches = [start for start in self._starts()[1:] if start is not None]
        restarts = (
            r.step for rules in self._rules.values() for of in rules.restarts.values() for r in of
        )
        return sorted({*launches, *restarts})

    @property
    def as_plain(self) -> dict[str, int]:
        """The rules as plain data: equal where the same rollouts are superseded of the same lines."""
        found: dict[str, int] = {}
        for number, rules in self._rules.items():
            if rules.from_step is not None:
                found[f"{number}"] = rules.from_step
            for rank, restarts in rules.restarts.items():
                found |= {f"{number}/{rank}/{r.line}": r.step for r in restarts}
        return found

    @cached_property
    def standing(self) -> tuple[tuple[FileState, list[tuple[int, int]]], ...]:
        """For each file the other rollouts of each step; a step comes once for each of its ranks."""
        return tuple((state, [*self._standing_of(state)]) for state in self._files)

    def _standing_of(self, state: FileState) -> Iterator[tuple[int, int]]:
        rules = self._rules[state.id]
        for rank, tally in state.all_tallies.items():
            yield from tally.shown(rules.restarts.get(rank, ()), rules.from_step)

    def notes(self) -> Iterator[tuple[Problem, int]]:
        """A note for each file of which rollouts are superseded, with how many there are."""
        for state, shown in self.standing:
            if self._rules[state.id].hides_nothing:
                continue
            hidden = dict[int, int]()
            for tally in state.all_tallies.values():
                for step, count in tally.counts():
                    hidden[step] = hidden.get(step, 0) + count
            for step, count in shown:
                hidden[step] -= count
            steps = [step for step, count in hidden.items() if count]
            if steps:
                count = sum(hidden.values())
                reason = f"steps {min(steps)} to {max(steps)} were written again after a resume"
                hint = "the later rollouts are shown; the earlier ones are only counted"
                yield Problem(state.path, None, "step", reason, hint, "note", count), count

    def ranges(self) -> Iterator[tuple[int, int | None, int, int]]:
        """What is superseded, as ranges: id of a file, rank (NO_RANK: of rows that name none; None: of
        any), the line before which, and the step from which on, rows of it are.
        """
        for number, rules in self._rules.items():
            if rules.from_step is not None:
                yield number, None, _NEVER, rules.from_step
            for rank, restarts in rules.restarts.items():
                yield from ((number, rank, restart.line, restart.step) for restart in restarts)
