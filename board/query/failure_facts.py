"""What rules ask of failed rollouts: causes of each step, what failures have in common, and rewards that
nearly all rollouts of a step have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from board.core.arrays import IntArray
from board.core.failures.causes import PLUMBING
from board.core.findings.facts import FailedRows, FailuresBy, RewardModes
from board.index.segments import CAUSE_COLUMNS, LAST_TOOL, PROMPT_KEY
from board.query.failures import KINDS, TOOL, cause_counts, has_causes
from board.query.run import Run

if TYPE_CHECKING:
    import pandas as pd

_CAUSE, _EVIDENCE, *_ = CAUSE_COLUMNS
_FAILED: Final = (*PLUMBING, "timeout", "unknown")
"""Causes that may have a place in common; what is aborted or unscored is so on purpose, or all over."""
_ROWS: Final = (*_FAILED, "aborted")
"""Causes of which rules name rollouts."""
_MOST_VALUES: Final = 64
_MOST_ROWS: Final = 10_000


def causes_by_step(run: Run, steps: IntArray) -> Mapping[str, IntArray]:
    """By cause, [S] rollouts of each of these steps; none where causes are not recorded. Raises
    UnreadableError.
    """
    if not has_causes(run):
        return {}
    counts = run.remembered("cause counts", lambda: cause_counts(run)).dropna(subset="cause")
    return {
        str(cause): _by_place(steps, own["step"].to_numpy(), own["rollouts"].to_numpy())
        for cause, own in counts.groupby("cause")
    }


def _by_place(steps: IntArray, own: IntArray, counts: IntArray) -> IntArray:
    """[S] counts of some of the steps, 0 of the others."""
    result = np.zeros(len(steps), np.int64)
    result[np.searchsorted(steps, own)] = counts
    return result


def failures_by(
    run: Run, steps: IntArray, causes: Mapping[str, IntArray]
) -> tuple[FailuresBy, ...]:
    """Failures by each kind of which there are two values or more; none where nothing failed. causes: as
    causes_by_step gives it. Raises UnreadableError.
    """
    failed = sum((causes[cause] for cause in _FAILED if cause in causes), np.zeros(len(steps)))
    own = steps[np.asarray(failed) > 0]
    kinds = dict(_kinds(run))
    if not len(own) or not kinds:
        return ()
    values = ", ".join(f"CAST({value} AS VARCHAR) AS {kind}" for kind, value in kinds.items())
    counted = " UNION ALL ".join(
        f"""
            SELECT '{kind}' AS kind, step, {kind} AS value, count(*) AS rollouts,
                count(*) FILTER (failed) AS failed,
                count(DISTINCT prompt) FILTER (failed) AS prompts
            FROM rollouts WHERE {kind} IS NOT NULL GROUP BY ALL"""
        for kind in kinds
    )
    sql = f"""
        WITH rollouts AS MATERIALIZED (
            SELECT step, {_prompt(run)} AS prompt, {values},
                coalesce({run.column(_CAUSE)} IN {_FAILED!r}, false) AS failed
            FROM {run.view} WHERE {run.condition} AND step IN (SELECT unnest($failed_steps)))
        {counted}
    """
    table = run.table(sql, {"failed_steps": own.tolist()}).to_pandas()
    made = (_failures_by(steps, kind, table[table["kind"] == kind]) for kind in kinds)
    return tuple(one for one in made if one is not None)


def _kinds(run: Run) -> Iterator[tuple[str, str]]:
    """Kinds that the run records, and SQL for their values."""
    for kind in KINDS:
        if kind == TOOL and LAST_TOOL in run.rows.names:
            yield kind, f'"{LAST_TOOL}"'
        elif kind != TOOL and kind in run.columns:
            value = run.column(kind)
            yield kind, f"CAST({value} AS BIGINT)" if kind == "rank" else value


def _prompt(run: Run) -> str:
    """SQL for a number that is equal where the prompt is, of the rollouts of a step."""
    names = [name for name in ("group_id", PROMPT_KEY) if name in run.rows.names]
    hashes = [f"CASE WHEN {name} IS NOT NULL THEN hash({name}) END" for name in names]
    return f"coalesce({', '.join([*hashes, 'hash(file, line, part)'])})"


def _failures_by(steps: IntArray, kind: str, table: pd.DataFrame) -> FailuresBy | None:
    by_value = table.groupby("value")["failed"].sum()
    if len(by_value) < 2:
        return None
    most = by_value[by_value > 0].nlargest(_MOST_VALUES)
    counts = {name: np.zeros((len(most), len(steps)), np.int64) for name in _COUNTS}
    for place, name in enumerate(most.index):
        rows = table[table["value"] == name]
        for count, array in counts.items():
            array[place] = _by_place(steps, rows["step"].to_numpy(), rows[count].to_numpy())
    total = table.groupby("step")[["rollouts", "failed"]].sum()
    every = (_by_place(steps, total.index.to_numpy(), total[n].to_numpy()) for n in total)
    return FailuresBy(kind, [*map(str, most.index)], len(by_value), *counts.values(), *every)


_COUNTS: Final = ("rollouts", "failed", "prompts")


def failed_rows(run: Run, step: int) -> FailedRows:
    """The failed rollouts of a step, in its order; at most the first 10,000. Raises UnreadableError."""
    own = run.where(steps=(step, step))
    kinds = dict(_kinds(run))
    values = "".join(f", CAST({value} AS VARCHAR) AS {kind}" for kind, value in kinds.items())
    sql = f"""
        SELECT * FROM (
            SELECT position, {own.column(_CAUSE)} AS cause, {own.column(_EVIDENCE)} AS evidence,
                CAST({own.column("reward")} AS DOUBLE) AS reward{values}
            FROM {own.view} WHERE {own.condition})
        WHERE cause IN {_ROWS!r} ORDER BY position LIMIT {_MOST_ROWS}
    """
    table = own.table(sql)
    columns = {name: table[name].to_pylist() for name in table.column_names}
    return FailedRows(
        np.array(columns["position"], np.int64),
        [*map(str, columns["cause"])],
        [str(text or "") for text in columns["evidence"]],
        np.array(columns["reward"], np.float64),
        {kind: columns[kind] for kind in kinds},
    )


def reward_modes(run: Run, steps: IntArray) -> RewardModes | None:
    """The most frequent reward of each step; None without rewards. Raises UnreadableError."""
    if "reward" not in run.columns:
        return None
    reward = run.column("reward")
    table = run.table(f"""
        SELECT step, max(count) AS count, arg_max(reward, count) AS value FROM (
            SELECT step, {reward} AS reward, count(*) AS count
            FROM {run.view} WHERE {run.condition} AND {reward} IS NOT NULL GROUP BY ALL)
        GROUP BY step
    """).to_pandas()
    values = np.full(len(steps), np.nan)
    own = table["step"].to_numpy()
    values[np.searchsorted(steps, own)] = table["value"]
    counts = _by_place(steps, own, table["count"].to_numpy())
    return RewardModes(values, counts, lambda value: _with_reward(run, steps, value))


def _with_reward(run: Run, steps: IntArray, value: float) -> tuple[IntArray, IntArray]:
    sql = f"""
        SELECT step, count(*) AS rollouts, count(DISTINCT {_prompt(run)}) AS prompts
        FROM {run.view}
        WHERE {run.condition} AND {run.column("reward")} = $reward GROUP BY step
    """
    table = run.table(sql, {"reward": value}).to_pandas()
    own = table["step"].to_numpy()
    rollouts, prompts = (table[name].to_numpy() for name in ("rollouts", "prompts"))
    return _by_place(steps, own, rollouts), _by_place(steps, own, prompts)
