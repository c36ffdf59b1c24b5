"""Which rollouts of which steps findings read the tokens of, and what the tokens of each step say."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
# pyarrow ships without types.

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
from board.index import group_ids
from board.index.step_counts import chunks
from board.query.open_run import Run
from board.query.selection import selection_of

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes to read; raising from it stops the reading."""

_LEAST_STEPS: Final = 8
_COLUMNS: Final = (*COLUMNS, *group_ids.COLUMNS)


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
        for steps in chunks(self._run.counts):
            yield from self._digests(self._run.rows_of_steps(steps, _COLUMNS), wanted)

    def digests_of(self, steps: Iterable[int]) -> Iterator[tuple[int, Digest]]:
        """Digests of a few other steps."""
        for step in steps:
            yield from self._digests(self._run.rows_of(step, _COLUMNS), frozenset((step,)))

    def _digests(self, rows: pd.DataFrame, wanted: frozenset[int]) -> Iterator[tuple[int, Digest]]:
        """Of the wanted ones among whole steps."""
        codes, sizes = group_ids.group_codes(rows), rows["size"].to_numpy(np.int64)
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
    selection = selection_of(run)
    table = selection.table(f"""
        SELECT step, count(*) AS rollouts, CAST(sum(size) AS DOUBLE) AS bytes
        FROM {selection.view} WHERE {selection.condition} GROUP BY step ORDER BY step
    """)
    steps, rollouts, sizes = (table[name].to_numpy() for name in ("step", "rollouts", "bytes"))
    return steps, rollouts, sizes


def _numbered(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[rollouts] groups counted from 0 in the order of their first rollouts, -1 where there is none."""
    found = np.full(len(codes), -1, np.int64)
    found[codes >= 0] = pd.factorize(codes[codes >= 0])[0]
    return found


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
