"""How many prompts and rollouts would show a difference, by the variances of a run's last steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from board.core.metrics.intervals import Scale
from board.core.metrics.planned import Plan, least_share, prompts_needed
from board.core.metrics.sample_size import Variances, share_of_gains, variances
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
    prompts in both; unpaired: other ones. power: the least and the most of simulated comparisons.
    """

    rollouts: int
    paired: int
    unpaired: int
    paired_power: tuple[float, float]
    unpaired_power: tuple[float, float]


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
    """The share of prompts that is taken to gain, and where it is from. mean: of the last steps. scale:
    the two values that all of the metric are, None where there are others.
    """

    share: float
    source: str
    mean: float
    scale: Scale | None


def gains_of(run: Run, metric: str, difference: float, share: float | None = None) -> Gains:
    """Which share of the prompts gains where the mean moves by a difference. share: as it was asked for.
    Else by the prompts that come in both halves of the run: the mean and the spread of what they gained.
    Else those that gain are taken to gain half of the metric's range, which is many prompts that do not.
    Raises UnreadableError.
    """
    value, steps = f"CAST({run.column(metric)} AS DOUBLE)", [*run.counts]
    ends = run.table(f"""
        WITH every AS (
            SELECT {value} AS value FROM {run.view}
            WHERE {run.condition} AND step >= {steps[-LAST:][0]} AND isfinite({value})),
            ends AS (SELECT min(value) AS low, avg(value) AS mean, max(value) AS high FROM every)
        SELECT low, mean, high,
            (SELECT count(*) FROM every WHERE value > low AND value < high) AS between
        FROM ends
    """)
    low, mean, high = (float(ends[name][0].as_py()) for name in ("low", "mean", "high"))
    scale = (low, high) if high > low and not ends["between"][0].as_py() else None
    if share is not None:
        return Gains(share, "as asked for", mean, scale)
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
            return _possible(Gains(max(estimate, LEAST_SHARE), source, mean, scale), difference)
    share = 2 * abs(difference) / (high - low) if high > low else 1.0
    source = "each gains half of the metric's range"
    return _possible(Gains(min(max(share, LEAST_SHARE), 1.0), source, mean, scale), difference)


def _possible(gains: Gains, difference: float) -> Gains:
    """As many more prompts as it takes for the mean to change by a difference, if it can."""
    least = least_share(gains.mean, gains.scale, difference)
    if gains.share >= least or least > 1:
        return gains
    return replace(gains, share=least, source="of fewer the mean can't change by as much")


def needed(
    own: Variances, metric: str, difference: float, gains: Gains, rollouts: Sequence[int] = ROLLOUTS
) -> list[Needed]:
    """For each number of rollouts per prompt how many prompts show the difference, which is not 0.

    gains: of the same prompts. Raises ChoiceError where so few can't gain as much.
    """
    least = least_share(gains.mean, gains.scale, difference)
    if least > 1:
        raise ChoiceError(
            f"{metric} is {gains.mean:.3g} of {gains.scale}: its mean can't change by {difference:g}"
        )
    if gains.share < least:
        raise ChoiceError(
            f"--gain-share {gains.share:g} is too few: {metric} is {gains.mean:.3g} of {gains.scale}, "
            f"and only from {math.ceil(100 * least) / 100:g} on can its mean change by {difference:g}"
        )
    plan, rows = Plan(own, difference, gains.share, gains.mean, gains.scale), list[Needed]()
    for count in rollouts:
        paired, unpaired = (prompts_needed(plan, count, is_paired=same) for same in (True, False))
        rows.append(Needed(count, paired.count, unpaired.count, paired.power, unpaired.power))
    return rows
