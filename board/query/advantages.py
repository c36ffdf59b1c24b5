"""Recorded advantages against those that the rewards give, by each convention in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from board.core.arrays import BoolArray, FloatArray
from board.core.groups.statistics import (
    ABSOLUTE,
    EPSILON,
    RELATIVE,
    AdvantageFit,
    FitCounts,
    deciding_steps,
    fitted_convention,
)
from board.core.schema import GENERATION
from board.query.run import Run

_PENALIZED: Final = "advantage_reward"
"""What a trainer makes advantages of where it is not the reward: less a KL penalty, say."""

FACTORS: Final[Mapping[str, str]] = {
    "grpo": f"1 / (std + {EPSILON})",
    "dr_grpo": "1",
    "rloo": "n / nullif(n - 1, 0)",
    "grpo_population": f"1 / (population_std + {EPSILON})",
    "batch_std": f"1 / (step_std + {EPSILON})",
}
"""Convention -> SQL for what `reward - mean` is multiplied by. n, mean, std: of the rewards of the group;
step_std: of all grouped rollouts of the step and the split, whichever of them the run has.
"""


def advantage_fit(run: Run) -> FitCounts | None:
    """How the advantages of each step with groups fit; None where none is recorded.

    Raises UnreadableError.
    """
    if not {"group_id", "reward", "advantage"} <= {*run.columns}:
        return None
    return run.remembered("advantage fit", lambda: _advantage_fit(run))


def convention_of(run: Run, steps: Sequence[int]) -> AdvantageFit | None:
    """The convention that the recorded advantages follow; None where none is recorded.

    steps: those with groups, of which `deciding_steps` are read. Raises UnreadableError.
    """
    if not {"group_id", "reward", "advantage"} <= {*run.columns}:
        return None
    deciding = deciding_steps(steps)
    return fitted_convention(run.remembered("convention", lambda: _advantage_fit(run, deciding)))


def _advantage_fit(run: Run, steps: Sequence[int] | None = None) -> FitCounts:
    """steps: which ones are read; None: all."""
    counts = ", ".join(
        f"""count(*) FILTER (informative AND NOT differs_{name}) AS hits_{name},
            count(*) FILTER (differs_{name}) AS differs_{name},
            max(abs(advantage - {name})) AS furthest_{name}"""
        for name in FACTORS
    )
    table = run.table(f"""
        SELECT step, count(*) FILTER (informative) AS informative, {counts},
            corr(advantage, reward) AS of_reward, corr(advantage, dr_grpo) AS of_group
        FROM ({_compared(run, "JOIN", steps)}) GROUP BY step ORDER BY step
    """)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return FitCounts(
        columns["step"],
        columns["informative"],
        {name: columns[f"hits_{name}"] for name in FACTORS},
        {name: columns[f"differs_{name}"] for name in FACTORS},
        {name: columns[f"furthest_{name}"] for name in FACTORS},
        columns["of_reward"],
        columns["of_group"],
    )


def expected_advantages(run: Run, step: int, convention: str) -> tuple[FloatArray, BoolArray]:
    """([n] advantages of a step's rollouts as a convention has them, [n] whether recorded ones differ).

    NaN for rollouts without a reward or a group. Raises UnreadableError.
    """
    own = run.where(steps=(step, step))
    table = own.table(f"""
        SELECT {convention} AS expected, coalesce(differs_{convention}, false) AS differs
        FROM ({_compared(own)}) ORDER BY position
    """)
    return table["expected"].to_numpy(), table["differs"].to_numpy()


def _compared(run: Run, join: str = "LEFT JOIN", steps: Sequence[int] | None = None) -> str:
    """SQL for rollouts with each convention's advantage, and whether the recorded one
    differs: both NULL where not known. informative: whether it is one by which conventions differ:
    rewards at their group's mean tell as little as zeros do. join: JOIN leaves out rollouts without
    a group. steps: the only ones; None: all.
    """
    of_steps = "true" if steps is None else f"step IN ({', '.join(map(str, steps)) or 'NULL'})"
    batch, of_batch = "step", of_steps
    if GENERATION in run.columns:  # a group may lie in several steps, and whole in its generation
        batch = f"coalesce(CAST({run.column(GENERATION)} AS BIGINT), step)"
        of_batch = "true"
    # By a hash: to join by texts takes half as long again.
    group = f"""CASE WHEN {run.column("group_id")} IS NOT NULL
        THEN hash({batch}, {run.column("group_id")}, {run.split_value}) END AS group_hash"""
    scored = run.advantage_batch
    identity = run.column("rollout_id") if "rollout_id" in run.columns else "position"
    distinct = f"DISTINCT {identity}," if batch != "step" else ""
    reward = f"{run.column('reward')} AS reward"
    if _PENALIZED in run.columns:
        reward = f"coalesce({run.column(_PENALIZED)}, {run.column('reward')}) AS reward"
    factors = ", ".join(f"{factor} AS factor_{name}" for name, factor in FACTORS.items())
    expected = ", ".join(f"(reward - mean) * factor_{name} AS {name}" for name in FACTORS)
    differs = ", ".join(
        f"abs({name} - advantage) > {ABSOLUTE} + {RELATIVE} * abs({name}) AS differs_{name}"
        for name in FACTORS
    )
    return f"""
        WITH statistics AS MATERIALIZED (
            SELECT step, group_hash, count(reward) AS n, avg(reward) AS mean,
                stddev_samp(reward) AS std, stddev_pop(reward) AS population_std
            FROM (SELECT {distinct} {batch} AS step, {group}, {reward} FROM {scored.view}
                WHERE {scored.condition} AND {of_batch})
            WHERE group_hash IS NOT NULL GROUP BY step, group_hash),
        means AS (SELECT step, sum(n * mean) / sum(n) AS step_mean FROM statistics GROUP BY step),
        batch AS (
            SELECT step, sqrt(sum(n * population_std ** 2 + n * (mean - step_mean) ** 2)
                / nullif(sum(n) - 1, 0)) AS step_std
            FROM statistics JOIN means USING (step) GROUP BY step),
        groups AS (SELECT group_hash, mean, {factors} FROM statistics JOIN batch USING (step)),
        rollouts AS NOT MATERIALIZED (
            SELECT step, position, {group}, {reward}, {run.column("advantage")} AS advantage
            FROM {run.view} WHERE {run.condition} AND {of_steps}),
        expected AS (
            SELECT rollouts.*, abs(reward - mean) > {ABSOLUTE} AND advantage IS NOT NULL AS informative,
                {expected}
            FROM rollouts {join} groups USING (group_hash))
        SELECT *, {differs} FROM expected
    """
