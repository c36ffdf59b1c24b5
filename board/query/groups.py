"""The groups of a run, from its index alone."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false
# pyarrow ships without types.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from board.core.advantages import CONVENTIONS, FitCounts, Told, by_convention, told
from board.core.group_sums import groups_from
from board.core.groups import Grid, Groups, StepGroups, by_step, grid, groups_of, right_part
from board.core.kl import FloatArray
from board.core.metrics import REWARD_PART
from board.errors import ChoiceError
from board.store import group_ids
from board.store.kept_sums import sums_columns, sums_from
from board.store.run import Run
from board.store.step_parts import numbers

IntArray = npt.NDArray[np.int64]

_OF_STEP: Final = ("reward", "advantage", *group_ids.COLUMNS)
_BY_CONVENTION: Final = ("hits", "differs", "furthest")


def right_column(run: Run) -> str | None:
    """The column of the reward part that says whether an answer is right; None where none does."""
    parts = [c.removeprefix(REWARD_PART) for c in run.columns if c.startswith(REWARD_PART)]
    found = right_part(parts)
    return None if found is None else f"{REWARD_PART}{found}"


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
    """told: of the whole run. expected, differs: [rollouts] of the one step; see by_convention."""

    told: Told
    expected: FloatArray
    differs: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class RunGroups:
    """groups: of all steps, without `of_row`. right_by: the column that says what is right; None: the
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
        own = self.of(step)
        if self._fits is None or not np.isfinite(own.advantages).any():
            return None
        counts, fit = self._fits
        groups = groups_of(np.full(len(own.groups), step), own.groups, own.rewards)
        spread = counts.spread_at(step, len(own.groups))
        expected = by_convention(fit.closest, own.rewards, own.advantages, groups, spread)
        return StepFit(fit, *expected)

    @cached_property
    def _fits(self) -> tuple[FitCounts, Told] | None:
        """By whole steps, evenly spread; None where no advantage is recorded."""
        table = self.run.part("checks", fit_columns())
        counts = None if table is None else fit_from(table)
        return None if counts is None else (counts, told(counts))


def places_of(groups: Groups, step: int, rows: pd.DataFrame) -> IntArray:
    """[rows] of a step: the place of each one's group in the groups of the run, -1 for none."""
    codes = group_ids.group_codes(rows)
    known = codes >= 0
    _, order = np.unique(codes[known], return_inverse=True)
    found = np.full(len(rows), -1, np.int64)
    found[known] = int(np.searchsorted(groups.steps, step)) + order
    return found


def groups_of_run(run: Run) -> Groups | None:
    """The groups of all steps, without `of_row`; None where the run has no group_id or no reward."""
    if "group_id" not in run.columns or "reward" not in run.columns:
        return None
    part = right_column(run)
    table = run.part("groups", sums_columns(part))
    if table is None:
        return None
    codes = np.arange(table.num_rows)
    return groups_from(sums_from(table, codes, part), part)


def run_groups(run: Run) -> RunGroups | None:
    """The groups of all steps; None where the run has no group_id or no reward."""
    groups = groups_of_run(run)
    return None if groups is None else RunGroups(run, groups, right_column(run))


def fit_columns() -> tuple[str, ...]:
    """Columns of the checks that `fit_from` takes."""
    return (
        "step",
        "telling",
        "spread",
        *(f"{c}:{name}" for c in _BY_CONVENTION for name in CONVENTIONS),
    )


def fit_from(table: pa.Table) -> FitCounts | None:
    """How the advantages of each step fit; None where none is recorded."""
    if "telling" not in table.column_names:
        return None
    known = table.filter(table.column("telling").is_valid())

    def by_name(kind: str) -> Mapping[str, npt.NDArray[Any]]:
        return {name: known.column(f"{kind}:{name}").to_numpy() for name in CONVENTIONS}

    held = (known.column(name).to_numpy() for name in ("step", "telling", "spread"))
    return FitCounts(*held, *(by_name(kind) for kind in _BY_CONVENTION))


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
