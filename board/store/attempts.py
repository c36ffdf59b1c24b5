"""Which launch of a training a rollout belongs to, and which rollouts a later launch replaced.

A training that is killed and resumed writes its last steps a second time. Files of the native format
say so in their headers: an attempt supersedes all earlier ones from its start_step on, whatever the
ranks. Append-only formats do not say it; there a file whose steps fall back and rise again through
steps it already holds was resumed at that point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.readers.base import Event

_MAX_RESTARTS: Final = 8
"""More falls of the step within one file than this are no restarts: its lines are in no order."""

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
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


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
    row_attempt = np.array([order.get(name or "", -1) for name in of_file], np.int64)[files]
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

    steps: in file order, [n]. A restart is a fall to a step that the file already holds. What stands
    before it at that step or later is superseded. A file with many falls is in no order at all
    (several ranks share it, or it was sorted by something else), and then nothing is.
    """
    superseded = np.zeros(len(steps), bool)
    falls = np.flatnonzero(np.diff(steps) < 0) + 1
    if len(falls) == 0 or len(falls) > _MAX_RESTARTS:
        return superseded
    for fall in falls:
        before = steps[:fall]
        if steps[fall] in before:
            superseded[:fall] |= before >= steps[fall]
    return superseded


def completeness(
    files: Sequence[Sequence[Event]],
    attempts: Sequence[Attempt],
    of_file: Sequence[str | None],
) -> dict[int, bool]:
    """By step: whether every rank of the attempt that owns it wrote its step_end line.

    Steps that no header covers are absent: not recorded.
    """
    ended: dict[tuple[str, int], set[int]] = {}
    for name, events in zip(of_file, files, strict=True):
        header = header_of(events)
        rank = _whole(header.get("rank")) or 0
        for event in events:
            step = _whole(event.data.get("step"))
            if event.kind == "step_end" and name is not None and step is not None:
                ended.setdefault((name, step), set()).add(rank)
    complete: dict[int, bool] = {}
    for attempt in attempts:  # oldest first, so that the attempt that owns a step decides last
        for (name, step), ranks in ended.items():
            if name == attempt.name and attempt.world_size:
                complete[step] = len(ranks) >= attempt.world_size
    return complete
