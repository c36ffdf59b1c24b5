import numpy as np
import pytest

from board.core.records import MOST_ALTERNATIVES, read_top_k


def fields(ids, logprobs):
    return {"topk_ids": ids, "topk_logprobs": logprobs}


@pytest.mark.parametrize(
    ("ids", "logprobs", "found_ids", "known"),
    [
        ([[1, 2], [3]], [[-0.1, -2.0], [-0.5]], [[1, 2], [3, -1]], [[True, True], [True, False]]),
        ([[None, 2]], [[-1.0, None]], [[-1, -1]], [[False, False]]),
    ],
    ids=["filled up", "null"],
)
def test_alternatives_that_are_not_there_are_missing_and_not_zero(ids, logprobs, found_ids, known):
    read_ids, read_logprobs = read_top_k(fields(ids, logprobs), len(ids))
    assert read_ids.tolist() == found_ids
    assert np.isfinite(read_logprobs).tolist() == known


@pytest.mark.parametrize(
    ("ids", "logprobs"),
    [
        ([[1]], None),
        (None, [[-1.0]]),
        ([[1], [2]], [[-1.0], [-2.0]]),
        ([1], [-1.0]),
        ([[]], [[]]),
        ("x", "y"),
        ([], []),
    ],
)
def test_what_is_not_one_row_per_token_is_not_shown(ids, logprobs):
    assert read_top_k(fields(ids, logprobs), 1 if ids else 0) is None


def test_very_many_alternatives_are_cut():
    ids, _ = read_top_k(fields([list(range(500))], [[-1.0] * 500]), 1)
    assert ids.shape == (1, MOST_ALTERNATIVES)
