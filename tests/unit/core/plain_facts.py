"""Facts made of all rollouts of a run at once: what the index's sums are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from board.core.environments import curves_from
from board.core.findings.facts import Facts
from board.core.groups import Groups, groups_of
from board.core.prompts import Visits
from board.core.step_checks import step_checks


@dataclass(frozen=True)
class PlainRows:
    """StepRows whose arrays are at hand."""

    indices: np.ndarray
    columns: Mapping[str, np.ndarray]
    groups: np.ndarray
    envs: np.ndarray


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
    found = groups_of(step_of, codes, rewards, right) if has_groups else None

    def rows_of(step: int) -> PlainRows:
        own = step_of == step
        places = np.full(own.sum(), -1) if found is None else found.of_row[own]
        env = np.full(own.sum(), -1) if envs is None else envs[0][own]
        return PlainRows(index_of[own], {n: v[own] for n, v in columns.items()}, places, env)

    env_rewards = None
    if envs is not None and rewards is not None:
        known = np.isfinite(rewards)
        env_rewards = curves_from(step_of, *envs, np.where(known, rewards, 0.0), known)
    return Facts(
        np.unique(step_of),
        curves,
        rows_of,
        step_checks(step_of, columns, codes),
        found,
        env_rewards,
        [name for name in columns if name.startswith("rewards.")],
        **others,
    )


def visits_from(groups: Groups) -> Visits:
    """The visits of prompts, a prompt of a step being a group; groups: ordered by step."""
    order = np.argsort(groups.codes, kind="stable")
    return Visits(
        groups.codes[order],
        groups.steps[order],
        groups.mean[order],
        groups.solve_rate[order],
        groups.size[order],
    )
