import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.tokens.pieces import words
from board.core.tokens.scales import Histogram, Span, shared_spans, span_of


@given(st.text())
def test_words_are_the_text(text):
    assert "".join(words(text)) == text


def test_shared_spans_leave_out_what_is_no_number():
    sides = [{"k1": np.array([0.0, np.nan, 1.0])}, {"k1": np.array([np.inf, 3.0])}]
    span = shared_spans(sides, "of both")["k1"]
    assert (span.low, span.high, span.words) == (0, 3, "min–max of both")
    assert shared_spans([{"k1": np.array([np.nan])}], "") == {}
    assert shared_spans([{"k1": np.array([2.0, 2.0])}], "") == {"k1": Span(2, 2, 2, 2)}


NUMBERS = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=160)


def spread_of(*parts: list[float]) -> Histogram:
    distribution = Histogram()
    for part in parts:
        distribution.add(np.array(part, np.float64))
    return distribution


@given(NUMBERS, NUMBERS)
def test_a_histogram_has_the_span_of_all_numbers_within_a_fifth_of_a_percent(one, other):
    exact = span_of(np.sort(np.array(one + other)))
    span = spread_of(one, other).span()
    assert span is not None
    assert (span.least, span.most) == (exact.least, exact.most)
    if (span.low, span.high) != (span.least, span.most):
        ends = (span.low, span.high)
        assert ends == pytest.approx((exact.low, exact.high), rel=2**-9, abs=1e-37)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=99))
def test_few_values_have_no_percentiles(values):
    span = span_of(np.sort(np.array(values)))
    assert (span.low, span.high, span.words) == (min(values), max(values), "min–max")


def test_where_percentiles_coincide_the_ends_are_given():
    assert spread_of([0.0] * 999 + [1.0]).span() == Span(0.0, 1.0, 0.0, 1.0)
    assert spread_of([-3.0, 3.0] * 50).span() == Span(-3.0, 3.0, -3.0, 3.0)


def test_what_is_no_number_is_left_out():
    assert spread_of([np.nan, np.inf, 2.0, -np.inf]).span() == Span(2.0, 2.0, 2.0, 2.0)
    assert spread_of([np.nan]).span() is None
