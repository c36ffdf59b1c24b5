"""The groups of a run, from its index alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false
# pyarrow ships without types.

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.groups.advantages import Told, told
from board.core.groups.statistics import Grid, Groups, StepGroups, by_step, grid, outcomes_of
from board.core.metrics.kl import FloatArray
from board.errors import ChoiceError
from board.index import group_ids
from board.query.advantages import advantage_fit, expected_advantages
from board.query.correctness import counts_of_right, right_column
from board.query.open_run import Run
from board.query.stored_rows import numbers

IntArray = npt.NDArray[np.int64]

_OF_STEP: Final = ("reward", "advantage", *group_ids.COLUMNS)


@dataclass(frozen=True, slots=True)
class StepRollouts:
    """The rollouts of one step, [n] each. groups: place of each one's group in RunGroups.groups, -1 for
    none; names: of the groups, empty for none.
    """

    indices: IntArray
    rewards: FloatArray
    advantages: FloatArray
    groups: IntArray
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StepFit:
    """told: of the whole run. expected, differs: [rollouts] of the one step; see expected_advantages."""

    told: Told
    expected: FloatArray
    differs: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RunGroups:
    """groups: of all steps. right_by: the column that says what is right; None: the
    highest reward.
    """

    run: Run
    groups: Groups
    right_by: str | None

    @cached_property
    def by_step(self) -> StepGroups:
        """The groups of each step."""
        return by_step(self.groups)

    def of(self, step: int) -> StepRollouts:
        """The rollouts of a step."""
        rows = self.run.rows_of(step, _OF_STEP)
        return StepRollouts(
            rows["index"].to_numpy(np.int64),
            numbers(rows, "reward"),
            numbers(rows, "advantage"),
            places_of(self.groups, step, rows),
            tuple(group_ids.group_names(rows).tolist()),
        )

    def fit(self, step: int) -> StepFit | None:
        """Recorded advantages of a step against recomputed ones; None where none is recorded."""
        counts = advantage_fit(self.run)
        if counts is None or not np.isfinite(self.of(step).advantages).any():
            return None
        fit = told(counts)
        return StepFit(fit, *expected_advantages(self.run, step, fit.closest))


def places_of(groups: Groups, step: int, rows: pd.DataFrame) -> IntArray:
    """[rows] of a step: the place of each one's group in the groups of the run, -1 for none."""
    codes = group_ids.group_codes(rows)
    known = codes >= 0
    _, order = np.unique(codes[known], return_inverse=True)
    found = np.full(len(rows), -1, np.int64)
    found[known] = int(np.searchsorted(groups.steps, step)) + order
    return found


def groups_of_run(run: Run) -> Groups | None:
    """The groups of all steps; None where the run has no group_id or no reward.

    Raises UnreadableError.
    """
    if not {"group_id", "reward"} <= {*run.columns} or not run.counts:
        return None
    return run.remembered("groups", lambda: _groups_of_run(run))


def _groups_of_run(run: Run) -> Groups:
    selection = run.selection
    table = selection.table(f"""
        WITH rollouts AS NOT MATERIALIZED (
            SELECT step, group_id, {selection.split_value} AS split,
                {selection.column("reward")} AS reward,
                {selection.column(right_column(run) or "reward")} AS score
            FROM {selection.view} WHERE {selection.condition}),
        ends AS (SELECT min(score) AS lowest, max(score) AS highest FROM rollouts)
        SELECT step, count(*) AS size, count(reward) AS scored, avg(reward) AS mean,
            count(reward) >= 2 AND min(reward) = max(reward) AS equal, {counts_of_right(run)}
        FROM rollouts CROSS JOIN ends WHERE group_id IS NOT NULL
        GROUP BY step, group_id, split ORDER BY step, group_id, split
    """)
    held = {name: table[name].to_numpy() for name in table.column_names}
    judged, scored = held["judged"], held["scored"]
    right = np.where(judged > 0, held["right"], np.nan)
    return Groups(
        held["step"],
        np.arange(len(scored)),
        held["size"],
        scored,
        right,
        judged,
        outcomes_of(scored, held["equal"], judged, right),
        held["mean"],
    )


def run_groups(run: Run) -> RunGroups | None:
    """The groups of all steps; None where the run has no group_id or no reward."""
    groups = groups_of_run(run)
    return None if groups is None else RunGroups(run, groups, right_column(run))


def step_grid(run: Run, step: int, column: str = "reward") -> tuple[Grid, list[str]]:
    """A step's groups x rollouts, and the groups' names row by row. Grid.rows are places in run.of_step.

    Raises NotFoundError for a step and ChoiceError for a column that is not there.
    """
    run.row(step, 0)
    rows = run.of_step(step)
    for name in ("group_id", column):
        if name not in rows:
            raise ChoiceError(f"{run.info.name} has no column {name!r}")
    called = group_ids.group_names(rows)
    codes, names = pd.factorize(called.where(called != ""))
    values = rows[column].to_numpy(np.float64, na_value=np.nan)
    found = grid(codes.astype(np.int64), values)
    return found, [str(names[code]) for code in found.codes.tolist()]
