"""What is suggested for a name that does not exist."""

import pytest

from board.errors import close_to, did_you_mean

STEP_COLUMNS = ["step", "reward_n", "reward_std", "reward_q95", "reward_mean", "k3_mean"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("reward", "reward_mean"), ("k3", "k3_mean"), ("rewrad_mean", "reward_mean")],
    ids=["without its ending", "of two letters", "misspelt"],
)
def test_the_nearest_name_is_suggested_and_of_those_the_mean(name, nearest):
    assert close_to(name, STEP_COLUMNS) == nearest


def test_all_names_are_listed_where_none_is_near():
    assert did_you_mean("zzz", ["step", "env"]) == "expected one of: step, env"
