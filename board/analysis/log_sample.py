"""A look into the tokens of a few steps: enough to tell whether a log's arrays can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pandas as pd

from board.analysis.rollout_tokens import ReadTokens
from board.analysis.step_tokens import COLUMNS, StepReader
from board.core.findings.digest import Digest, digest
from board.query.open_run import Run

Progress = Callable[[int, int], None]
"""Called with rollouts done and rollouts in all; raising from it stops the reading."""

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
    found: list[Digest] = []
    for wanted, rows, count in chosen:
        before = done

        def report(now: int, _: int, before: int = before) -> None:
            if progress is not None:
                progress(before + now, total)

        tokens = reader.read(wanted, rows, report)
        n = len(tokens.indices)
        unknown = np.full(n, np.nan)
        found.append(digest(tokens, np.full(n, -1, np.int64), unknown, count))
        done += len(rows)
    return tuple(found)


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
