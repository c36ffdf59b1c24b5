from __future__ import annotations

import numpy as np
import pytest

from board.core.tokens.critic import recorded_gamma, td_error


def test_td_errors_of_undiscounted_values_sum_to_the_return_less_the_first_value():
    rewards, values = np.array([0.0, 0.5, 1.0]), np.array([0.2, 0.4, 0.9])
    assert td_error(rewards, values).sum() == pytest.approx(rewards.sum() - values[0])


def test_the_last_token_has_no_value_after_it():
    assert td_error(np.array([1.0]), np.array([0.25])).tolist() == [0.75]


def test_no_tokens_have_no_errors():
    assert td_error(np.array([]), np.array([])).tolist() == []


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 token_rewards for 1 values"):
        td_error(np.zeros(2), np.zeros(1))


def test_the_discount_weighs_the_value_that_follows():
    assert td_error(np.zeros(2), np.array([1.0, 2.0]), gamma=0.5).tolist() == [0.0, -2.0]


def test_the_discount_is_taken_from_where_trainers_write_it():
    assert recorded_gamma({"config": {"gamma": 0.99, "gae_lambda": 0.95}}) == 0.99
    assert recorded_gamma({"config": {"algorithm": {"gamma": 0.9}}}) == 0.9
    assert recorded_gamma({"gamma": 1}) == 1.0


def test_without_a_usable_discount_it_is_one():
    for settings in ({}, {"config": None}, {"gamma": "0.9"}, {"gamma": 7}, {"gamma": True}):
        assert recorded_gamma(settings) == 1.0
