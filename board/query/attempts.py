"""Which launch of a training a rollout belongs to, and which rollouts a later launch replaced.

A training that is killed and resumed writes its last steps a second time. Files of the native format
say so in their headers: an attempt supersedes all earlier ones from its start_step on, whatever the
ranks. Append-only formats do not say it; what is known of them is in `store.tally`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

_MOST_COMPARED: Final = 256
"""More launches than this are in the order of their clocks: each is compared with every other one."""
_MOST_NAMED: Final = 64
"""Missing ranks beyond these are not named: the number of ranks is whatever a header says."""


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
            earlier = min(known, attempt, key=lambda a: a.started)
            attempts[attempt.name] = earlier
    return sorted(attempts.values(), key=lambda a: (a.started, a.name)), of_file


def _attempt(header: Mapping[str, Any]) -> Attempt:
    return Attempt(
        str(header.get("attempt", "")),
        _number(header.get("started")) or 0.0,
        _whole(header.get("start_step")),
        _whole(header.get("world_size")),
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _whole(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def resumed_in_order(
    attempts: Sequence[Attempt], written: Mapping[str, Sequence[Written]]
) -> list[Attempt]:
    """The attempts, oldest first, where a machine's clock was wrong as well.

    attempts: in the order of the clocks of their machines; written: by name, of files with rollouts. An
    attempt that goes on in the middle of another's steps, or right after them, and that was last written
    after it, comes after it, whatever its own clock said. Two signs are needed, since each of them alone
    has another cause: a training begun anew in the same folder, and files copied without their times.
    """
    if not 1 < len(attempts) <= _MOST_COMPARED:
        return list(attempts)
    spans = {name: _span(files) for name, files in written.items() if files}
    waiting, ordered = list(attempts), list[Attempt]()
    while waiting:
        # There is always one: who goes on from another starts at a later step than it.
        following = next(
            one for one in waiting if not any(_goes_on(one, other, spans) for other in waiting)
        )
        waiting.remove(following)
        ordered.append(following)
    return ordered


def _span(files: Sequence[Written]) -> Written:
    return Written(
        min(file.first for file in files),
        max(file.last for file in files),
        max(file.mtime_ns for file in files),
    )


def _goes_on(later: Attempt, earlier: Attempt, spans: Mapping[str, Written]) -> bool:
    mine, theirs = spans.get(later.name), spans.get(earlier.name)
    if mine is None or theirs is None:
        return False
    start, begin = (
        span.first if one.start_step is None else one.start_step
        for one, span in ((later, mine), (earlier, theirs))
    )
    return begin < start <= theirs.last + 1 and mine.mtime_ns > theirs.mtime_ns


def growing_steps(
    attempts: Sequence[Attempt],
    shown: Mapping[int, int],
    ended: Mapping[tuple[str, int], set[int]],
) -> dict[int, tuple[int, ...]]:
    """By step: the ranks that have not said that they wrote it, none where all have.

    shown: by step the number, in `attempts`, of the newest attempt that is shown there (-1: of files
    without a header). ended: by attempt and step, the ranks that wrote its step_end line. Steps of
    files without a header, or whose header does not say how many ranks there are, are absent: not
    recorded.
    """
    found: dict[int, tuple[int, ...]] = {}
    for step, number in shown.items():
        world_size = attempts[number].world_size if number >= 0 else None
        if world_size:
            there = ended.get((attempts[number].name, step), set[int]())
            missing = max(world_size - len(there), 0)
            absent = (rank for rank in range(world_size + len(there)) if rank not in there)
            found[step] = tuple(islice(absent, min(missing, _MOST_NAMED)))
    return found
