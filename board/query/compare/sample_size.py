"""How many prompts and rollouts would show a difference, by the variances of a run's last steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from board.core.metrics.sample_size import (
    Variances,
    prompts_needed,
    share_of_gains,
    variances,
)
from board.errors import ChoiceError
from board.index.segments import PROMPT_KEY
from board.query.run import Run

LAST: Final = 20
"""Steps whose groups are taken: early in a run rewards vary otherwise."""
LEAST_SHARE: Final = 0.02
ROLLOUTS: Final = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Needed:
    """Prompts that show the difference, with so many rollouts of each in both runs. paired: the same
    prompts in both; unpaired: other ones.
    """

    rollouts: int
    paired: int
    unpaired: int


def group_variances(run: Run, metric: str) -> Variances | None:
    """The variances of a metric over the groups of the last steps; None where there are too few groups.

    Raises ChoiceError where the run has no such metric, UnreadableError.
    """
    if metric not in run.metrics:
        raise ChoiceError(
            f"{run.info.name} has no metric {metric!r}; it has {', '.join(run.metrics)}"
        )
    if "group_id" not in run.columns or not run.counts:
        return None
    steps = [*run.counts][-LAST:]
    group = run.column("group_id")
    table = run.table(f"""
        SELECT step, avg(value) AS mean, var_samp(value) AS within, count(value) AS rollouts
        FROM (SELECT step, {group} AS own, {run.split_value} AS split,
                CAST({run.column(metric)} AS DOUBLE) AS value
            FROM {run.view} WHERE {run.condition} AND step >= {steps[0]} AND {group} IS NOT NULL)
        GROUP BY step, own, split HAVING count(value) > 0
    """)
    columns = (table[name].to_numpy() for name in ("mean", "within", "rollouts", "step"))
    return variances(*columns)


@dataclass(frozen=True, slots=True)
class Gains:
    """The share of prompts that is taken to gain, and where it is from. room: from the metric's mean to
    the largest value that it has, or to the smallest where it is to fall.
    """

    share: float
    source: str
    room: float


def gains_of(run: Run, metric: str, difference: float, share: float | None = None) -> Gains:
    """Which share of the prompts gains where the mean moves by a difference. share: as it was asked for.
    Else by the prompts that come in both halves of the run: the mean and the spread of what they gained.
    Else those that gain are taken to gain half of the metric's range, which is many prompts that do not.
    Raises UnreadableError.
    """
    value = f"CAST({run.column(metric)} AS DOUBLE)"
    ends = run.table(f"""
        SELECT min(value) AS low, avg(value) AS mean, max(value) AS high
        FROM (SELECT {value} AS value FROM {run.view} WHERE {run.condition})
    """)
    low, mean, high = (float(ends[name][0].as_py()) for name in ("low", "mean", "high"))
    room = (high - mean if difference > 0 else mean - low) or math.inf
    if share is not None:
        return Gains(share, "as asked for", room)
    steps = [*run.counts]
    middle = steps[len(steps) // 2]
    if PROMPT_KEY in run.rows.names:
        table = run.table(f"""
            SELECT key, avg(value) FILTER (is_later) - avg(value) FILTER (NOT is_later) AS gain,
                coalesce(var_samp(value) FILTER (is_later), 0) / count(value) FILTER (is_later)
                + coalesce(var_samp(value) FILTER (NOT is_later), 0)
                    / count(value) FILTER (NOT is_later) AS noise
            FROM (SELECT {run.column(PROMPT_KEY)} AS key, {value} AS value, step >= {middle} AS is_later
                FROM {run.view} WHERE {run.condition})
            WHERE key IS NOT NULL GROUP BY key
            HAVING count(value) FILTER (is_later) > 1 AND count(value) FILTER (NOT is_later) > 1
        """)
        gains, noise = (table[name].to_numpy() for name in ("gain", "noise"))
        estimate = share_of_gains(gains, float(noise.mean()) if len(noise) else 0.0)
        if estimate is not None:
            source = f"by {len(gains):,} prompts in both halves of the run"
            return Gains(max(estimate, LEAST_SHARE), source, room)
    share = 2 * abs(difference) / (high - low) if high > low else 1.0
    return Gains(min(max(share, LEAST_SHARE), 1.0), "each gains half of the metric's range", room)


def needed(
    own: Variances, difference: float, gains: Gains, rollouts: Sequence[int] = ROLLOUTS
) -> list[Needed]:
    """For each number of rollouts per prompt how many prompts show the difference, which is not 0.
    gains: of the same prompts.
    """
    return [
        Needed(
            count,
            prompts_needed(
                own, difference, count, is_paired=True, share=gains.share, room=gains.room
            ),
            prompts_needed(own, difference, count, is_paired=False),
        )
        for count in rollouts
    ]
