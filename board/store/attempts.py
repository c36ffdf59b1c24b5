"""Which launch of a training a rollout belongs to, and which rollouts a later launch replaced.

A training that is killed and resumed writes its last steps a second time. Files of the native format
say so in their headers: an attempt supersedes all earlier ones from its start_step on, whatever the
ranks. Append-only formats do not say it; there a file whose steps fall back and rise again through
steps it already holds was resumed at that point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.readers.base import Event

_MAX_RESTARTS: Final = 8
"""More falls of the step within one file than this are no restarts: its lines are in no order."""
_MIN_WRITTEN_AGAIN: Final = 0.5
"""A restart writes a step again whole. Where fewer rollouts than this share of those before the fall
follow it, ranks that share the file were out of step with each other."""

_NO_HEADER: Final[Mapping[str, Any]] = MappingProxyType({})

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One launch. start_step: first step it trains; world_size: how many ranks write; None: not said."""

    name: str
    started: float
    start_step: int | None
    world_size: int | None


def attempts_of(files: Sequence[Sequence[Event]]) -> tuple[list[Attempt], list[str | None]]:
    """The attempts named in the headers, oldest first, and the attempt of each file (None: unnamed)."""
    attempts: dict[str, Attempt] = {}
    of_file: list[str | None] = []
    for events in files:
        header = header_of(events)
        attempt = _attempt(header) if header else None
        of_file.append(attempt.name if attempt else None)
        if attempt is not None:
            known = attempts.get(attempt.name, attempt)
            earlier = min(known, attempt, key=lambda a: a.started)
            attempts[attempt.name] = earlier
    return sorted(attempts.values(), key=lambda a: (a.started, a.name)), of_file


def header_of(events: Sequence[Event]) -> Mapping[str, Any]:
    """What the header of a file says; empty when it has none."""
    return next((event.data for event in events if event.kind == "header"), _NO_HEADER)


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


def superseded_by_attempts(
    steps: IntArray, files: IntArray, attempts: Sequence[Attempt], of_file: Sequence[str | None]
) -> npt.NDArray[np.bool_]:
    """Rows that a later attempt wrote again; bool [n].

    steps, files: step and file number of each row, [n]. Rows of files without a header are kept.
    """
    superseded = np.zeros(len(steps), bool)
    if len(attempts) < 2:
        return superseded
    order = {attempt.name: i for i, attempt in enumerate(attempts)}
    row_attempt = _attempt_of_rows(files, order, of_file)
    for i, attempt in enumerate(attempts[1:], start=1):
        own = steps[row_attempt == i]
        start = attempt.start_step
        if start is None:
            if len(own) == 0:
                continue
            start = int(own.min())
        superseded |= (row_attempt >= 0) & (row_attempt < i) & (steps >= start)
    return superseded


def superseded_within_file(steps: IntArray) -> npt.NDArray[np.bool_]:
    """Rows of one append-only file that the same file wrote again after a restart; bool [n].

    steps: in file order, [n]. A restart is a fall to a step that the file already holds and that
    follows again whole. What stands before it at that step or later is superseded. A file with many
    falls, or with one that is no restart, is in no order (several ranks share it, or it was sorted by
    something else), and then nothing is.
    """
    superseded = np.zeros(len(steps), bool)
    falls = np.flatnonzero(np.diff(steps) < 0) + 1
    if len(falls) == 0 or len(falls) > _MAX_RESTARTS:
        return superseded
    for fall, end in zip(falls, [*falls[1:], len(steps)], strict=True):
        if steps[fall] not in steps[:fall]:
            continue
        still_being_written = end == len(steps) and steps[-1] == steps[fall]
        standing = steps[:fall][~superseded[:fall]]
        if not still_being_written and not _is_written_again(standing, steps[fall:end]):
            return np.zeros(len(steps), bool)
        superseded[:fall] |= steps[:fall] >= steps[fall]
    return superseded


def _is_written_again(before: IntArray, again: IntArray) -> bool:
    """Whether the first step of `again` is there whole, judged by its rollouts in `before`."""
    rollouts = np.count_nonzero(again == again[0])
    return bool(rollouts >= _MIN_WRITTEN_AGAIN * np.count_nonzero(before == again[0]))


def completeness(
    files: Sequence[Sequence[Event]],
    attempts: Sequence[Attempt],
    of_file: Sequence[str | None],
    steps: IntArray,
    row_files: IntArray,
) -> dict[int, bool]:
    """By step: whether every rank of the attempt that owns it wrote its step_end line.

    steps, row_files: step and file number of each rollout that is shown, [n]. The newest attempt among
    them owns a step. Steps of files without a header, or whose header does not say how many ranks
    there are, are absent: not recorded.
    """
    ended = _ended(files, of_file)
    order = {attempt.name: i for i, attempt in enumerate(attempts)}
    row_attempt = _attempt_of_rows(row_files, order, of_file)
    complete: dict[int, bool] = {}
    unique, of_row = np.unique(steps, return_inverse=True)
    owners = np.full(len(unique), -1, np.int64)
    np.maximum.at(owners, of_row, row_attempt)
    for step, owner in zip(unique.tolist(), owners.tolist(), strict=True):
        world_size = attempts[owner].world_size if owner >= 0 else None
        if world_size:
            ranks = ended.get((attempts[owner].name, step), ())
            complete[step] = len(ranks) >= world_size
    return complete


def _attempt_of_rows(
    files: IntArray, order: Mapping[str, int], of_file: Sequence[str | None]
) -> IntArray:
    """Number of each row's attempt, [n]; -1 where its file has no header."""
    numbers = [-1 if name is None else order[name] for name in of_file]
    return np.array(numbers, np.int64)[files]


def _ended(
    files: Sequence[Sequence[Event]], of_file: Sequence[str | None]
) -> dict[tuple[str, int], set[int]]:
    """By attempt and step: the ranks that wrote a step_end line."""
    ended: dict[tuple[str, int], set[int]] = {}
    for name, events in zip(of_file, files, strict=True):
        rank = _whole(header_of(events).get("rank")) or 0
        for event in events:
            step = _whole(event.data.get("step"))
            if event.kind == "step_end" and name is not None and step is not None:
                ended.setdefault((name, step), set()).add(rank)
    return ended
