"""Samples of a run's tokens: within a budget for findings; of a few steps for their alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.analysis.rollout_tokens import ReadTokens
from board.analysis.step_tokens import COLUMNS, StepReader
from board.core.findings.digest import Digest, digest
from board.query import groups as run_groups
from board.query.open_run import Run
from board.query.run_rows import step_ranges

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes to read; raising from it stops the reading."""

_LEAST_STEPS: Final = 8
_COLUMNS: Final = (*COLUMNS, *run_groups.GROUP_COLUMNS)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of the token arrays is read. rollouts: of each step at most, whole groups evenly spread;
    bytes: of the log in all; steps evenly spread where that is not enough for all.
    """

    rollouts: int = 64
    bytes: int = 256 << 20


class TokenSample:
    """Rollouts of a run within a budget. steps: in ascending order, those that are read."""

    def __init__(self, run: Run, budget: Budget, progress: Progress | None) -> None:
        """Raises UnreadableError."""
        self._run, self._budget, self._progress = run, budget, progress
        self._reader = StepReader(run, ReadTokens(roles=False, texts=True))
        steps, counts, sizes = _sizes(run)
        each = sizes * np.minimum(budget.rollouts / counts, 1.0)
        share = min(1.0, budget.bytes / max(float(each.sum()), 1.0))
        count = max(int(len(steps) * share), min(len(steps), _LEAST_STEPS))
        places = np.unique(np.linspace(0, len(steps) - 1, count).round().astype(int))
        self.steps: list[int] = steps[places].tolist()
        self._total = int(each[places].sum())
        self._done = 0

    def digests(self) -> Iterator[tuple[int, Digest]]:
        """Digests of the steps, in ascending order."""
        wanted = frozenset(self.steps)
        for steps in step_ranges(self._run.counts):
            yield from self._digests(self._run.rows_of_steps(steps, _COLUMNS), wanted)

    def digests_of(self, steps: Iterable[int]) -> Iterator[tuple[int, Digest]]:
        """Digests of a few other steps."""
        for step in steps:
            yield from self._digests(self._run.rows_of(step, _COLUMNS), frozenset((step,)))

    def _digests(self, rows: pd.DataFrame, wanted: frozenset[int]) -> Iterator[tuple[int, Digest]]:
        """Of the wanted ones among whole steps."""
        codes, sizes = run_groups.group_codes(rows), rows["size"].to_numpy(np.int64)
        groups = np.full(len(rows), -1, np.int64)
        samples: list[npt.NDArray[np.intp]] = []
        steps, firsts = np.unique(rows["step"].to_numpy(np.int64), return_index=True)
        ends: list[int] = [*firsts[1:].tolist(), len(rows)]
        total: dict[int, int] = {}
        for step, first, end in zip(steps.tolist(), firsts.tolist(), ends, strict=True):
            if step in wanted:
                groups[first:end] = _numbered(codes[first:end])
                samples.append(first + _sample(groups[first:end], self._budget.rollouts))
                total[step] = end - first
        if not samples:
            return
        chosen = rows.iloc[np.concatenate(samples)]
        for sample, tokens in zip(samples, self._reader.steps(chosen), strict=True):
            indices = rows["index"].to_numpy(np.int64)[sample]
            own = groups[sample][np.searchsorted(indices, tokens.indices)]
            broken = tokens.numbers.get("broken", np.zeros(len(tokens.indices)))
            self._report(int(sizes[sample].sum()))
            yield tokens.step, digest(tokens, own, broken, total[tokens.step])

    def _report(self, size: int) -> None:
        """Tells that so many bytes more were read."""
        self._done += size
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


def _sizes(
    run: Run,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """[steps] in ascending order: the step, its rollouts, and their bytes in the log."""
    selection = run.selection
    table = selection.table(f"""
        SELECT step, count(*) AS rollouts, CAST(sum(size) AS DOUBLE) AS bytes
        FROM {selection.view} WHERE {selection.condition} GROUP BY step ORDER BY step
    """)
    steps, rollouts, sizes = (table[name].to_numpy() for name in ("step", "rollouts", "bytes"))
    return steps, rollouts, sizes


def _numbered(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[rollouts] groups counted from 0 in the order of their first rollouts, -1 where there is none."""
    results = np.full(len(codes), -1, np.int64)
    results[codes >= 0] = pd.factorize(codes[codes >= 0])[0]
    return results


def _sample(groups: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.intp]:
    """Places of at most so many rollouts: whole groups, evenly spread, or evenly spread rollouts."""
    if len(groups) <= most:
        return np.arange(len(groups))
    if (groups < 0).any():
        return np.linspace(0, len(groups) - 1, most).round().astype(np.intp)
    size = np.bincount(groups)
    count = max(int(most // max(size.mean(), 1)), 1)
    wanted = np.linspace(0, len(size) - 1, min(count, len(size))).round().astype(np.int64)
    return np.flatnonzero(np.isin(groups, wanted))[:most].astype(np.intp)


STEPS: Final = 8
ROLLOUTS: Final = 32
"""At most so many steps, and rollouts of each: alignment is seen in a few hundred tokens."""
_BYTES: Final = 32 << 20


def sampled_digests(run: Run, step: int, progress: Progress | None = None) -> tuple[Digest, ...]:
    """Digests of up to STEPS steps, evenly spread, the given one among them, in ascending order.

    Of each, up to ROLLOUTS rollouts evenly spread; fewer of long ones, so that 32 MB are read at most.
    """
    reader = StepReader(run, ReadTokens(roles=False))
    chosen = [_rows(run, wanted) for wanted in _steps(run, step)]
    total, done = sum(len(rows) for _, rows, _ in chosen), 0
    results: list[Digest] = []
    for wanted, rows, count in chosen:
        before = done

        def report(now: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress(before + now, total)

        tokens = reader.read(wanted, rows, report)
        n = len(tokens.indices)
        unknown = np.full(n, np.nan)
        results.append(digest(tokens, np.full(n, -1, np.int64), unknown, count))
        done += len(rows)
    return tuple(results)


def _steps(run: Run, step: int) -> list[int]:
    steps = run.steps["step"].to_numpy(np.int64)
    places = np.linspace(0, len(steps) - 1, min(len(steps), STEPS)).round().astype(int)
    return sorted({*steps[places].tolist(), step})


def _rows(run: Run, step: int) -> tuple[int, pd.DataFrame, int]:
    """The step, the rows of it that are read, and how many it has."""
    rows = run.rows_of(step, COLUMNS)
    usual = max(float(rows["size"].mean()), 1.0)
    most = int(np.clip(_BYTES / STEPS / usual, 1, ROLLOUTS))
    places = np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(int)
    return step, rows.iloc[np.unique(places)], len(rows)
