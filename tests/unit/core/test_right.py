"""What is right: the two most frequent rewards, not the two ends, and what a part of the reward says."""

import math
import random
from collections import Counter

import pytest

from board.core.groups.right import right_rule


def judged(rewards: list[float], column: str = "reward", threshold: float | None = None):
    """Rewards that are right, wrong and not judged."""
    rule = right_rule(column, Counter(rewards), len(rewards), threshold)
    right = sum(reward >= rule.right_from for reward in rewards)
    wrong = sum(reward <= rule.wrong_to for reward in rewards)
    return right, wrong, len(rewards) - right - wrong


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ({0.0: 384, 1.0: 256}, (256, 384, 0)),
        ({0.0: 384, 1.0: 255, 1.5: 1}, (256, 384, 0)),  # one odd reward decides nothing
        ({0.0: 384, 1.0: 255, 20.0: 1}, (256, 384, 0)),
        ({0.0: 384, 1.0: 255, -9.0: 1}, (255, 385, 0)),
        ({-1.0: 10, 0.0: 40, 1.0: 50}, (50, 50, 0)),
        ({-1.0: 50, 0.0: 40, 1.0: 10}, (10, 90, 0)),
        ({-1.0: 45, 0.0: 10, 1.0: 45}, (45, 45, 10)),
        ({0.0: 50, 0.5: 10, 1.0: 40}, (40, 50, 10)),  # partial credit
        ({0.0: 50, 1.0: 40, 1.1: 10}, (50, 50, 0)),  # a bonus for form
        ({0.0: 5000, 1.0: 4}, (4, 5000, 0)),  # hard tasks
        ({0.5: 8}, (0, 0, 8)),
        ({0.0: 60, **{0.3 + i / 100: 1 for i in range(40)}}, (0, 0, 100)),  # half continuous
        ({i / 97: 1 for i in range(97)}, (0, 0, 97)),  # continuous
    ],
)
def test_rewards_are_right_from_the_higher_of_the_two_that_most_have(rewards, expected):
    values = [value for value, count in rewards.items() for _ in range(count)]
    random.Random(0).shuffle(values)
    assert judged(values) == expected


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({0.0: 10, 1.0: 20}, (20, 10, 0)),
        ({0.0: 10, 1.0: 20, 1.5: 1}, (21, 10, 0)),
        ({0.0: 10, 0.5: 20, 1.0: 5}, (5, 30, 0)),  # all but right is wrong
        ({0.0: 7}, (0, 7, 0)),
        ({-1.0: 4, 0.0: 3}, (3, 4, 0)),
        ({0.0: 10, 100.0: 5}, (5, 10, 0)),
    ],
)
def test_of_a_part_that_says_what_is_right_every_score_is_judged(scores, expected):
    values = [value for value, count in scores.items() for _ in range(count)]
    assert judged(values, "rewards.correct") == expected


def test_a_threshold_that_is_set_judges_everything():
    assert judged([0.1, 0.5, 0.7, 0.2], threshold=0.5) == (2, 2, 0)
    rule = right_rule("reward", Counter([0.1]), 1, 0.5)
    assert "reward ≥ 0.5, as set" in rule.text


def test_an_odd_reward_among_many_changes_no_more_than_itself():
    rng = random.Random(1)
    for _ in range(200):
        rewards = [float(rng.random() < 0.4) for _ in range(200)]
        odd = [*rewards, rng.choice([-5.0, -0.5, 0.5, 1.5, 7.0])]
        before, after = judged(rewards), judged(odd)
        assert sum(abs(a - b) for a, b in zip(before, after, strict=True)) == 1
    assert math.isnan(right_rule("reward", {}, 0).right_from)
