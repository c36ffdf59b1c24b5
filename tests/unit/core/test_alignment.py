from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from board.core.tokens.alignment import shared_spans, words


@given(st.text())
def test_words_are_the_text(text):
    assert "".join(words(text)) == text


def test_shared_spans_leave_out_what_is_no_number():
    spans = shared_spans([{"k1": np.array([0.0, np.nan, 1.0])}, {"k1": np.array([np.inf, 3.0])}])
    low, high = spans["k1"]
    assert 0 <= low < high <= 3
    assert shared_spans([{"k1": np.array([np.nan])}]) == {}
    assert shared_spans([{"k1": np.array([2.0, 2.0])}]) == {"k1": (2.0, 2.0)}
