import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.tokens.pieces import words
from board.core.tokens.scales import Histogram, shared_spans


@given(st.text())
def test_words_are_the_text(text):
    assert "".join(words(text)) == text


def test_shared_spans_leave_out_what_is_no_number():
    spans = shared_spans([{"k1": np.array([0.0, np.nan, 1.0])}, {"k1": np.array([np.inf, 3.0])}])
    low, high = spans["k1"]
    assert 0 <= low < high <= 3
    assert shared_spans([{"k1": np.array([np.nan])}]) == {}
    assert shared_spans([{"k1": np.array([2.0, 2.0])}]) == {"k1": (2.0, 2.0)}


NUMBERS = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=60)


def spread_of(*parts: list[float]) -> Histogram:
    distribution = Histogram()
    for part in parts:
        distribution.add(np.array(part, np.float64))
    return distribution


@given(NUMBERS, NUMBERS)
def test_percentiles_are_those_of_all_numbers_within_a_fifth_of_a_percent(one, other):
    ranked = np.sort(np.array(one + other))
    exact = ranked[np.round(np.array([0.25, 0.75]) * (len(ranked) - 1)).astype(int)]
    result = spread_of(one, other).percentiles(25, 75)
    if result != (ranked[0], ranked[-1]):
        assert result == pytest.approx(exact, rel=2**-9, abs=1e-37)


def test_round_numbers_come_back_as_they_are():
    assert spread_of([-0.5, 0.0, 1.0]).percentiles(0, 100) == (-0.5, 1.0)
    assert spread_of([-3.0, 3.0] * 50).percentiles(1, 99) == (-3.0, 3.0)


def test_where_percentiles_coincide_the_ends_are_given():
    assert spread_of([0.0] * 999 + [1.0]).percentiles(1, 99) == (0.0, 1.0)


def test_what_is_no_number_is_left_out():
    assert spread_of([np.nan, np.inf, 2.0, -np.inf]).percentiles(1, 99) == (2.0, 2.0)
    assert spread_of([np.nan]).percentiles(1, 99) is None
    assert spread_of([1e300, 0.0]).percentiles(0, 100) == (0.0, pytest.approx(3.4e38, rel=0.01))
