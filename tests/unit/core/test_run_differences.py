from board.core.run_differences import differences


def test_only_what_differs_is_listed_by_its_path():
    one = {"seed": 1, "config": {"lr": 1e-5, "beta": None, "same": [1, 2]}, "flag": True}
    other = {"seed": 1.0, "config": {"lr": 2e-5, "same": [1, 2]}, "flag": 1}
    assert differences({"a": one, "b": other}) == {
        "config.lr": {"a": 1e-5, "b": 2e-5},
        "config.beta": {"a": None},  # null in one run, not there in the other
        "flag": {"a": True, "b": 1},
    }


def test_a_run_has_no_difference_to_itself():
    assert differences({"a": {"x": {"y": 1}}, "b": {"x": {"y": 1}}}) == {}
