"""What was wrong with a log, as data: every line that could not be used, and every value left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

Severity = Literal["lost", "partial", "note"]
"""lost: the line or file is not shown. partial: the rollout is shown, a value of it is left out.
note: everything is shown, and the user should know how it was read."""


RUN_ITSELF: Final = "."
"""Path of problems that are of the run as a whole."""
MOST_KINDS: Final = 500
"""Kinds of problems of one file that are listed; a hostile file could have one for every line."""

MOST_LINES: Final = 1000
"""Lines of one kind of problem whose numbers are listed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One kind of trouble in one file.

    path: file, relative to the run's folder where possible.
    line: 1-based number of the first line concerned; None when the whole file is meant.
    field: key of the record concerned; None when the whole line is.
    reason: what was found. hint: what was expected, or what to do.
    count: how many lines. lines: their numbers, the first MOST_LINES that are known.
    """

    path: str
    line: int | None
    field: str | None
    reason: str
    hint: str = ""
    severity: Severity = "lost"
    count: int = 1
    lines: tuple[int, ...] = dataclasses.field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.lines and self.line is not None:
            object.__setattr__(self, "lines", (self.line,))

    @property
    def is_of_file(self) -> bool:
        """Whether a file beside the logs is meant, such as vocab.json, and no rollout of its own."""
        return self.severity == "partial" and self.line is None and self.field is None

    @property
    def where(self) -> str:
        """`path:line`, or the path alone."""
        return self.path if self.line is None else f"{self.path}:{self.line}"


class ProblemLog:
    """Collects problems, folding those with the same file, field and reason into one with a count.

    Of each file MOST_KINDS are listed, and the others are folded into one of each severity.
    """

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self._by_kind: dict[tuple[str, str | None, str], Problem] = {}
        self._kinds: dict[str, int] = {}
        for problem in problems:
            self.add(problem)

    def add(self, problem: Problem) -> None:
        """Adds one problem; of a kind that is known, the count grows."""
        kind = (problem.path, problem.field, problem.reason)
        known = self._by_kind.get(kind)
        if known is None and self._kinds.get(problem.path, 0) >= MOST_KINDS:
            reason = f"problems of more than {MOST_KINDS} other kinds ({problem.severity})"
            hint = "the first of them stands here"
            problem = replace(problem, field=None, reason=reason, hint=hint)
            kind = (problem.path, problem.field, problem.reason)
            known = self._by_kind.get(kind)
        if known is None:
            self._by_kind[kind] = problem
            self._kinds[problem.path] = self._kinds.get(problem.path, 0) + 1
            return
        lines, count = known.lines, known.count + problem.count
        if len(lines) < MOST_LINES or problem.line is None or problem.line < lines[-1]:
            lines = tuple(sorted({*lines, *problem.lines})[:MOST_LINES])
        first = lines[0] if lines else None
        self._by_kind[kind] = replace(known, count=count, line=first, lines=lines)

    def extend(self, problems: Iterable[Problem]) -> None:
        """Adds several problems."""
        for problem in problems:
            self.add(problem)

    def __iter__(self) -> Iterator[Problem]:
        order = {"lost": 0, "partial": 1, "note": 2}
        return iter(
            sorted(self._by_kind.values(), key=lambda p: (order[p.severity], p.path, p.line or 0))
        )

    def __len__(self) -> int:
        return len(self._by_kind)

    def as_tuple(self) -> tuple[Problem, ...]:
        """All problems, the worst first, then by file and line."""
        return tuple(self)


def count_of(problems: Iterable[Problem], severity: Severity) -> int:
    """Number of lines concerned by the problems of one severity."""
    return sum(p.count for p in problems if p.severity == severity)
