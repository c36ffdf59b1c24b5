"""Steps by how many rollouts they have: cut into ranges that are read at once, and less by some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from board.index.table_files import StepRange

_AT_ONCE: Final = 250_000
"""Rows of a range, if no step has more."""


def chunks(counts: Mapping[int, int]) -> Iterator[StepRange]:
    """Ranges of whole steps, of a bounded number of rows if no step has more."""
    steps, held = list(counts), 0
    first = steps[0] if steps else 0
    for number, step in enumerate(steps):
        held += counts[step]
        if held >= _AT_ONCE or number == len(steps) - 1:
            yield first, step
            first, held = step + 1, 0


def without(counts: list[tuple[int, int]], less: Mapping[int, int]) -> list[tuple[int, int]]:
    """The counts, less by so many at each step, whichever of its entries has them."""
    rest = dict(less)
    kept: list[tuple[int, int]] = []
    for step, count in counts:
        taken = min(count, rest.get(step, 0))
        rest[step] = rest.get(step, 0) - taken
        kept.append((step, count - taken))
    return kept
