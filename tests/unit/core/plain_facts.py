"""Facts made of all rollouts of a run at once: what the index's sums are compared with."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from plain_advantages import by_convention, fit_counts
from plain_groups import groups_of

from board.core.findings.facts import ExpectedAdvantages, Facts, StepChecks, StepRows
from board.core.groups.environments import curves_from
from board.core.groups.statistics import FitCounts


def plain_facts(
    curves: Mapping[str, np.ndarray],
    step_of: np.ndarray,
    index_of: np.ndarray,
    columns: Mapping[str, np.ndarray],
    groups: np.ndarray | None = None,
    right: np.ndarray | None = None,
    envs: tuple[np.ndarray, Sequence[str]] | None = None,
    **others: Any,
) -> Facts:
    """step_of: ascending, [n]; groups: codes, [n]; right: as groups_of has it; envs: codes, names."""
    rewards = columns.get("reward")
    codes = np.full(len(step_of), -1) if groups is None else groups
    has_groups = rewards is not None and groups is not None
    result = groups_of(step_of, codes, rewards, right) if has_groups else None

    def rows_of(step: int) -> StepRows:
        own = step_of == step
        places = np.full(own.sum(), -1) if result is None else result.of_row[own]
        env = np.full(own.sum(), -1) if envs is None else envs[0][own]
        numbers = {n: v[own] for n, v in columns.items()}
        return StepRows(index_of[own], numbers, lambda: places, lambda: env)

    env_rewards = None
    if envs is not None and rewards is not None:
        known = np.isfinite(rewards)
        env_rewards = curves_from(step_of, *envs, np.where(known, rewards, 0.0), known)
    return Facts(
        np.unique(step_of),
        curves,
        rows_of,
        plain_checks(step_of, columns, codes),
        result,
        *advantages_of(step_of, columns, codes),
        env_rewards,
        [name for name in columns if name.startswith("rewards.")],
        **others,
    )


def advantages_of(
    step_of: np.ndarray, columns: Mapping[str, np.ndarray], codes: np.ndarray
) -> tuple[FitCounts | None, ExpectedAdvantages | None]:
    """As Facts.fit and Facts.expected_advantages."""
    if not {"reward", "advantage"} <= columns.keys():
        return None, None
    rewards, recorded = columns["reward"], columns["advantage"]

    def expected(step: int, convention: str) -> tuple[np.ndarray, np.ndarray]:
        own = step_of == step
        groups = groups_of(step_of[own], codes[own], rewards[own])
        return by_convention(convention, rewards[own], recorded[own], groups)

    return fit_counts(rewards, recorded, groups_of(step_of, codes, rewards)), expected


def plain_checks(
    step_of: np.ndarray, columns: Mapping[str, np.ndarray], codes: np.ndarray
) -> StepChecks:
    """By pandas, step by step."""
    names = {"reward": "reward", "length": "response_tokens", "clock": "timestamp", "rank": "rank"}
    rows = pd.DataFrame({"step": step_of, "group": codes})
    for name, of in names.items():
        rows[name] = columns.get(of, np.nan)
    by_step = rows.groupby("step")
    pairs = rows[(rows["group"] >= 0) & rows["reward"].notna() & rows["length"].notna()].copy()
    for name in ("reward", "length"):
        pairs[name] -= pairs.groupby(["step", "group"])[name].transform("mean")
    products = {"xx": pairs["reward"] ** 2, "yy": pairs["length"] ** 2}
    products["xy"] = pairs["reward"] * pairs["length"]
    sums = pd.DataFrame({"pairs": 1, **products}).groupby(pairs["step"]).sum()
    sums = sums.reindex(list(by_step.groups), fill_value=0)
    ranks = (
        rows.dropna(subset="rank")[["step", "rank"]].drop_duplicates().sort_values(["step", "rank"])
    )
    return StepChecks(
        np.unique(step_of),
        *(by_step["reward"].agg(of).to_numpy() for of in ("size", "count", "min", "max")),
        by_step["clock"].max().to_numpy(),
        *(sums[name].to_numpy() for name in ("pairs", "xx", "yy", "xy")),
        ranks["step"].to_numpy(),
        ranks["rank"].to_numpy(np.int64),
    )
