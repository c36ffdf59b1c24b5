from __future__ import annotations

import numpy as np
import pytest

from board.core.records import MOST_ALTERNATIVES, read_top_k


def fields(ids, logprobs):
    return {"topk_ids": ids, "topk_logprobs": logprobs}


def test_rows_of_unequal_length_are_filled_up_with_nothing():
    found = read_top_k(fields([[1, 2], [3]], [[-0.1, -2.0], [-0.5]]), 2)
    assert found is not None
    assert found.ids.tolist() == [[1, 2], [3, -1]]
    assert np.isnan(found.logprobs[1, 1])


def test_null_alternatives_are_missing_and_not_zero():
    found = read_top_k(fields([[None, 2]], [[-1.0, None]]), 1)
    assert found is not None
    assert found.ids.tolist() == [[-1, -1]]
    assert np.isnan(found.logprobs).all()


@pytest.mark.parametrize(
    ("ids", "logprobs"),
    [
        ([[1]], None),
        (None, [[-1.0]]),
        ([[1], [2]], [[-1.0], [-2.0]]),
        ([1], [-1.0]),
        ([[]], [[]]),
        ("x", "y"),
    ],
)
def test_what_is_not_one_row_per_token_is_not_shown(ids, logprobs):
    assert read_top_k(fields(ids, logprobs), 1) is None


def test_no_tokens_have_no_alternatives():
    assert read_top_k(fields([], []), 0) is None


def test_very_many_alternatives_are_cut():
    found = read_top_k(fields([list(range(500))], [[-1.0] * 500]), 1)
    assert found is not None
    assert found.ids.shape == (1, MOST_ALTERNATIVES)
