"""Two runs, paired by prompt: means of both on the prompts that both saw, at the steps that both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from board.core.arrays import FloatArray, IntArray
from board.core.groups.statistics import correctness_column
from board.core.metrics.definitions import reward_parts
from board.core.metrics.paired import PairedDifference, paired_difference
from board.index.segments import PROMPT_KEY
from board.index.storage import StepRange
from board.query.groups import counts_of_right, score_range
from board.query.run import Run

SOLVE_RATE = "solve_rate"
"""The share of right rollouts, among those of which it is known."""
_TOTALS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward", "reward_gap")


@dataclass(frozen=True)
class PairedRuns:
    """What two runs A and B did on the prompts that both saw at steps of a common range.

    steps: the first and the last one; None where the runs share no range. keys: [n] of the prompts.
    differences: by metric, B minus A. reward_note: why totals of rewards are not one quantity in both;
    empty where they are.
    """

    steps: StepRange | None
    keys: IntArray
    differences: dict[str, PairedDifference]
    reward_note: str = ""


def paired_runs(first: Run, second: Run, columns: Sequence[str] | None = None) -> PairedRuns:
    """The paired differences of metrics that both runs have; columns: of these alone.

    first, second: may be narrowed to a split or environments. Raises UnreadableError.
    """
    steps = _common_steps(first, second)
    shared = [name for name in first.metrics if name in second.metrics]
    note = _reward_note(first, second)
    wanted = [name for name in shared if columns is None or name in columns]
    # What rewards say first; parts that both have before totals, which may be of different parts.
    ranks = dict.fromkeys(reward_parts(wanted), 0) | dict.fromkeys(_TOTALS, 1 if note else -1)
    wanted.sort(key=lambda name: ranks.get(name, 2))
    if steps is None or not all(_has_prompts(run) for run in (first, second)):
        return PairedRuns(steps, np.array([], np.int64), {}, note)
    tables = [_means(run.where(steps=steps), wanted) for run in (first, second)]
    both = tables[0].add_suffix(" of A").join(tables[1].add_suffix(" of B"), how="inner")
    names = [name for name in (SOLVE_RATE, *wanted) if f"{name} of A" in both]
    differences = {
        name: paired_difference(_numbers(both[f"{name} of A"]), _numbers(both[f"{name} of B"]))
        for name in names
    }
    recorded = {name: one for name, one in differences.items() if one.prompts}
    return PairedRuns(steps, both.index.to_numpy(np.int64), recorded, note)


def _common_steps(first: Run, second: Run) -> StepRange | None:
    if not first.counts or not second.counts:
        return None
    low = max(min(first.counts), min(second.counts))
    high = min(max(first.counts), max(second.counts))
    return (low, high) if low <= high else None


def _reward_note(first: Run, second: Run) -> str:
    """Why the totals of two runs' rewards are not one quantity."""
    parts = [{*reward_parts(run.metrics)} for run in (first, second)]
    if parts[0] == parts[1]:
        return ""
    words = [
        ", ".join(sorted(one.removeprefix("rewards.") for one in own)) or "none" for own in parts
    ]
    names = f"A: {words[0]}; B: {words[1]}"
    return f"the rewards have different parts ({names}): compare those that both have"


def _has_prompts(run: Run) -> bool:
    return PROMPT_KEY in run.rows.names


def _means(run: Run, columns: Sequence[str]) -> pd.DataFrame:
    """By key of a prompt the mean of each metric over its rollouts, and its solve rate where known."""
    means = "".join(f", avg(v{i}) AS m{i}" for i in range(len(columns)))
    values = "".join(
        f", CAST({run.column(name)} AS DOUBLE) AS v{i}" for i, name in enumerate(columns)
    )
    has_reward = "reward" in run.metrics
    score = run.column(correctness_column(run.columns) or "reward")
    judged = f", CAST({score} AS DOUBLE) AS score" if has_reward else ""
    counts = f", {counts_of_right(run)}" if has_reward else ""
    ranges = f"CROSS JOIN ({score_range(run.whole or run)})" if has_reward else ""
    table = run.table(f"""
        WITH rollouts AS (
            SELECT {run.column(PROMPT_KEY)} AS key{judged}{values} FROM {run.view}
            WHERE {run.condition} AND {run.column(PROMPT_KEY)} IS NOT NULL)
        SELECT key{means}{counts} FROM rollouts {ranges} GROUP BY key
    """).to_pandas()
    names = {f"m{i}": name for i, name in enumerate(columns)}
    table = table.rename(columns=names).set_index("key")
    if has_reward:
        graded = table.pop("graded").to_numpy(np.float64)
        right = table.pop("right").to_numpy(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            table[SOLVE_RATE] = np.where(graded > 0, right / graded, np.nan)
    return table


def _numbers(column: pd.Series) -> FloatArray:
    return column.to_numpy(np.float64, na_value=np.nan)
