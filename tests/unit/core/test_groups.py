from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from board.core.group_sums import group_sums, groups_from
from board.core.groups import (
    Outcome,
    by_step,
    grid,
    groups_of,
    is_right,
    pass_at_k,
    pass_at_k_by_step,
    right_part,
)

NAN = float("nan")


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


def test_outcomes_tell_equal_rewards_apart_by_what_is_right() -> None:
    codes = ints(0, 0, 1, 1, 2, 2, 3, 3)
    rewards = floats(1, 1, 0, 0, 0, 1, 0.5, 0.5)
    groups = groups_of(np.zeros(8, np.int64), codes, rewards)
    assert [Outcome(o) for o in groups.outcomes] == [
        Outcome.ALL_RIGHT,
        Outcome.ALL_WRONG,
        Outcome.MIXED,
        Outcome.OTHER,
    ]


def test_a_group_with_one_score_is_compared_with_nothing() -> None:
    groups = groups_of(ints(1, 1, 1), ints(0, 0, 1), floats(1, NAN, 0))
    assert groups.outcomes.tolist() == [Outcome.FEW, Outcome.FEW]
    assert np.isnan(by_step(groups).zero_std).all()


def test_a_failed_rollout_counts_in_size_and_in_no_mean() -> None:
    groups = groups_of(ints(1, 1, 1), ints(0, 0, 0), floats(1, NAN, 0))
    assert (groups.size[0], groups.scored[0], groups.mean[0]) == (3, 2, 0.5)
    assert groups.solve_rate[0] == 0.5


def test_a_group_of_another_step_is_another_group() -> None:
    groups = groups_of(ints(1, 1, 2, 2), ints(0, 0, 0, 0), floats(1, 1, 0, 1))
    assert groups.steps.tolist() == [1, 2]
    assert groups.outcomes.tolist() == [Outcome.ALL_RIGHT, Outcome.MIXED]


def test_groups_do_not_depend_on_the_order_of_rollouts() -> None:
    dice = np.random.default_rng(0)
    codes, rewards = dice.integers(0, 5, 60), dice.integers(0, 2, 60).astype(float)
    steps = np.sort(dice.integers(0, 3, 60))
    order = dice.permutation(60)
    one = groups_of(steps, codes, rewards)
    other = groups_of(steps[order], codes[order], rewards[order])
    assert np.array_equal(one.outcomes, other.outcomes)
    assert np.array_equal(one.of_row[order], other.of_row)


def test_shares_of_groups_without_gradient_add_up() -> None:
    codes = ints(0, 0, 1, 1, 2, 2, 3, 3)
    found = by_step(groups_of(np.zeros(8, np.int64), codes, floats(1, 1, 0, 0, 0, 1, 0.5, 0.5)))
    assert found.zero_std[0] == 0.75
    assert (found.all_right[0], found.all_wrong[0], found.other[0]) == (0.25, 0.25, 0.25)
    assert (found.effective[0], found.rollouts[0]) == (2, 8)


def test_rollouts_without_a_group_are_in_none() -> None:
    groups = groups_of(ints(1, 1, 1), ints(-1, 0, 0), floats(1, 0, 1))
    assert groups.of_row.tolist() == [-1, 0, 0]
    assert len(groups_of(ints(1), ints(-1), floats(1)).steps) == 0


def test_nothing_is_right_where_all_rewards_are_equal() -> None:
    assert np.isnan(is_right(floats(1, 1, NAN))).all()


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 1), (5, 2, 3), (6, 0, 2), (6, 6, 2), (4, 3, 2)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(n: int, c: int, k: int) -> None:
    subsets = [*combinations([True] * c + [False] * (n - c), k)]
    expected = sum(any(subset) for subset in subsets) / len(subsets)
    assert pass_at_k(ints(n), floats(c), k)[0] == pytest.approx(expected)


def test_pass_at_k_of_fewer_tries_than_k_is_not_known() -> None:
    assert np.isnan(pass_at_k(ints(3), floats(3), 4)[0])
    with pytest.raises(ValueError, match="k is 0"):
        pass_at_k(ints(3), floats(3), 0)


def test_pass_at_1_by_step_is_the_mean_solve_rate() -> None:
    groups = groups_of(ints(1, 1, 1, 1), ints(0, 0, 1, 1), floats(1, 0, 1, 1))
    steps, values = pass_at_k_by_step(groups, 1)
    assert (steps.tolist(), values.tolist()) == ([1], [0.75])


def test_a_grid_keeps_the_order_of_groups_and_pads_the_small_ones() -> None:
    found = grid(ints(7, 3, 7, 7), floats(0.1, 0.2, NAN, 0.4))
    assert found.codes.tolist() == [7, 3]
    assert found.rows.tolist() == [[0, 2, 3], [1, -1, -1]]
    assert np.array_equal(found.values, [[0.1, NAN, 0.4], [0.2, NAN, NAN]], equal_nan=True)


def test_the_part_that_says_right_is_found_by_its_name() -> None:
    assert right_part(["format", "Accuracy"]) == "Accuracy"
    assert right_part(["format"]) is None


def judged_by(part: np.ndarray, rewards: np.ndarray) -> list[Outcome]:
    """Outcomes of groups of two, right by a part of the reward."""
    codes = np.repeat(np.arange(len(part) // 2), 2)
    sums = group_sums(np.zeros(len(part), np.int64), codes, rewards, {"correct": part})
    return [Outcome(outcome) for outcome in groups_from(sums, "correct").outcomes]


@pytest.mark.parametrize("never", [0.0, -1.0])
def test_nothing_is_right_by_a_part_that_no_rollout_ever_earned(never: float) -> None:
    part, rewards = floats(never, never, never, NAN), floats(0.5, 0.5, 0.5, 1)
    assert judged_by(part, rewards) == [Outcome.ALL_WRONG, Outcome.MIXED]
    sums = group_sums(ints(1, 1, 1, 1), ints(0, 0, 1, 1), rewards, {"correct": part})
    groups = groups_from(sums, "correct")
    assert (groups.right.tolist(), groups.judged.tolist()) == ([0, 0], [2, 1])
    assert by_step(groups).solve_rate.tolist() == [0]


def test_all_is_right_by_a_part_that_every_rollout_earned() -> None:
    assert judged_by(floats(1, 1, 1, 1), floats(0, 0, 0, 1)) == [Outcome.ALL_RIGHT, Outcome.MIXED]


def test_groups_of_unequal_size_with_failed_rollouts_are_those_of_a_plain_loop() -> None:
    dice = np.random.default_rng(5)
    n = 240
    steps = np.sort(dice.integers(0, 4, n))
    codes = dice.integers(-1, 9, n)
    right = dice.choice([0.0, 1.0, NAN], n, p=[0.5, 0.4, 0.1])
    rewards = np.where(dice.random(n) < 0.15, NAN, np.where(right == 1, 2.0, 0.5))
    rewards[codes == 3] = 0.5  # equal, but not all of them are right
    whole = group_sums(steps, codes, rewards, {"correct": right})
    groups = groups_from(whole, "correct")
    found = by_step(groups)
    for place, step in enumerate(found.steps.tolist()):
        shares = dict.fromkeys(Outcome, 0)
        chances: dict[int, list[float]] = {1: [], 4: []}
        rates, effective, members = [], 0, 0
        for code in range(9):
            own = [i for i in range(n) if steps[i] == step and codes[i] == code]
            scores = [rewards[i] for i in own if rewards[i] == rewards[i]]
            told = [right[i] for i in own if right[i] == right[i]]
            members += len(own)
            if told:
                rates.append(sum(told) / len(told))
            for k, of_k in chances.items():
                if len(told) >= k:
                    subsets = [*combinations(told, k)]
                    of_k.append(sum(any(one) for one in subsets) / len(subsets))
            if len(scores) < 2:
                continue
            if len(set(scores)) > 1:
                shares[Outcome.MIXED] += 1
                effective += len(scores)
            elif told and all(told):
                shares[Outcome.ALL_RIGHT] += 1
            elif told and not any(told):
                shares[Outcome.ALL_WRONG] += 1
            else:
                shares[Outcome.OTHER] += 1
        compared = sum(shares.values())
        assert found.groups[place] == compared
        assert found.all_right[place] == pytest.approx(shares[Outcome.ALL_RIGHT] / compared)
        assert found.all_wrong[place] == pytest.approx(shares[Outcome.ALL_WRONG] / compared)
        assert found.other[place] == pytest.approx(shares[Outcome.OTHER] / compared)
        assert found.zero_std[place] == pytest.approx(1 - shares[Outcome.MIXED] / compared)
        assert (found.effective[place], found.rollouts[place]) == (effective, members)
        assert found.solve_rate[place] == pytest.approx(np.mean(rates))
        for k, of_k in chances.items():
            _, values = pass_at_k_by_step(groups, k)
            assert values[place] == pytest.approx(np.mean(of_k))
