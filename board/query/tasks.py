"""The rollouts by task: each prompt of a step that was tried once or several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.groups.solve_rates import pass_at_k
from board.core.metrics.intervals import share_interval
from board.core.metrics.skewed_means import LEAST_UNBOUNDED, interval_by_moments
from board.index.segments import PROMPT_KEY
from board.query import groups
from board.query.prompts import length_column
from board.query.run import Run

if TYPE_CHECKING:
    import pandas as pd

_MOST_TRIES: Final = 64
"""k of pass@k is doubled up to it."""
_BEGINNING: Final = 600
_LEAST_JUDGED: Final = 4
"""Rollouts of rewards 0 or 1: of fewer an interval holds less often than it says."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks, those with the lowest mean reward first, then those without any reward.

    table: columns task (its group_id, or the key of its prompt), env, prompt (its beginning), rollouts,
    scored, mean, low and high (95 % interval of the mean reward; NaN for too few rewards), graded, right,
    length; missing where not recorded. by_group: whether tasks are groups, else prompts. without:
    how many rollouts name no task. length: the column of lengths.
    """

    table: pd.DataFrame
    by_group: bool
    without: int
    length: str | None

    def pass_at(self, k: int) -> FloatArray:
        """[tasks] pass@k; NaN for fewer tries."""
        return pass_at_k(
            self.table["graded"].to_numpy(np.int64), self.table["right"].to_numpy(np.float64), k
        )

    def pass_rates(self) -> dict[int, tuple[float, int]]:
        """By k = 1, 2, 4, ... the mean of pass@k over the tasks with so many tries, and how many these
        are; empty where none of them has two.
        """
        tries, k = int(self.table["graded"].max()) if len(self.table) else 0, 1
        rates: dict[int, tuple[float, int]] = {}
        while tries >= 2 and k <= min(tries, _MOST_TRIES):
            known = (values := self.pass_at(k))[np.isfinite(values)]
            rates[k] = float(known.mean()), len(known)
            k *= 2
        return rates


def tasks_of(run: Run) -> Tasks | None:
    """The tasks of a run by group_id, else by prompt; None where it records neither, or no reward.

    Raises UnreadableError.
    """
    names = {*run.columns}
    by_group = "group_id" in names
    if "reward" not in names or not (by_group or "prompt" in names):
        return None
    length = length_column(run)
    key = "group_id" if by_group else run.column(PROMPT_KEY)
    rule = groups.rule_of(run)
    own = {
        "env": run.column("env") if "env" in names else "NULL",
        "prompt": f"left({run.column('prompt')}, {_BEGINNING})" if "prompt" in names else "NULL",
        "length": f"CAST({run.column(length)} AS DOUBLE)" if length else "NULL",
        "score": groups.score_of(run, rule),
        "reward": f"CAST({run.column('reward')} AS DOUBLE)",
        "of_split": run.split_value,
    }
    table = run.table(f"""
        WITH rollouts AS NOT MATERIALIZED (
            SELECT {key} AS task, {", ".join(f"{sql} AS {name}" for name, sql in own.items())}
            FROM {run.view} WHERE {run.condition})
        SELECT task, min(env) AS env, min(prompt) AS prompt, count(*) AS rollouts,
            count(reward) AS scored, avg(reward) AS mean, stddev_samp(reward) AS std,
            skewness(reward) AS skewness, bool_and(reward IN (0, 1)) AS is_share,
            avg(length) AS length, {groups.RIGHT_COUNTS}
        FROM rollouts CROSS JOIN ({groups.right_bounds(rule)})
        GROUP BY task, of_split ORDER BY mean NULLS LAST, task, of_split
    """).to_pandas()
    named = table["task"].notna()
    without = int(table["rollouts"][~named].sum())
    return Tasks(_with_intervals(table[named].reset_index(drop=True)), by_group, without, length)


def _with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """As of share_interval where all rewards of the log are 0 or 1, of four rollouts or more; else of
    `interval_by_moments`, of LEAST_UNBOUNDED or more.
    """
    mean, scored = (
        table[name].to_numpy(np.float64, na_value=np.nan) for name in ("mean", "scored")
    )
    if table["is_share"].fillna(value=True).all():
        low, high = share_interval(mean, np.full(len(mean), np.nan), scored)
        least = _LEAST_JUDGED
    else:
        std, skewness = (
            table[name].to_numpy(np.float64, na_value=np.nan) for name in ("std", "skewness")
        )
        low, high = interval_by_moments(mean, std, skewness, scored)
        least = LEAST_UNBOUNDED
    several = scored >= least
    solved = np.where(table["graded"] > 0, table["right"], np.nan)
    return table.drop(columns=["std", "skewness", "is_share"]).assign(
        low=np.where(several, low, np.nan), high=np.where(several, high, np.nan), right=solved
    )
