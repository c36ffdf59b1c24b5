"""The groups of a run, from its index alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.advantages import AdvantageFit, fit_advantages
from board.core.groups import Groups, StepGroups, by_step, groups_of, is_right, right_part
from board.core.kl import FloatArray
from board.core.metrics import REWARD_PART
from board.store.run import Run

IntArray = npt.NDArray[np.int64]

FIT_ROLLOUTS: Final = 50_000
"""Rollouts that tell which convention the advantages of a run follow; more would tell the same."""


def right_column(run: Run) -> str | None:
    """The column of the reward part that says whether an answer is right; None where none does."""
    parts = [c.removeprefix(REWARD_PART) for c in run.columns if c.startswith(REWARD_PART)]
    found = right_part(parts)
    return None if found is None else f"{REWARD_PART}{found}"


def rightness(run: Run, table: pd.DataFrame) -> FloatArray:
    """[rows] 1 where a rollout is right, 0 where not, NaN where that is not known.

    By the reward part that says so, right being its highest value; else by the reward, see is_right.
    """
    part = right_column(run)
    if part is None or part not in table:
        return is_right(numbers(table, "reward"))
    values = numbers(table, part)
    known = values[np.isfinite(values)]
    if not len(known):
        return values
    return np.where(np.isfinite(values), (values >= known.max()).astype(np.float64), np.nan)


def numbers(table: pd.DataFrame, column: str) -> FloatArray:
    """[rows] a column as numbers, NaN where it has none or is not there."""
    if column not in table or not pd.api.types.is_numeric_dtype(table[column]):
        return np.full(len(table), np.nan)
    return table[column].to_numpy(np.float64, na_value=np.nan)


@dataclass(frozen=True)
class RunGroups:
    """steps, indices, rewards, advantages: [n] of each rollout, ordered by step and index.

    names: of the groups' codes. right_by: the column that says what is right; None: the highest reward.
    """

    steps: IntArray
    indices: IntArray
    rewards: FloatArray
    advantages: FloatArray
    groups: Groups
    names: pd.Index
    right_by: str | None

    @cached_property
    def by_step(self) -> StepGroups:
        """The groups of each step."""
        return by_step(self.groups)

    def rows(self, step: int) -> slice:
        """Where the rollouts of a step stand in the arrays."""
        first, end = np.searchsorted(self.steps, (step, step + 1)).tolist()
        return slice(first, end)

    def fit(self, step: int) -> StepFit | None:
        """Recorded advantages of a step against recomputed ones; None where none is recorded.

        The convention is told by whole steps, evenly spread, of FIT_ROLLOUTS at most, and by this one.
        """
        rows = self.rows(step)
        if not np.isfinite(self.advantages[rows]).any():
            return None
        chosen = self._spread(step)
        of = self.groups.of_row[chosen]
        part = groups_of(self.steps[chosen], of, self.rewards[chosen])
        found = fit_advantages(self.rewards[chosen], self.advantages[chosen], part)
        own = self.steps[chosen] == step
        return StepFit(found, found.expected[own], found.differs[own])

    def _spread(self, step: int) -> IntArray:
        steps = np.unique(self.steps)
        most = max(int(len(steps) * FIT_ROLLOUTS / max(len(self.steps), 1)), 1)
        places = np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(np.int64)
        wanted = np.union1d(steps[places], [step])
        if len(wanted) == len(steps):
            return np.arange(len(self.steps))
        return np.flatnonzero(np.isin(self.steps, wanted))


@dataclass(frozen=True, slots=True)
class StepFit:
    """whole: of the steps looked at. expected, differs: [rollouts] of the one step; see AdvantageFit."""

    whole: AdvantageFit
    expected: FloatArray
    differs: npt.NDArray[np.bool_]


def run_groups(run: Run) -> RunGroups | None:
    """The groups of all steps; None where the run has no group_id or no reward."""
    if "group_id" not in run.columns or "reward" not in run.columns:
        return None
    part = right_column(run)
    wanted = ["reward", "advantage", "group_id", *([part] if part else [])]
    table = run.chosen(wanted)
    steps = table["step"].to_numpy(np.int64)
    rewards = numbers(table, "reward")
    groups = groups_of(
        steps, np.asarray(table["group_id"].cat.codes, np.int64), rewards, rightness(run, table)
    )
    return RunGroups(
        steps,
        table["index"].to_numpy(np.int64),
        rewards,
        numbers(table, "advantage"),
        groups,
        table["group_id"].cat.categories,
        part,
    )
