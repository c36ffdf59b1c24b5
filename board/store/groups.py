"""A step's groups and a run's environments, from its index alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from board.core.environments import EnvCurves, curves_from
from board.core.groups import Grid, grid
from board.errors import ChoiceError
from board.store.group_ids import group_names
from board.store.run import Run


def step_grid(run: Run, step: int, column: str = "reward") -> tuple[Grid, list[str]]:
    """A step's groups x rollouts, and the groups' names row by row. Grid.rows are places in run.of_step.

    Raises NotFoundError for a step and ChoiceError for a column that is not there.
    """
    run.row(step, 0)
    rows = run.of_step(step)
    for name in ("group_id", column):
        if name not in rows:
            raise ChoiceError(f"{run.info.name} has no column {name!r}")
    called = group_names(rows)
    codes, names = pd.factorize(called.where(called != ""))
    values = rows[column].to_numpy(np.float64, na_value=np.nan)
    found = grid(codes.astype(np.int64), values)
    return found, [str(names[code]) for code in found.codes.tolist()]


def environment_curves(run: Run, column: str = "reward") -> EnvCurves:
    """Means of a metric by step and env; "step": how many rollouts there are. Raises ChoiceError where
    the run has no such metric.
    """
    if column not in ("step", *run.metrics):
        raise ChoiceError(f"{run.info.name} has no column {column!r} that makes a curve")
    counted = column == "step"
    known, summed = ("rollouts", "step") if counted else (f"{column}:known", f"{column}:sum")
    table = run.part("envs", tuple(dict.fromkeys(("step", "env", known, summed))))
    if table is None:
        none = np.zeros(0, np.int64)
        return curves_from(none, none, (), np.zeros(0), none)
    steps, (envs, names) = table.column("step").to_numpy(), _names(table.column("env"))
    counts, sums = (table.column(name).fill_null(0).to_numpy() for name in (known, summed))
    if counted:
        sums = steps * counts
    return curves_from(steps, envs, names, sums, counts)


def _names(texts: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Places in the names, -1 for none, and the names in their order."""
    names = sorted(name for name in pc.unique(texts).to_pylist() if name is not None)
    codes = pc.index_in(texts, pa.array(names, pa.string())).fill_null(-1)
    return codes.to_numpy().astype(np.int64), names
