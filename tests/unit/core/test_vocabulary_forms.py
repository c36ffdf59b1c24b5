from __future__ import annotations

import numpy as np
import pytest

from board.core.tokens.vocabulary import Vocabulary


def texts(data, *ids):
    return Vocabulary.from_json(data).texts(np.array(ids, float))


@pytest.mark.parametrize(
    "data",
    [
        {"pieces": ["a", "Ġb", None, "c"], "coding": "byte_level"},
        {"pieces": ["a", "Ġb", None, "c"]},
        {"pieces": {"0": "a", "1": "Ġb", "3": "c"}, "coding": "byte_level"},
        {"0": "a", "1": "Ġb", "3": "c"},
        {"3": "c", "1": "Ġb", "0": "a"},
        {"a": 0, "Ġb": 1, "c": 3},
    ],
)
def test_a_list_and_both_directions_of_a_map_are_the_same_vocabulary(data):
    assert texts(data, 3, 1, 0, 2) == ["c", " b", "a", "⟨2⟩"]


def test_the_coding_is_found_in_the_pieces():
    assert texts({"0": "▁b"}, 0) == [" b"]
    assert texts({"0": "Hi", "1": " there"}, 0, 1) == ["Hi", " there"]


@pytest.mark.parametrize(
    "data", [{}, {"x": "a"}, {"-1": "a"}, {"a": -1}, {"a": 10**9}, {"0": 1.5}, {"0": ["a"]}]
)
def test_what_is_no_vocabulary_says_which_forms_there_are(data):
    with pytest.raises(ValueError, match=r"piece|token id"):
        Vocabulary.from_json(data)
