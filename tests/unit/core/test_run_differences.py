from hypothesis import given
from hypothesis import strategies as st

from board.core.repeated_runs import is_of_the_setup, is_seed
from board.core.run_differences import are_different, differences, names_a_run


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


SETTINGS = st.dictionaries(
    st.sampled_from(["lr", "a.lr", "b.a.lr", "b.lr", "seed", "output_dir", "c.run_name"]),
    st.sampled_from([0, 1, 1.0, True, "m"]),
)


@given(SETTINGS, SETTINGS)
def test_each_difference_is_listed_once_and_none_that_names_a_run(first, second):
    found = differences({"first": first, "second": second})
    for path in {*first, *second}:
        values = [own.get(path, "absent") for own in (first, second)]
        is_name = path in ("output_dir", "c.run_name")
        says_it = [
            other
            for other in found
            if path == other or path.endswith(f".{other}")
            if not are_different([found[other].get("first", "absent"), values[0]])
            and not are_different([found[other].get("second", "absent"), values[1]])
        ]
        assert len(says_it) == (are_different(values) and not is_name), path


@given(st.lists(st.tuples(SETTINGS), min_size=2, max_size=3))
def test_what_names_a_run_is_no_difference_of_setups(runs):
    for path in {path for (own,) in runs for path in own}:
        assert is_of_the_setup(path) is not (names_a_run(path) or is_seed(path))
