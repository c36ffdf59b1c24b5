"""Short names that tell things apart, whatever the names are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.distinct_names import CUT, distinct_names

LONG = "experiments/2026-11/Qwen2.5-7B-Instruct_grpo_gsm8k_hinted_and_more_"
ALIKE = st.builds(
    "".join,
    st.lists(
        st.sampled_from(("a/", "-b", "_c", "seed=1", "x" * 25, "\n", "…", " (2)", "é")), max_size=9
    ),
)


@given(st.lists(st.text() | ALIKE, max_size=12), st.integers(5, 60))
def test_no_two_names_are_the_same_and_none_is_empty(names, limit):
    short = distinct_names(names, limit)
    assert len(short) == len({*short}) == len(names)
    assert all(name and name.isprintable() for name in short if name.isascii())


@given(st.lists(st.text(min_size=1, max_size=20), unique=True, max_size=8))
def test_names_that_fit_stay_as_they_are(names):
    visible = [name for name in names if name.isprintable()]
    assert distinct_names(visible, 20) == visible


@given(
    st.text("abc/_-", min_size=41, max_size=200),
    st.lists(st.text("abc019", min_size=1, max_size=12), min_size=2, max_size=20, unique=True),
    st.text("abc/_-", max_size=100),
)
def test_names_with_equal_beginnings_and_ends_are_short_however_long_they_are(start, middles, end):
    short = distinct_names([f"{start}/{middle}/{end}" for middle in middles])
    assert all(len(name) <= 40 for name in short)
    assert len({*short}) == len(middles)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["grpo_arithmetic", "grpo_reward_hack"], ["grpo_arithmetic", "grpo_reward_hack"]),
        ([LONG + "seed1", LONG + "seed2"], ["…seed1", "…seed2"]),
        ([LONG + "lr1e-6_seed1", LONG + "lr3e-6_seed1"], ["…lr1e-6_seed1", "…lr3e-6_seed1"]),
        ([LONG + "a", LONG + "a_b"], ["…a", "…a_b"]),
        ([LONG + "lr1_" + LONG, LONG + "lr2_" + LONG], ["…lr1_…", "…lr2_…"]),
        (
            [f"lr{rate}_{LONG}seed{seed}" for rate in (1, 2) for seed in (1, 2)],
            ["lr1_…seed1", "lr1_…seed2", "lr2_…seed1", "lr2_…seed2"],
        ),
        (["a" * 90 + "x" + "b" * 90, "a" * 90 + "y" + "b" * 90], ["…x…", "…y…"]),
        (["run", "run", "run (2)"], ["run", "run (3)", "run (2)"]),
    ],
)
def test_what_differs_stays(names, short):
    assert distinct_names(names) == short


def test_a_long_name_alone_shows_its_beginning_and_its_end():
    (name,) = distinct_names([LONG + "a" * 40 + "_seed7"])
    assert len(name) == 40
    assert name.startswith("experiments")
    assert CUT in name
    assert name.endswith("_seed7")


def test_names_that_look_the_same_are_numbered():
    assert distinct_names(["a\u200bb", "a\u200cb"]) == ["a�b", "a�b (2)"]
