"""Advantages as conventions have them, made of all rollouts at once: what SQL is compared with."""

import numpy as np
import pandas as pd
from plain_groups import PlainGroups

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.groups.statistics import (
    ABSOLUTE,
    CONVENTIONS,
    EPSILON,
    RELATIVE,
    FitCounts,
)

FORMULAS = {
    "grpo": lambda of: of["apart"] / (of["std"] + EPSILON),
    "dr_grpo": lambda of: of["apart"],
    "rloo": lambda of: of["apart"] * of["n"] / (of["n"] - 1),
    "grpo_population": lambda of: of["apart"] / (of["population_std"] + EPSILON),
    "batch_std": lambda of: of["apart"] / (of["step_std"] + EPSILON),
}


def _moments(rewards: FloatArray, groups: PlainGroups) -> pd.DataFrame:
    """[n] of each rollout's group and step; NaN for rollouts without a group."""
    is_grouped = groups.of_row >= 0
    grouped = pd.Series(rewards, dtype=float).where(is_grouped)
    by_group = grouped.groupby(groups.of_row)
    moments = pd.DataFrame({"apart": grouped - by_group.transform("mean")})
    moments["n"] = by_group.transform("count")
    moments["std"] = by_group.transform("std")
    moments["population_std"] = by_group.transform("std", ddof=0)
    step_of = np.append(groups.steps, -1)[groups.of_row]
    moments["step_std"] = grouped.groupby(step_of).transform("std").where(is_grouped)
    return moments


def computed(name: str, rewards: FloatArray, groups: PlainGroups) -> FloatArray:
    """[n] advantages as a convention has them."""
    return np.array(FORMULAS[name](_moments(rewards, groups)))


def fit_counts(rewards: FloatArray, advantages: FloatArray, groups: PlainGroups) -> FitCounts:
    """Recorded against recomputed advantages, step by step.

    rewards, advantages: [n], NaN where not recorded; groups: of the same n rollouts.
    Rewards at their group's mean tell conventions apart as little as zeros do, so they count only for
    `differs`.
    """
    steps = np.unique(groups.steps)
    of_row = np.append(groups.steps, -1)[groups.of_row]
    apart = _moments(rewards, groups)["apart"].abs().to_numpy()
    informative = (apart > ABSOLUTE) & np.isfinite(advantages)
    columns = {"informative": informative}
    for name in CONVENTIONS:
        expected, other = by_convention(name, rewards, advantages, groups)
        columns[f"{name} hits"] = informative & _equal(expected, advantages)
        columns[f"{name} differs"] = other
        columns[f"{name} furthest"] = np.abs(advantages - expected)
    by_step = pd.DataFrame(columns).groupby(of_row)
    sums, largest = by_step.sum().reindex(steps), by_step.max().reindex(steps)
    return FitCounts(
        steps,
        sums["informative"].to_numpy(np.int64),
        {name: sums[f"{name} hits"].to_numpy(np.int64) for name in CONVENTIONS},
        {name: sums[f"{name} differs"].to_numpy(np.int64) for name in CONVENTIONS},
        {name: largest[f"{name} furthest"].to_numpy(np.float64) for name in CONVENTIONS},
        _correlations(of_row, steps, advantages, rewards),
        _correlations(
            of_row, steps, advantages, by_convention("dr_grpo", rewards, advantages, groups)[0]
        ),
    )


def _correlations(
    of_row: IntArray, steps: IntArray, advantages: FloatArray, others: FloatArray
) -> FloatArray:
    rows = pd.DataFrame({"step": of_row, "a": advantages, "b": others})
    return np.array([own["a"].corr(own["b"]) for own in (rows[rows["step"] == s] for s in steps)])


def by_convention(
    name: str, rewards: FloatArray, advantages: FloatArray, groups: PlainGroups
) -> tuple[FloatArray, BoolArray]:
    """([n] advantages as a convention has them, [n] whether the recorded ones are known and others)."""
    expected = computed(name, rewards, groups)
    known = np.isfinite(expected) & np.isfinite(advantages)
    return expected, known & ~_equal(expected, advantages)


def _equal(expected: FloatArray, recorded: FloatArray) -> BoolArray:
    with np.errstate(invalid="ignore"):
        return np.abs(expected - recorded) <= ABSOLUTE + RELATIVE * np.abs(expected)
