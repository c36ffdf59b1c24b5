"""The groups of a run, and which rollouts are right.

Rollouts of one step, one split and one group_id are a group: frameworks count the prompts of training and
those of an evaluation each from 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.groups.statistics import (
    AdvantageFit,
    Grid,
    Groups,
    StepGroups,
    by_step,
    correctness_column,
    grid,
    outcomes_of,
)
from board.errors import ChoiceError
from board.index.segments import PROMPT_KEY
from board.query import splits
from board.query.advantages import convention_of, expected_advantages
from board.query.columns import numbers
from board.query.open_run import Run

if TYPE_CHECKING:
    import pandas as pd

GROUP_COLUMNS: Final = ("group_id", "split")
"""Columns of the rollouts that tell their groups."""
_OF_STEP: Final = ("reward", "advantage", *GROUP_COLUMNS)
_BY_PART: Final = """
    count(score) AS graded,
    count(*) FILTER (score = highest AND (lowest < highest OR highest > 0)) AS "right\""""
"""The highest score of the run is right. One of 0 or less throughout was never earned by any."""
_BY_REWARD: Final = """
    count(*) FILTER (lowest < highest AND score IN (lowest, highest)) AS graded,
    count(*) FILTER (lowest < highest AND score = highest) AS "right\""""
"""The highest reward of the run is right and the lowest wrong; between them nothing is known."""


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
    """of_run: of the whole run. expected, differs: [rollouts] of a step; see expected_advantages."""

    of_run: AdvantageFit
    expected: FloatArray
    differs: BoolArray


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
        rows = self.run.frame(_OF_STEP, (step, step))
        return StepRollouts(
            rows["index"].to_numpy(np.int64),
            numbers(rows, "reward"),
            numbers(rows, "advantage"),
            places_of(self.groups, step, rows),
            tuple(group_names(rows).tolist()),
        )

    def fit(self, step: int) -> StepFit | None:
        """Recorded advantages of a step against recomputed ones; None where none is recorded."""
        fit = convention_of(self.run, np.unique(self.groups.steps).tolist())
        if fit is None or not np.isfinite(self.of(step).advantages).any():
            return None
        return StepFit(fit, *expected_advantages(self.run, step, fit.closest))


def places_of(groups: Groups, step: int, rows: pd.DataFrame) -> IntArray:
    """[rows] of a step: the place of each one's group in the groups of the run, -1 for none."""
    codes = group_codes(rows)
    known = codes >= 0
    _, order = np.unique(codes[known], return_inverse=True)
    places = np.full(len(rows), -1, np.int64)
    places[known] = int(np.searchsorted(groups.steps, step)) + order
    return places


def groups_of_run(run: Run) -> Groups | None:
    """The groups of all steps; None where the run has no group_id or no reward.

    Raises UnreadableError.
    """
    if not {"group_id", "reward"} <= {*run.columns} or not run.counts:
        return None
    return run.remembered("groups", lambda: _groups_of_run(run))


def _groups_of_run(run: Run) -> Groups:
    table = run.table(f"""
        WITH rollouts AS NOT MATERIALIZED (
            SELECT step, group_id, {run.split_value} AS split,
                {run.column("reward")} AS reward,
                {run.column(correctness_column(run.columns) or "reward")} AS score
            FROM {run.view} WHERE {run.condition})
        SELECT step, count(*) AS size, count(reward) AS scored, avg(reward) AS mean,
            count(reward) >= 2 AND min(reward) = max(reward) AS equal, {counts_of_right(run)}
        FROM rollouts CROSS JOIN ({score_range(run)}) WHERE group_id IS NOT NULL
        GROUP BY step, group_id, split ORDER BY step, group_id, split
    """)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    graded, scored = columns["graded"], columns["scored"]
    right = np.where(graded > 0, columns["right"], np.nan)
    return Groups(
        columns["step"],
        np.arange(len(scored)),
        columns["size"],
        scored,
        right,
        graded,
        outcomes_of(scored, columns["equal"], graded, right),
        columns["mean"],
    )


def group_table(run: Run, step: int | None = None) -> pd.DataFrame:
    """A row for each group, of one step or of all, by step, group_id and split.

    Columns: step, split, group_id, rollouts, scored (those with a reward), reward_mean, reward_std (n in
    the denominator), reward_min, reward_max. Without rows where no group_id is recorded. Raises
    NotFoundError where the run has no such step, UnreadableError.
    """
    if step is not None:
        run.row(step, 0)
    own = run if step is None else run.where(steps=(step, step))
    reward = f"CAST({own.column('reward')} AS DOUBLE)"
    sql = f"""
        SELECT step, {own.split_value} AS split, {own.column("group_id")} AS group_id,
            count(*) AS rollouts, count({reward}) AS scored, avg({reward}) AS reward_mean,
            stddev_pop({reward}) AS reward_std, min({reward}) AS reward_min,
            max({reward}) AS reward_max
        FROM {own.view} WHERE {own.condition} AND {own.column("group_id")} IS NOT NULL
        GROUP BY ALL ORDER BY step, group_id, split
    """
    return own.table(sql).to_pandas()


def rollouts_per_prompt(run: Run) -> int | None:
    """How often each prompt comes at each step of a run without group_id, where that is one number of 2
    or more: then equal prompts are likely groups. Raises UnreadableError.
    """
    names = {*run.columns}
    if "group_id" in names or not {"prompt", "reward"} <= names:
        return None
    table = run.table(f"""
        SELECT min(n) AS least, max(n) AS most FROM (
            SELECT count(*) AS n FROM {run.view}
            WHERE {run.condition} AND {run.column(PROMPT_KEY)} IS NOT NULL
            GROUP BY step, {run.column(PROMPT_KEY)})
    """)
    least, most = (table[name][0].as_py() for name in ("least", "most"))
    return least if least is not None and least == most and least > 1 else None


def run_groups(run: Run) -> RunGroups | None:
    """The groups of all steps; None where the run has no group_id or no reward."""
    groups = groups_of_run(run)
    return None if groups is None else RunGroups(run, groups, correctness_column(run.columns))


def step_grid(run: Run, step: int, column: str = "reward") -> tuple[Grid, list[str]]:
    """A step's groups x rollouts, and the groups' names row by row. Grid.rows are places in run.of_step.

    Raises NotFoundError for a step and ChoiceError for a column that is not there.
    """
    import pandas as pd

    run.row(step, 0)
    rows = run.of_step(step)
    for name in ("group_id", column):
        if name not in rows:
            raise ChoiceError(f"{run.info.name} has no column {name!r}")
    called = group_names(rows)
    codes, names = pd.factorize(called.where(called != ""))
    values = rows[column].to_numpy(np.float64, na_value=np.nan)
    laid_out = grid(codes.astype(np.int64), values)
    return laid_out, [str(names[code]) for code in laid_out.codes.tolist()]


def group_codes(rows: pd.DataFrame) -> IntArray:
    """[rows] a code per group in the order of ids and then of splits, -1 where there is none.

    Rollouts that name no split are training's.
    """
    if "group_id" not in rows:
        return np.full(len(rows), -1, np.int64)
    codes = np.asarray(rows["group_id"].astype("category").cat.codes, np.int64)
    if "split" not in rows:
        return codes
    names = rows["split"].astype("category").cat
    named = names.set_categories(sorted({*names.categories, splits.TRAIN})).fillna(splits.TRAIN)
    of_split = np.asarray(named.cat.codes, np.int64)
    return np.where(codes < 0, -1, codes * len(named.cat.categories) + of_split)


def group_names(rows: pd.DataFrame) -> pd.Series[str]:
    """[rows] what each one's group is called, empty for none: its id, and where rollouts of several
    splits have that id, the split as well.
    """
    import pandas as pd

    if "group_id" not in rows:
        return pd.Series("", rows.index, dtype=str)
    ids = rows["group_id"].astype(object).where(rows["group_id"].notna(), "").astype(str)
    if "split" not in rows:
        return ids
    names = rows["split"].astype(object).where(rows["split"].notna(), splits.TRAIN).astype(str)
    is_shared = names.groupby(ids).transform("nunique") > 1
    return ids.where(~is_shared | (ids == ""), ids + " (" + names + ")")


def counts_of_right(run: Run) -> str:
    """SQL that counts rollouts as `graded` and `right`, by their `score` (of `correctness_column`, else
    the reward) and by `score_range`.
    """
    return _BY_REWARD if correctness_column(run.columns) is None else _BY_PART


def score_range(run: Run) -> str:
    """SQL of a row with the `lowest` and the `highest` score of the run. NULL where scores are rewards,
    and most lie between the two: the best of continuous rewards is not right, and the others not wrong.
    """
    column = correctness_column(run.columns)
    score = run.column(column or "reward")
    of_run = f"FROM {run.view} WHERE {run.condition}"
    are_judged = (
        "true"
        if column
        else f"""
        (SELECT count(*) FILTER ({score} IN (lowest, highest)) >= count({score}) / 2 {of_run})"""
    )
    sql = f"""
        WITH ends AS (SELECT min({score}) AS lowest, max({score}) AS highest {of_run}),
        judged AS (SELECT *, {are_judged} AS are_judged FROM ends)
        SELECT CASE WHEN are_judged THEN lowest END AS lowest,
            CASE WHEN are_judged THEN highest END AS highest
        FROM judged
    """
    values = run.remembered("score range", lambda: run.table(sql).to_pylist()[0])
    return "SELECT " + ", ".join(
        f"CAST({'NULL' if value is None else repr(str(value))} AS DOUBLE) AS {name}"
        for name, value in values.items()
    )
