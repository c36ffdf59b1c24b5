from __future__ import annotations

import numpy as np
from plain_facts import visits_from
from plain_groups import groups_of

from board.core.prompts import Visits, prompts_of

NAN = float("nan")


def visits_of(steps, prompts, rewards, right=None) -> Visits:
    return visits_from(groups_of(steps, prompts, rewards, right))


def test_prompts_are_never_solved_newly_solved_or_lost_again() -> None:
    steps = np.repeat([1, 2, 3], 6)
    prompts = np.tile([0, 0, 1, 1, 2, 2], 3)
    right = np.array([0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0], float)
    found = prompts_of(visits_of(steps, prompts, right, right))
    assert found.codes.tolist() == [0, 1, 2]
    assert found.never_solved.tolist() == [True, False, False]
    assert found.newly_solved.tolist() == [False, True, False]
    assert found.lost_again.tolist() == [False, False, True]
    assert found.volatility.argmax() == 1
    assert found.visits.tolist() == [3, 3, 3]


def test_equal_rewards_have_no_volatility_however_they_were_summed() -> None:
    steps, rewards = (
        np.repeat([1, 2, 3], 3),
        np.array([0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.2, 0.1, 0.3]),
    )
    found = prompts_of(visits_of(steps, np.zeros(9, np.int64), rewards, rewards))
    assert found.volatility.tolist() == [0.0]


def test_one_visit_says_nothing_of_change() -> None:
    found = prompts_of(visits_of(np.array([1]), np.array([4]), np.zeros(1), np.zeros(1)))
    assert not (found.never_solved | found.newly_solved | found.lost_again).any()
    assert np.isnan(found.volatility[0])


def test_visits_of_a_prompt_are_in_the_order_of_steps() -> None:
    visits = visits_of(
        np.array([3, 1, 1, 2]), np.array([7, 7, 7, 5]), np.array([1.0, 0.0, NAN, 0.5])
    )
    own = visits.of(7)
    assert visits.steps[own].tolist() == [1, 3]
    assert visits.rollouts[own].tolist() == [2, 1]
    assert visits.rewards[own].tolist() == [0.0, 1.0]


def test_without_a_judged_rollout_there_are_no_prompts() -> None:
    nothing = np.array([NAN])
    assert len(prompts_of(visits_of(np.array([1]), np.array([0]), nothing)).codes) == 0
