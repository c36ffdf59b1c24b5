from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from board.core.alignment import (
    Divergence,
    first_difference,
    first_difference_in_text,
    shared_spans,
    words,
)


def test_rollouts_part_at_the_first_token_that_differs():
    assert first_difference([1, 2, 3], [1, 2, 4, 5]) == Divergence(2, 2)


def test_where_one_side_ends_only_the_other_has_a_difference():
    assert first_difference([1, 2], [1, 2, 3]) == Divergence(None, 2)


def test_equal_rollouts_have_no_difference():
    assert first_difference([1, 2], [1, 2]) == Divergence(None, None)
    assert first_difference([], []) == Divergence(None, None)


def test_texts_cut_differently_part_at_the_pieces_of_the_first_other_character():
    assert first_difference_in_text(
        ["The s", "um is 4"], ["The ", "sum ", "is ", "5"]
    ) == Divergence(1, 3)


@given(st.text())
def test_words_are_the_text(text):
    assert "".join(words(text)) == text


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_before_the_difference_both_agree_and_at_it_they_do_not(left, right):
    found = first_difference(left, right)
    prefix = next(i for i in (found.left, found.right, len(left)) if i is not None)
    assert left[:prefix] == right[:prefix]
    if found.left is not None and found.right is not None:
        assert left[found.left] != right[found.right]


def test_shared_spans_leave_out_what_is_no_number():
    spans = shared_spans([{"k1": np.array([0.0, np.nan, 1.0])}, {"k1": np.array([np.inf, 3.0])}])
    low, high = spans["k1"]
    assert 0 <= low < high <= 3
    assert shared_spans([{"k1": np.array([np.nan])}]) == {}
    assert shared_spans([{"k1": np.array([2.0, 2.0])}]) == {"k1": (2.0, 2.0)}
