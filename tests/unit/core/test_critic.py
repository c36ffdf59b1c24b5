from __future__ import annotations

import numpy as np
import pytest

from board.core.critic import td_error


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
