"""When the curves of two runs went apart beyond chance, by shared prompts where steps have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from board.core.arrays import FloatArray, IntArray
from board.core.metrics.definitions import base_name
from board.core.metrics.divergence import Divergence, divergence
from board.core.sampling import evenly_spaced
from board.index.segments import PROMPT_KEY
from board.query.compare.matching import step_column
from board.query.run import Run
from board.query.steps import errors_of

NULL: Final = (
    "The first step at which the means of both runs differ by more than the draw of rollouts explains, "
    "by a sequential test with at most 5 % false alarms over the whole run and all these metrics. Two "
    "runs alone can't tell why: two seeds of one configuration drift apart, too. Several seeds of each "
    "can, compared as groups of runs."
)
"""What the test says, and what it does not."""
_SAMPLED: Final = 8
"""Steps by which it is told whether the runs share prompts: all of them would take long."""
_LEAST_SHARED: Final = 0.5
"""Of the prompts of a step, in both runs, for its difference to be taken prompt by prompt."""


def when_diverged(
    first: Run, second: Run, metrics: Sequence[str], shift: int = 0
) -> dict[str, Divergence]:
    """By metric the first step that both have at which it differs beyond chance, and since when.

    shift: added to the steps of the second. Where at least half of a step's prompts are in both runs, its
    difference is the mean over the shared ones, with its error over them: the prompts' difficulty falls
    out. Else it is that of the means, each with its error clustered by group; degrees of freedom: Welch
    1947. Raises UnreadableError.
    """
    both, at_first, at_second = np.intersect1d(
        np.fromiter(first.counts, np.int64),
        np.fromiter(second.counts, np.int64) + shift,
        return_indices=True,
    )
    errors = [_with_errors(run, metrics) for run in (first, second)]
    shared = _of_shared_prompts(first, second, metrics, both, shift)
    result: dict[str, Divergence] = {}
    for metric in metrics:
        sides = (first, errors[0], at_first), (second, errors[1], at_second)
        values = [
            [_values(run, of_run, metric, suffix)[places] for suffix in ("mean", "se", "groups")]
            for run, of_run, places in sides
        ]
        difference, error, freedom = _unpaired(values[0], values[1])
        paired = 0
        if metric in shared:
            of_shared = shared[metric]
            use = np.isfinite(of_shared[0])
            paired = int(use.sum())
            difference, error, freedom = (
                np.where(use, new, old)
                for new, old in zip(of_shared, (difference, error, freedom), strict=True)
            )
        of_metric = divergence(both, difference, error, freedom, metrics=len(metrics))
        result[metric] = replace(of_metric, paired=paired)
    return result


def _with_errors(run: Run, metrics: Sequence[str]) -> pd.DataFrame | None:
    """Errors of means of a part of a run, whose table of steps has none."""
    lacking = [m for m in metrics if m in run.metrics and f"{base_name(m)}_se" not in run.steps]
    return errors_of(run, lacking) if lacking else None


def _values(run: Run, errors: pd.DataFrame | None, metric: str, suffix: str) -> FloatArray:
    name = f"{base_name(metric)}_{suffix}"
    if errors is not None and name in errors:
        return errors[name].to_numpy(np.float64, na_value=np.nan)
    return step_column(run, name)


def _unpaired(
    first: Sequence[FloatArray], second: Sequence[FloatArray]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Difference, error and degrees of freedom of means, errors and groups [S] of two runs."""
    (mean_a, error_a, groups_a), (mean_b, error_b, groups_b) = first, second
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(error_a**2 + error_b**2)
        squares = error_a**4 / (groups_a - 1) + error_b**4 / (groups_b - 1)
        return mean_b - mean_a, error, error**4 / squares


def _of_shared_prompts(
    first: Run, second: Run, metrics: Sequence[str], both: IntArray, shift: int
) -> Mapping[str, tuple[FloatArray, FloatArray, FloatArray]]:
    """By metric [both] difference, error and degrees of freedom by shared prompts; NaN at steps that do
    not share enough. Empty where few steps do.
    """
    if not all(PROMPT_KEY in run.rows.names for run in (first, second)) or not len(both):
        return {}
    some = both[evenly_spaced(len(both), _SAMPLED)].tolist()
    sampled = _prompt_means(first, [], some), _prompt_means(second, [], [s - shift for s in some])
    if len(_joined(sampled[0], sampled[1], shift)) < _LEAST_SHARED * max(map(len, sampled)):
        return {}
    tables = _prompt_means(first, metrics), _prompt_means(second, metrics)
    pairs = _joined(tables[0], tables[1], shift)
    prompts = [
        table.groupby("step").size().reindex(both - moved, fill_value=0).to_numpy()
        for table, moved in zip(tables, (0, shift), strict=True)
    ]
    most = np.maximum(*prompts)
    result: dict[str, tuple[FloatArray, FloatArray, FloatArray]] = {}
    for place, metric in enumerate(metrics):
        deltas = pairs[f"m{place}_second"] - pairs[f"m{place}_first"]
        of_step = deltas.groupby(pairs["step"]).agg(["mean", "std", "count"]).reindex(both)
        count = of_step["count"].to_numpy(np.float64)
        is_enough = (count >= _LEAST_SHARED * most) & (count > 1)
        columns = (
            of_step["mean"].to_numpy(np.float64),
            of_step["std"].to_numpy(np.float64) / np.sqrt(count),
            count - 1,
        )
        difference, error, freedom = (np.where(is_enough, column, np.nan) for column in columns)
        result[metric] = difference, error, freedom
    return result


def _prompt_means(
    run: Run, metrics: Sequence[str], steps: Sequence[int] | None = None
) -> pd.DataFrame:
    """A row for each step and prompt: step, key, and m0, m1, ... the means of the metrics. steps: None is
    all.
    """
    means = "".join(
        f", avg(CAST({run.column(name)} AS DOUBLE)) AS m{place}"
        for place, name in enumerate(metrics)
    )
    among = "true" if steps is None else f"step IN ({', '.join(map(str, steps))})"
    key = run.column(PROMPT_KEY)
    return run.table(f"""
        SELECT step, {key} AS key{means} FROM {run.view}
        WHERE {run.condition} AND {among} AND {key} IS NOT NULL GROUP BY ALL
    """).to_pandas()


def _joined(first: pd.DataFrame, second: pd.DataFrame, shift: int) -> pd.DataFrame:
    moved = second.assign(step=second["step"] + shift)
    return first.merge(moved, on=["step", "key"], suffixes=("_first", "_second"))
