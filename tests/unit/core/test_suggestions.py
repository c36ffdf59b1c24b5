"""What is suggested for a name that does not exist."""

from board.errors import close_to, did_you_mean

STEP_COLUMNS = ["step", "reward_n", "reward_std", "reward_q95", "reward_mean", "k3_mean"]


def test_the_mean_is_suggested_first_for_a_name_without_its_ending():
    assert close_to("reward", STEP_COLUMNS) == "reward_mean"
    assert close_to("k3", STEP_COLUMNS) == "k3_mean"


def test_a_misspelt_name_suggests_the_nearest_ones():
    assert close_to("rewrad_mean", STEP_COLUMNS) == "reward_mean"


def test_all_names_are_listed_where_none_is_near():
    assert did_you_mean("zzz", ["step", "env"]) == "nothing comes close; there are step, env"
