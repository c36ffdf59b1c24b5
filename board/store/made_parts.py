"""What an index would keep of the steps of a narrowed or capped run, made of its rollouts."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeStubs=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa

from board.store import step_parts

if TYPE_CHECKING:
    from board.store.opened_run import Run


def made_part(run: Run, kind: str) -> pa.Table | None:
    """One of step_parts.KINDS of all steps of the run, in ascending order; None without a rollout."""

    def same(steps: Sequence[int]) -> pd.DataFrame:
        rows = [run.rows_of(step, step_parts.SAME) for step in steps]
        return pd.concat(rows, ignore_index=True)

    batch = run.batch if kind == "checks" else None
    checks = None if batch is None else batch.part("checks", ("step", "spread"))
    tables: list[pa.Table] = []
    for rows in run.pieces(step_parts.columns_of(kind, run.metrics)):
        steps = rows["step"].to_numpy(np.int64)
        spread = None if checks is None else step_parts.spread_of(steps, checks)
        tables.append(step_parts.part_of(kind, rows, run.metrics, same, spread))
    return step_parts.loaded(tables)
