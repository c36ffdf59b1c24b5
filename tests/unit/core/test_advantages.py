from __future__ import annotations

import numpy as np
import pytest
from plain_advantages import COMPUTE, by_convention, fit_counts
from plain_groups import PlainGroups, groups_of

from board.core.groups.advantages import CONVENTIONS, told
from board.core.groups.statistics import IntArray
from board.core.metrics.kl import FloatArray

DICE = np.random.default_rng(1)
STEPS = np.repeat(np.arange(4), 12)
CODES = np.tile(np.repeat(np.arange(3), 4), 4)
REWARDS = DICE.normal(size=48).round(2)
GROUPS = groups_of(STEPS, CODES, REWARDS)


def fit(rewards: FloatArray, made: FloatArray, groups: PlainGroups) -> tuple[str | None, IntArray]:
    """The convention that the run follows, and the rollouts that differ from it or the closest one."""
    follows = told(fit_counts(rewards, made, groups))
    differs = by_convention(follows.closest, rewards, made, groups)[1]
    return follows.convention, np.flatnonzero(differs)


def test_conventions_are_what_they_say_for_one_group() -> None:
    rewards = np.array([1.0, 0.0, 0.0, 0.0])
    groups = groups_of(np.zeros(4, np.int64), np.zeros(4, np.int64), rewards)
    first = {name: compute(rewards, groups)[0] for name, compute in COMPUTE.items()}
    assert first["dr_grpo"] == pytest.approx(0.75)
    assert first["grpo"] == pytest.approx(0.75 / (0.5 + 1e-4))
    assert first["grpo_population"] == pytest.approx(0.75 / (np.sqrt(0.1875) + 1e-4))
    assert first["rloo"] == pytest.approx(1.0 - 0.0)
    assert first["batch_std"] == pytest.approx(first["grpo"])


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_convention_that_made_the_advantages_is_found(name: str) -> None:
    made = COMPUTE[name](REWARDS, GROUPS)
    convention, differs = fit(REWARDS, made, GROUPS)
    assert convention == name
    assert not differs.size


def test_a_changed_advantage_differs_and_no_other_does() -> None:
    made = COMPUTE["grpo"](REWARDS, GROUPS)
    made[30] += 0.5
    assert fit(REWARDS, made, GROUPS)[1].tolist() == [30]


def test_the_convention_of_the_first_steps_is_the_runs_though_most_others_differ() -> None:
    steps = np.repeat(np.arange(30), 12)
    codes, rewards = np.tile(CODES[:12], 30), DICE.normal(size=360).round(2)
    groups = groups_of(steps, codes, rewards)
    made = COMPUTE["rloo"](rewards, groups) * np.where(steps < 10, 1, -1)
    convention, differs = fit(rewards, made, groups)
    assert convention == "rloo"
    assert sorted(set(steps[differs])) == [*range(10, 30)]
    assert fit(rewards, made[::-1], groups)[0] is None


def test_noise_fits_no_convention() -> None:
    assert fit(REWARDS, DICE.normal(size=48), GROUPS)[0] is None


def test_rollouts_without_reward_or_group_are_not_compared() -> None:
    rewards = REWARDS.copy()
    rewards[0] = np.nan
    groups: PlainGroups = groups_of(STEPS, np.where(np.arange(48) == 5, -1, CODES), rewards)
    made = COMPUTE["rloo"](rewards, groups)
    convention, differs = fit(rewards, np.where(np.isnan(made), 9.0, made), groups)
    assert convention == "rloo"
    assert not differs.size
