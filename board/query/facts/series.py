"""The series of a run in which changes are looked for: means and spreads of each metric, of all rollouts
and by environment and rank, and what rollouts are made of: prompts, groups, finish reasons, tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from board.core.arrays import FloatArray, IntArray, divided
from board.core.findings.series import Scope, Series, metric_series, share_series
from board.core.groups.statistics import correctness_column
from board.core.metrics.definitions import ROLLOUT_METRICS, base_name, reward_parts, rollout_metric
from board.index.segments import LAST_TOOL, PROMPT_KEY
from board.query.database import quoted
from board.query.run import Run

_MOST_METRICS: Final = 100
_MOST_VALUES: Final = 24
_MOST_SHARES: Final = 8
_LARGEST_ONLY: Final = ("k1_max", "k3_max", "mismatch_kl_max")
"""Of one token: their steps are alike in nothing."""
_BY_SCOPE: Final = (
    *("response_tokens", "response_chars", "is_truncated", "k3_mean", "entropy_mean"),
    *("mismatch_kl_mean", "turns"),
)
"""Metrics that are looked at by environment and rank, besides reward and correctness."""
_SPREAD: Final = "spread of reward"
_INPUTS: Final = frozenset(("prompt_tokens", "prompt_chars"))


def series_of(run: Run, steps: IntArray) -> list[Series]:
    """All series of these steps, the most telling first. Raises UnreadableError."""
    if not len(steps):
        return []
    inputs = _INPUTS | {*_of_groups(run)}
    metrics = [name for name in run.metrics if name not in _LARGEST_ONLY][:_MOST_METRICS]
    series: list[Series] = []
    table = run.steps
    for name in metrics:
        values = table[_mean_column(run, name)].to_numpy(np.float64, na_value=np.nan)
        series.append(metric_series(name, values, is_input=name in inputs))
    for scope in ("env", "rank"):
        series += _by_scope(run, steps, scope)
    series += _contents(run, steps)
    for name in metrics:
        stem = f"{base_name(name)}_std"
        if stem in table and name in ("reward", *reward_parts(metrics), *_BY_SCOPE):
            words = f"spread of {rollout_metric(name).label} within a step"
            values = table[stem].to_numpy(np.float64, na_value=np.nan)
            series.append(Series(stem, words, values, name, is_learnt=True))
    return series


def _mean_column(run: Run, name: str) -> str:
    return f"{base_name(name)}_mean"


def _of_groups(run: Run) -> Iterator[str]:
    """Further metrics that all rollouts of a group have in common: they are of the prompt."""
    further = [m for m in run.metrics if m not in ROLLOUT_METRICS and not m.startswith("rewards.")]
    if "group_id" not in run.columns or not further:
        return
    further = further[:_MOST_SHARES]
    selected = ", ".join(
        f"max({run.column(name)}) - min({run.column(name)}) AS v{place}"
        for place, name in enumerate(further)
    )
    largest = ", ".join(f"max(v{place}) AS v{place}" for place in range(len(further)))
    row = run.table(f"""
        SELECT {largest}, max(n) AS n FROM (SELECT count(*) AS n, {selected} FROM {run.view}
        WHERE {run.condition} AND group_id IS NOT NULL GROUP BY step, group_id)
    """).to_pylist()[0]
    if (row["n"] or 0) > 1:
        yield from (name for place, name in enumerate(further) if row[f"v{place}"] == 0)


def _by_scope(run: Run, steps: IntArray, scope: Scope) -> Iterator[Series]:
    """Means by environment or by rank, of those that have most rollouts, where there are two."""
    if scope not in run.columns:
        return
    right = correctness_column(reward_parts(run.metrics))
    names = dict.fromkeys(n for n in ("reward", right, *_BY_SCOPE) if n in run.metrics)
    if not names:
        return
    means = ", ".join(f"avg({run.column(n)}) AS {quoted(n)}" for n in names)
    means += (
        f", stddev_pop({run.column('reward')}) AS {quoted(_SPREAD)}" if "reward" in names else ""
    )
    # A rank is a number: written as one.
    value = f"CAST({run.column(scope)} AS BIGINT)" if scope == "rank" else run.column(scope)
    table = run.table(f"""
        SELECT step, CAST({value} AS VARCHAR) AS value, count(*) AS rollouts, {means}
        FROM {run.view} WHERE {run.condition} AND {run.column(scope)} IS NOT NULL GROUP BY ALL
    """)
    for text, own in _by_value(table, _MOST_VALUES, least=2):
        at = np.searchsorted(steps, own["step"].to_numpy())
        for name in names:
            values = np.full(len(steps), np.nan)
            values[at] = own[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
            yield metric_series(name, values, scope, text)
        if "reward" in names:
            values = np.full(len(steps), np.nan)
            values[at] = own[_SPREAD].cast(pa.float64()).to_numpy(zero_copy_only=False)
            yield Series(_SPREAD, "spread of the reward", values, "reward", scope, text)


def _by_value(table: pa.Table, most: int, least: int = 1) -> Iterator[tuple[str, pa.Table]]:
    """The rows of the most frequent values of a table, if there are so many values at least."""
    totals = (
        table.group_by("value")
        .aggregate([("rollouts", "sum")])
        .sort_by([("rollouts_sum", "descending"), ("value", "ascending")])
    )
    values = [*map(str, totals["value"].to_pylist())]
    if len(values) >= least:
        for text in values[:most]:
            yield text, table.filter(pc.equal(table["value"], pa.scalar(text)))


def _contents(run: Run, steps: IntArray) -> Iterator[Series]:
    """What the rollouts of each step are: how many, of which prompts and groups, and how they end."""
    counted = {"rollouts": "count(*)"}
    if PROMPT_KEY in run.rows.names:
        counted["prompts"] = f"count(DISTINCT {PROMPT_KEY})"
    if "group_id" in run.columns:
        counted["groups"] = "count(DISTINCT group_id)"
    if "response" in run.rows.names:
        counted["responses"] = "count(DISTINCT hash(response))"
    if "policy_version" in run.columns:
        counted["versions"] = f"avg({run.column('policy_version')})"
    selected = ", ".join(f"{sql} AS {name}" for name, sql in counted.items())
    table = run.table(f"""
        SELECT step, {selected} FROM {run.view} WHERE {run.condition} GROUP BY step ORDER BY step
    """)
    counts = {
        name: table[name].cast(pa.float64()).to_numpy(zero_copy_only=False) for name in counted
    }
    total = counts["rollouts"]
    yield Series("rollouts", "rollouts", total, is_input=True)
    if "prompts" in counts:
        yield Series("prompts", "different prompts", counts["prompts"], is_input=True)
    if "groups" in counts:
        size = divided(total, counts["groups"])
        yield Series("group size", "rollouts of a group", size, is_input=True)
    if "responses" in counts:
        yield Series("responses", "share of different responses", counts["responses"] / total)
    if "versions" in counts:
        behind = steps.astype(np.float64) - counts["versions"]
        yield Series("versions", "steps that the policy's version is behind", behind)
    for kind, words, is_input in _KINDS:
        yield from share_series(kind, words, _shares(run, steps, kind, total), is_input=is_input)


_KINDS: Final = (
    ("finish_reason", "share of rollouts that finish by {!r}", False),
    (LAST_TOOL, "share of rollouts whose last tool is {!r}", False),
    ("env", "share of rollouts of environment {!r}", True),
)


def _shares(run: Run, steps: IntArray, column: str, total: FloatArray) -> dict[str, FloatArray]:
    """[S] by value of a column, of the most frequent ones, which share of the rollouts has it."""
    if column not in run.rows.names:
        return {}
    name = quoted(column)
    table = run.table(f"""
        SELECT step, CAST({name} AS VARCHAR) AS value, count(*) AS rollouts FROM {run.view}
        WHERE {run.condition} AND {name} IS NOT NULL GROUP BY ALL
    """)
    shares: dict[str, FloatArray] = {}
    for text, own in _by_value(table, _MOST_SHARES, least=2):
        values = np.zeros(len(steps))
        values[np.searchsorted(steps, own["step"].to_numpy())] = own["rollouts"].to_numpy()
        shares[text] = values / total
    return shares
