"""The per-step table: how each metric is distributed over the rollouts of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from board.core.metrics import ROLLOUT_METRICS

QUANTILES: Final[dict[str, float]] = {
    "q00": 0.0,
    "q05": 0.05,
    "q25": 0.25,
    "q50": 0.5,
    "q75": 0.75,
    "q95": 0.95,
    "q100": 1.0,
}
"""Suffix -> quantile over the rollouts of a step; q00 is the smallest value and q100 the largest."""


def base_name(column: str) -> str:
    """The stem of a metric's columns in the step table: k3_mean -> k3, reward -> reward.

    Only the board's own means lose their ending: a framework's reward_mean is no reward.
    """
    return column.removesuffix("_mean") if column in ROLLOUT_METRICS else column


def steps_table(rollouts: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """One row per step in ascending order.

    Columns: step, rollouts; for each metric with stem m: m_mean, m_std (n - 1 in the denominator,
    missing for one rollout), m_n (rollouts that have a value) and m_q00 ... m_q100; then groups,
    zero_std_group_fraction (both only where group_id is recorded) and ranks. NaN is not recorded.
    """
    by_step = rollouts.groupby("step", sort=True)
    columns: dict[str, Any] = {"rollouts": by_step.size()}
    for name in metrics:
        values = rollouts[name].astype(float)
        grouped = values.groupby(rollouts["step"], sort=True)
        stem = base_name(name)
        columns[f"{stem}_mean"] = grouped.mean()
        columns[f"{stem}_std"] = grouped.std(ddof=1)
        columns[f"{stem}_n"] = grouped.count()
        columns |= _quantiles(stem, values, rollouts["step"])
    if "rank" in rollouts:
        columns["ranks"] = by_step["rank"].nunique()
    if "group_id" in rollouts and "reward" in rollouts:
        columns |= _groups(rollouts)
    return pd.DataFrame(columns).rename_axis("step").reset_index()


def _quantiles(stem: str, values: pd.Series[float], steps: pd.Series[int]) -> dict[str, Any]:
    """Quantiles by linear interpolation, as numpy's default, over the recorded values of a step."""
    order = np.lexsort((values.to_numpy(), steps.to_numpy()))  # NaN sorts last within its step
    ordered, of_step = values.to_numpy()[order], steps.to_numpy()[order]
    unique, starts = np.unique(of_step, return_index=True)
    if len(unique) == 0:
        return {}
    counts = np.add.reduceat(~np.isnan(ordered), starts, dtype=np.int64)
    found: dict[str, Any] = {}
    for suffix, q in QUANTILES.items():
        place = q * np.maximum(counts - 1, 0)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, np.maximum(counts - 1, 0))
        below, above = ordered[starts + low], ordered[starts + high]
        found[f"{stem}_{suffix}"] = pd.Series(below + (above - below) * (place - low), index=unique)
    return found


def _groups(rollouts: pd.DataFrame) -> dict[str, Any]:
    """Groups per step, and the share of those with 2 or more scores whose rewards are all equal."""
    rewards = rollouts.groupby(["step", "group_id"], observed=True)["reward"].agg(
        ["count", "min", "max"]
    )
    compared = rewards[rewards["count"] >= 2]
    equal = (compared["min"] == compared["max"]).astype(float)
    return {
        "groups": rewards.groupby("step").size(),
        "zero_std_group_fraction": equal.groupby("step").mean(),
    }
