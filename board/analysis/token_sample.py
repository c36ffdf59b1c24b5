"""Samples of a run's tokens: within a budget for findings; of a few steps for their alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from board.analysis.step_tokens import COLUMNS, ReadTokens, StepReader
from board.core.arrays import IntArray
from board.core.findings.digest import Digest, digest
from board.core.sampling import evenly_spaced, step_ranges
from board.query import groups as run_groups
from board.query.open_run import Run

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes to read; raising from it stops the reading."""

_LEAST_STEPS: Final = 8
_LEAST_TRAITS: Final = 8
_COLUMNS: Final = (*COLUMNS, *run_groups.GROUP_COLUMNS)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of the token arrays is read. rollouts: of each step at most, whole groups evenly spread;
    steps: so many at most; bytes: of the log in all; steps evenly spread where either is not enough for
    all. traits: so many rollouts of the run at most are looked at as texts.
    """

    rollouts: int = 64
    traits: int = 8_000
    steps: int = 2048
    bytes: int = 256 << 20


class TokenSample:
    """Rollouts of a run within a budget."""

    def __init__(self, run: Run, budget: Budget, progress: Progress | None) -> None:
        """Raises UnreadableError."""
        self._run, self._budget, self._progress = run, budget, progress
        table = run.table(f"""
            SELECT step, count(*) AS rollouts, CAST(sum(size) AS DOUBLE) AS bytes
            FROM {run.view} WHERE {run.condition} GROUP BY step ORDER BY step
        """)
        steps, counts, sizes = (table[n].to_numpy() for n in ("step", "rollouts", "bytes"))
        each = sizes * np.minimum(budget.rollouts / counts, 1.0)
        share = min(1.0, budget.bytes / max(float(each.sum()), 1.0))
        count = max(int(len(steps) * share), min(len(steps), _LEAST_STEPS))
        count = min(count, budget.steps)
        places = evenly_spaced(len(steps), count)
        self._steps: list[int] = steps[places].tolist()
        self._total = int(each[places].sum())
        looked_at = max(budget.traits // max(count, 1), _LEAST_TRAITS)
        self._reader = StepReader(run, ReadTokens(roles=False, texts=True, traits=looked_at))
        self._done = 0

    def digests(self) -> Iterator[tuple[int, Digest]]:
        """Digests of the steps that are read, in ascending order."""
        for steps in step_ranges(self._run.counts):
            rows = self._run.frame(_COLUMNS, steps)
            yield from self._digests(rows[rows["step"].isin(self._steps)])

    def digests_of(self, steps: Iterable[int]) -> Iterator[tuple[int, Digest]]:
        """Digests of a few other steps."""
        for step in steps:
            yield from self._digests(self._run.frame(_COLUMNS, (step, step)))

    def _digests(self, rows: pd.DataFrame) -> Iterator[tuple[int, Digest]]:
        """Of all rollouts of some steps, in ascending order."""
        codes = run_groups.group_codes(rows)
        steps = rows["step"].to_numpy(np.int64)
        for own in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(steps)) + 1):
            if not len(own):
                continue
            # Groups are counted from 0 in the order of their first rollouts.
            groups, _ = pd.factorize(np.where(codes[own] < 0, np.nan, codes[own]))
            sample = _sample(groups, self._budget.rollouts)
            chosen = rows.iloc[own[sample]]
            tokens = self._reader.read(int(steps[own[0]]), chosen)
            read = np.searchsorted(chosen["index"].to_numpy(), tokens.indices)
            broken = tokens.numbers.get("broken", np.zeros(len(read)))
            self._done += int(chosen["size"].sum())
            if self._progress is not None:
                self._progress(min(self._done, self._total), self._total)
            yield tokens.step, digest(tokens, groups[sample][read], broken)


def _sample(groups: IntArray, most: int) -> IntArray:
    """Places of at most so many rollouts: whole groups, evenly spread, or evenly spread rollouts."""
    if len(groups) <= most or (groups < 0).any():
        return evenly_spaced(len(groups), most)
    size = np.bincount(groups)
    count = max(int(most // max(size.mean(), 1)), 1)
    return np.flatnonzero(np.isin(groups, evenly_spaced(len(size), count)))[:most]


STEPS: Final = 8
ROLLOUTS: Final = 32
"""At most so many steps, and rollouts of each: alignment is seen in a few hundred tokens."""
_BYTES: Final = 32 << 20


def sampled_digests(run: Run, step: int, progress: Progress | None = None) -> tuple[Digest, ...]:
    """Digests of up to STEPS steps, evenly spread, the given one among them, in ascending order.

    Of each, up to ROLLOUTS rollouts evenly spread; fewer of long ones, so that 32 MB are read at most.
    progress: called with steps done and steps in all.
    """
    reader = StepReader(run, ReadTokens(roles=False))
    steps = run.steps["step"].to_numpy(np.int64)
    chosen = sorted({*steps[evenly_spaced(len(steps), STEPS)].tolist(), step})
    results: list[Digest] = []
    for done, wanted in enumerate(chosen, start=1):
        rows = run.frame(COLUMNS, (wanted, wanted))
        usual = max(float(rows["size"].mean()), 1.0)
        most = int(np.clip(_BYTES / STEPS / usual, 1, ROLLOUTS))
        tokens = reader.read(wanted, rows.iloc[evenly_spaced(len(rows), most)])
        n = len(tokens.indices)
        results.append(digest(tokens, np.full(n, -1), np.full(n, np.nan)))
        if progress is not None:
            progress(done, len(chosen))
    return tuple(results)
