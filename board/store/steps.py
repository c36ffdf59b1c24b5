"""The per-step table: how each metric is distributed over the rollouts of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from board.core.metrics import ROLLOUT_METRICS
from board.core.records import FloatArray

if TYPE_CHECKING:
    import pandas as pd

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
    import pandas as pd  # not above: what reads batches needs names of this file, and no frames

    steps, of_row = np.unique(rollouts["step"].to_numpy(np.int64), return_inverse=True)
    starts = np.searchsorted(np.sort(of_row), np.arange(len(steps)))
    columns: dict[str, Any] = {
        "step": steps,
        "rollouts": np.bincount(of_row, minlength=len(steps)).astype(np.int64),
    }
    for name in metrics if len(steps) else ():
        values = rollouts[name].to_numpy(np.float64, na_value=np.nan)
        columns |= _statistics(base_name(name), values, of_row, starts)
    if "rank" in rollouts:
        columns["ranks"] = rollouts.groupby("step", sort=True)["rank"].nunique().to_numpy()
    if "group_id" in rollouts and "reward" in rollouts:
        columns |= {name: v.reindex(steps).to_numpy() for name, v in _groups(rollouts).items()}
    return pd.DataFrame(columns)


def _statistics(
    stem: str, values: FloatArray, of_row: npt.NDArray[np.intp], starts: npt.NDArray[np.intp]
) -> dict[str, Any]:
    """Mean, spread, count and quantiles by step. of_row: step of each value, [n]; starts: [steps].

    Quantiles are by linear interpolation, as numpy's default, over the recorded values of a step.
    """
    order = np.lexsort((values, of_row))  # NaN sorts last within its step
    ordered, of_step = values[order], of_row[order]
    recorded = ~np.isnan(ordered)
    counts = np.add.reduceat(recorded, starts, dtype=np.int64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        means = np.add.reduceat(np.where(recorded, ordered, 0.0), starts) / counts
        squares = np.where(recorded, (ordered - means[of_step]) ** 2, 0.0)
        spread = np.sqrt(
            np.add.reduceat(squares, starts) / np.where(counts > 1, counts - 1, np.nan)
        )
    found = {f"{stem}_mean": means, f"{stem}_std": spread, f"{stem}_n": counts}
    for suffix, q in QUANTILES.items():
        place = q * np.maximum(counts - 1, 0)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, np.maximum(counts - 1, 0))
        below, above = ordered[starts + low], ordered[starts + high]
        found[f"{stem}_{suffix}"] = below + (above - below) * (place - low)
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
