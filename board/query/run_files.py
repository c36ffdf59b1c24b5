"""The files of a run as an index knows them, and which launch of the training wrote each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from board.index.manifest import FileState, Manifest
from board.query.attempts import Attempt, Written, attempts_of, resumed_in_order
from board.query.superseded import Superseded


@dataclass(frozen=True, slots=True)
class RunFiles:
    """files: in the order of the run; number_of: the place of each in it, by its id. attempts: oldest
    first; attempt_of: of each file the name of its own, None for none.
    """

    files: Sequence[FileState]
    number_of: dict[int, int]
    attempts: Sequence[Attempt]
    attempt_of: Sequence[str | None]
    superseded: Superseded

    @classmethod
    def of(cls, manifest: Manifest, order: Sequence[str]) -> Self:
        """Those of an index that the order of their paths names."""
        places = {path: number for number, path in enumerate(order)}
        files = [state for state in manifest.files if state.path in places]
        files.sort(key=lambda state: places[state.path])
        attempts, attempt_of = attempts_of([state.header for state in files])
        if attempts:
            attempts = resumed_in_order(attempts, _written(files, attempt_of))
        number_of = {state.id: places[state.path] for state in files}
        superseded = Superseded(files, attempts, attempt_of)
        return cls(files, number_of, attempts, attempt_of, superseded)


def _written(
    files: Sequence[FileState], attempt_of: Sequence[str | None]
) -> dict[str, list[Written]]:
    """By attempt, what it wrote into each of its files."""
    found: dict[str, list[Written]] = {}
    for state, name in zip(files, attempt_of, strict=True):
        steps = [step for tally in state.all_tallies.values() for step in tally.ends]
        if name is not None and steps:
            found.setdefault(name, []).append(Written(min(steps), max(steps), state.mtime_ns))
    return found
