"""Curves of a metric by environment."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from board.core.groups.environments import EnvCurves, curves_from
from board.errors import ChoiceError
from board.query.run import Run


def environment_curves(run: Run, column: str = "reward") -> EnvCurves:
    """Means of a metric by step and environment; "step": how many rollouts there are.

    Raises ChoiceError where the run has no such metric, UnreadableError.
    """
    if column not in ("step", *run.metrics):
        raise ChoiceError(f"{run.info.name} has no column {column!r} that makes a curve")
    selection = run.selection
    table = selection.table(f"""
        SELECT step, env, count(value) AS rollouts, coalesce(sum(value), 0) AS total
        FROM (
            SELECT step, {selection.column("env")} AS env,
                CAST({selection.column(column)} AS DOUBLE) AS value
            FROM {selection.view} WHERE {selection.condition})
        GROUP BY step, env ORDER BY step, env
    """)
    steps, sums, counts = (table[name].to_numpy() for name in ("step", "total", "rollouts"))
    names = sorted(pc.unique(table["env"]).drop_null().to_pylist())
    codes = pc.index_in(table["env"], pa.array(names, pa.string())).fill_null(-1)
    return curves_from(steps, codes.to_numpy().astype(np.int64), names, sums, counts)
