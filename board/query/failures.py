"""Failed rollouts of a run: causes by step, what they have in common, and what they did to training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.expression_tree import text_literal
from board.core.failures.causes import CAUSES, CLASSES, NOT_EARNED, CauseClass
from board.core.failures.effect import Effect, effect_of
from board.core.groups.statistics import CONVENTIONS
from board.core.metrics.shares import of_many
from board.index.segments import CAUSE_COLUMNS, LAST_TOOL, PROMPT_KEY, TOOLS
from board.query import groups
from board.query.advantages import convention_of
from board.query.causes import without_numbers
from board.query.run import Run

if TYPE_CHECKING:
    import pandas as pd

CAUSE, EVIDENCE, _, BASIS = CAUSE_COLUMNS
TOOL: Final = "tool"
KINDS: Final = ("env", TOOL, "rank")
"""What failures are counted by."""
_MOST_CLUSTERS: Final = 100
_MOST_VALUES: Final = 200
_LARGEST_K: Final = 16


@dataclass(frozen=True, slots=True)
class Headline:
    """What every surface says first of the failures of a run. rollouts: all of them; by_class: of each
    class how many failed.
    """

    rollouts: int
    by_class: Mapping[CauseClass, int]

    @property
    def not_earned(self) -> int:
        """Rollouts whose reward the policy did not earn, or may not have."""
        return self.by_class["infrastructure"] + self.by_class["unclear"]

    @property
    def sentence(self) -> str:
        """Both of these classes with count and share."""
        infrastructure, unclear = self.by_class["infrastructure"], self.by_class["unclear"]
        return (
            f"Infrastructure failed in {of_many(infrastructure, self.rollouts)} rollouts; "
            f"{of_many(unclear, self.rollouts)} failed with an unclear cause"
        )


@dataclass(frozen=True, slots=True)
class Clusters:
    """table: a row for each cause and evidence, but for numbers in it, of all but wrong answers
    and budgets; the most rollouts first. Columns: cause, pattern, basis (of causes.BASES), evidence (an
    example), rollouts, prompts, first_step, last_step, and step and index of the example. total: how
    many there are.
    """

    table: pd.DataFrame
    total: int


@dataclass(frozen=True, slots=True)
class RunEffect:
    """What failures that the policy did not earn did to a run's training. effect: over all steps;
    convention: by which advantages are computed, is_recognized: whether the recorded ones follow it.
    steps: [n] and failed: [n] of its rollouts.
    """

    effect: Effect
    convention: str
    is_recognized: bool
    steps: IntArray
    failed: BoolArray


def has_causes(run: Run) -> bool:
    """Whether rollouts have causes: rewards, limits or stop reasons are recorded."""
    return CAUSE in run.columns


def cause_counts(run: Run) -> pd.DataFrame:
    """Rollouts of each step and cause: step, cause (None: no reason to ask), rollouts. Raises
    UnreadableError.
    """
    sql = f"""
        SELECT step, {run.column(CAUSE)} AS cause, count(*) AS rollouts
        FROM {run.view} WHERE {run.condition} GROUP BY ALL ORDER BY step, cause
    """
    return run.table(sql).to_pandas()


def counts_by(run: Run, kind: str) -> pd.DataFrame | None:
    """Rollouts by one of KINDS and cause: value, cause, rollouts; None where it is not recorded. Raises
    UnreadableError.
    """
    value = f'"{LAST_TOOL}"' if kind == TOOL else run.column(kind)
    if (kind == TOOL and LAST_TOOL not in run.rows.names) or (
        kind != TOOL and kind not in run.columns
    ):
        return None
    sql = f"""
        SELECT CAST({value} AS VARCHAR) AS value, {run.column(CAUSE)} AS cause, count(*) AS rollouts
        FROM {run.view} WHERE {run.condition} AND {value} IS NOT NULL GROUP BY ALL
    """
    table = run.table(sql).to_pandas()
    if kind == "rank":
        table["value"] = table["value"].str.removesuffix(".0")
    totals = table.groupby("value")["rollouts"].transform("sum")
    largest = totals.drop_duplicates().nlargest(_MOST_VALUES).min() if len(table) else 0
    return table[totals >= largest]


def tool_results(run: Run) -> pd.DataFrame | None:
    """What tools answered, by step and tool: step, tool, calls, answered, errors, and rollouts with an
    error of it; None where no result of a tool is recorded. Raises UnreadableError.
    """
    if "tool_errors" not in run.columns:
        return None
    sql = f"""
        SELECT step, t.tool AS tool, sum(t.calls)::BIGINT AS calls,
            sum(t.answered)::BIGINT AS answered, sum(t.errors)::BIGINT AS errors,
            count(*) FILTER (t.errors > 0) AS rollouts
        FROM (SELECT step, unnest("{TOOLS}") AS t FROM {run.view} WHERE {run.condition})
        GROUP BY ALL ORDER BY step, tool
    """
    return run.table(sql).to_pandas()


def clusters(run: Run) -> Clusters:
    """Failures with the same evidence, but for its numbers. Raises UnreadableError."""
    # Materialized, a cause is told once: a filter pushed below it would tell it again.
    sql = f"""
        WITH told AS MATERIALIZED (
            SELECT step, position, {run.column(CAUSE)} AS cause, {run.column(EVIDENCE)} AS evidence,
                {run.column(BASIS)} AS basis, {run.column(PROMPT_KEY)} AS prompt
            FROM {run.view} WHERE {run.condition})
        SELECT cause, {without_numbers("evidence")} AS pattern, any_value(basis) AS basis,
            arg_min(evidence, (step, position)) AS evidence, count(*) AS rollouts,
            nullif(count(DISTINCT prompt), 0) AS prompts,
            min(step) AS first_step, max(step) AS last_step,
            arg_min(step, (step, position)) AS step, arg_min(position, (step, position)) AS "index",
            count(*) OVER () AS total
        FROM told WHERE cause NOT IN ('policy', 'truncated') GROUP BY cause, pattern
        ORDER BY rollouts DESC, step LIMIT {_MOST_CLUSTERS}
    """
    table = run.table(sql).to_pandas()
    total = int(table["total"].iloc[0]) if len(table) else 0
    return Clusters(table.drop(columns="total"), total)


def run_effect(run: Run) -> RunEffect | None:
    """What failures that the policy did not earn (NOT_EARNED) did; None where no rollout with a group and
    a reward has one. Raises UnreadableError.
    """
    if not {"group_id", "reward"} <= {*run.columns} or not has_causes(run):
        return None
    causes = ", ".join(f"'{cause}'" for cause in NOT_EARNED)
    rule = groups.rule_of(run)
    sql = f"""
        WITH rollouts AS (
            SELECT step, {run.column("group_id")} AS group_id, {run.column("split")} AS split,
                CAST({run.column("reward")} AS DOUBLE) AS reward, {groups.score_of(run, rule)} AS score,
                coalesce({run.column(CAUSE)} IN ({causes}), false) AS failed
            FROM {run.view} WHERE {run.condition})
        SELECT step, reward, failed,
            CASE WHEN group_id IS NULL THEN -1
                ELSE dense_rank() OVER (ORDER BY step, split, group_id) - 1 END AS code,
            {groups.IS_RIGHT} AS "right"
        FROM rollouts CROSS JOIN ({groups.right_bounds(rule)})
    """
    table = run.table(sql)
    failed = np.asarray(table["failed"])
    if not failed.any():
        return None
    steps, codes = (np.asarray(table[name], np.int64) for name in ("step", "code"))
    rewards, solved = (_numbers(table[name]) for name in ("reward", "right"))
    fit = convention_of(run, [*run.counts])
    name = "grpo" if fit is None else fit.closest
    largest = int(np.bincount(codes[codes >= 0]).max(initial=1))
    ks = [k for k in (1, 2, 4, 8, _LARGEST_K) if k <= largest]
    effect = effect_of(codes, rewards, failed, solved, convention=name, ks=ks, steps=steps)
    is_recognized = fit is not None and fit.convention is not None
    return RunEffect(effect, CONVENTIONS[name].label, is_recognized, steps, failed)


def filter_of_cluster(cause: str, pattern: str) -> str:
    """The filter of the rollouts of a cluster."""
    return f"cause == {text_literal(cause)} and cause_pattern == {text_literal(pattern)}"


def filter_of_tool(tool: str) -> str:
    """The filter of the rollouts in which a call of the tool failed."""
    return f"failed_tools contains {text_literal(f'[{tool}]')}"


def shares_by_step(counts: pd.DataFrame) -> pd.DataFrame:
    """[steps] the share of the rollouts of each step that have each cause, columns by cause in the order
    of CAUSES; of those without a cause none.
    """
    table = counts.pivot_table("rollouts", "step", "cause", "sum", fill_value=0, observed=True)
    total = counts.groupby("step")["rollouts"].sum()
    shares = table.reindex(total.index, fill_value=0).div(total, axis=0)
    return shares[[cause for cause in CAUSES if cause in shares]]


def headline(counts: pd.DataFrame) -> Headline:
    """The headline of what cause_counts gives."""
    totals = counts.groupby("cause")["rollouts"].sum()
    by_class: dict[CauseClass, int] = {
        name: int(totals.reindex(causes, fill_value=0).sum()) for name, causes in CLASSES.items()
    }
    return Headline(int(counts["rollouts"].sum()), by_class)


def _numbers(column: pa.ChunkedArray) -> FloatArray:
    return column.to_pandas().to_numpy(np.float64, na_value=np.nan)
