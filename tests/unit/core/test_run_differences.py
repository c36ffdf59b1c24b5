import numpy as np
import pytest

from board.core.run_differences import differences, final


def test_only_what_differs_is_listed_by_its_path():
    one = {"seed": 1, "config": {"lr": 1e-5, "beta": None, "same": [1, 2]}, "flag": True}
    other = {"seed": 1.0, "config": {"lr": 2e-5, "same": [1, 2]}, "flag": 1}
    result = {d.key: dict(d.values) for d in differences({"a": one, "b": other})}
    assert result == {
        "config.lr": {"a": 1e-5, "b": 2e-5},
        "config.beta": {"a": None},  # null in one run, not there in the other
        "flag": {"a": True, "b": 1},
    }


def test_a_run_has_no_difference_to_itself():
    assert differences({"a": {"x": {"y": 1}}, "b": {"x": {"y": 1}}}) == []


def test_a_final_value_is_the_mean_of_the_last_recorded_steps():
    result = final([1, 2, 3, 4], np.array([9.0, 1.0, 3.0, np.nan]), last=2)
    assert (result.mean, result.steps, result.last_step) == (2.0, 2, 3)
    assert result.error == pytest.approx(1.0)
    assert final([1], np.array([np.nan])).last_step is None
