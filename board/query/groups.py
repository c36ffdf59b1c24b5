"""The groups of a run, and which rollouts are right.

Rollouts of one step, one split and one group_id are a group: frameworks count the prompts of training and
those of an evaluation each from 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.groups.right import RightRule, right_rule
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
from board.core.metrics.shares import of_many
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
_MOST_VALUES: Final = 64
_MOST_DIFFERENT: Final = 100_000
"""Of more different scores nothing is judged: they are continuous, and counting each takes seconds."""
_RIGHT: Final = "isfinite(score) AND score >= right_from"
_WRONG: Final = "isfinite(score) AND score <= wrong_to"
RIGHT_COUNTS: Final = f"""
    count(*) FILTER ({_RIGHT} OR {_WRONG}) AS graded,
    count(*) FILTER ({_RIGHT}) AS "right\""""
"""SQL that counts rollouts as `graded` and `right`, by their `score` and columns of `right_bounds`."""
IS_RIGHT: Final = f"CASE WHEN {_RIGHT} THEN 1.0 WHEN {_WRONG} THEN 0.0 END"
"""SQL for 1 where a rollout is right, 0 where it is wrong and NULL where it is not judged."""


@dataclass(frozen=True, slots=True)
class Judged:
    """By which rule the rollouts of a run are judged. scored: how many have a score; judged: of these."""

    rule: RightRule
    scored: int
    judged: int

    @property
    def text(self) -> str:
        """The rule, and how many rollouts it does not judge, in a sentence."""
        words = f"{self.rule.text[0].upper()}{self.rule.text[1:]}"
        left = self.scored - self.judged
        return f"{words}; {of_many(left, self.scored)} rollouts are not judged" if left else words


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
    """groups: of all steps. judged: by which rule rollouts are right, and how many it judges."""

    run: Run
    groups: Groups
    judged: Judged

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
    rule = rule_of(run)
    table = run.table(f"""
        WITH rollouts AS NOT MATERIALIZED (
            SELECT step, group_id, {run.split_value} AS split,
                {run.column("reward")} AS reward,
                {score_of(run, rule)} AS score
            FROM {run.view} WHERE {run.condition})
        SELECT step, count(*) AS size, count(reward) AS scored, avg(reward) AS mean,
            count(reward) >= 2 AND min(reward) = max(reward) AS equal, {RIGHT_COUNTS}
        FROM rollouts CROSS JOIN ({right_bounds(rule)}) WHERE group_id IS NOT NULL
        GROUP BY step, group_id, split ORDER BY step, group_id, split
    """)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    graded, scored = columns["graded"], columns["scored"]
    solved = np.where(graded > 0, columns["right"], np.nan)
    return Groups(
        columns["step"],
        np.arange(len(scored)),
        columns["size"],
        scored,
        solved,
        graded,
        outcomes_of(scored, columns["equal"], graded, solved),
        columns["mean"],
    )


def group_table(run: Run, step: int | None = None) -> pd.DataFrame:
    """A row for each group, of one step or of all, by step, group_id and split.

    Columns: step, split, group_id, rollouts, scored (those with a reward), reward_mean, reward_std (n in
    the denominator), reward_min, reward_max. Without rows where no group_id is recorded. Raises
    NotFoundError where the run has no such step, UnreadableError.
    """
    if step is not None:
        run.row(step, 0, ("step",))
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
    return None if groups is None else RunGroups(run, groups, judged_rollouts(run))


def step_grid(run: Run, step: int, column: str = "reward") -> tuple[Grid, list[str]]:
    """A step's groups x rollouts, and the groups' names row by row. Grid.rows are places in run.of_step.

    Raises NotFoundError for a step and ChoiceError for a column that is not there.
    """
    import pandas as pd

    run.row(step, 0, ("step",))
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


def rule_of(run: Run, others: Sequence[Run] = ()) -> RightRule:
    """What is right in a run, and in others that it is compared with: in all of their rollouts, whatever
    part of them is looked at. Raises UnreadableError.

    By the part of the reward that says so (of RIGHT_PARTS) if all of them have it, else by the reward.
    """
    runs = [one.whole or one for one in (run, *others)]
    shared = [name for name in runs[0].columns if all(name in one.columns for one in runs)]
    column = correctness_column(shared) or "reward"
    counts: Counter[float] = Counter()
    scored = 0
    for one in {str(one.info.path): one for one in runs}.values():
        for value, rollouts, every in _score_counts(one, column):
            counts[value] += rollouts
            scored += every
    threshold = next(
        (one.options.right_from for one in runs if one.options.right_from is not None), None
    )
    return right_rule(column, counts, scored, threshold)


def _score_counts(run: Run, column: str) -> list[tuple[float, int, int]]:
    """The most frequent scores, how many rollouts have each, and in the first how many have any."""

    def counted() -> list[tuple[float, int, int]]:
        value = f"CAST({run.column(column)} AS DOUBLE)"
        different = run.table(f"""
            SELECT approx_count_distinct({value}) AS different FROM {run.view} WHERE {run.condition}
        """)
        if different["different"][0].as_py() > _MOST_DIFFERENT:
            return []
        table = run.table(f"""
            SELECT score, rollouts, sum(rollouts) OVER () AS every FROM (
                SELECT {value} AS score, count(*) AS rollouts
                FROM {run.view} WHERE {run.condition} GROUP BY score)
            WHERE isfinite(score) ORDER BY rollouts DESC, score DESC LIMIT {_MOST_VALUES}
        """)
        rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
        return [
            (float(score), int(rollouts), 0 if place else int(every))
            for place, (score, rollouts, every) in enumerate(rows)
        ]

    return run.remembered(f"counts of {column}", counted)


def judged_rollouts(run: Run) -> Judged:
    """By which rule the run's rollouts are judged, and how many. Raises UnreadableError."""
    rule = rule_of(run)
    table = run.table(f"""
        SELECT count(*) FILTER (isfinite(score)) AS scored, {RIGHT_COUNTS}
        FROM (SELECT {score_of(run, rule)} AS score FROM {run.view} WHERE {run.condition})
        CROSS JOIN ({right_bounds(rule)})
    """)
    return Judged(rule, table["scored"][0].as_py(), table["graded"][0].as_py())


def score_of(run: Run, rule: RightRule) -> str:
    """SQL of the score of a rollout."""
    return f"CAST({run.column(rule.column)} AS DOUBLE)"


def right_bounds(rule: RightRule) -> str:
    """SQL of a row with `right_from` and `wrong_to`; NULL where nothing is judged."""
    values = {"right_from": rule.right_from, "wrong_to": rule.wrong_to}
    return "SELECT " + ", ".join(
        f"CAST({'NULL' if math.isnan(value) else repr(str(value))} AS DOUBLE) AS {name}"
        for name, value in values.items()
    )
