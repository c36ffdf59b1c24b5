from __future__ import annotations

import numpy as np
import pytest

from board.core.tokens.vocabulary import Vocabulary, id_texts


def vocabulary(**changes):
    data = {"pieces": ["Ġthe", "Ċ", None, "cat"], "coding": "byte_level", "special_ids": [3]}
    return Vocabulary.from_json(data | changes)


def test_ids_become_the_text_a_reader_can_follow():
    assert "".join(vocabulary().texts(np.array([3.0, 0, 1]))).startswith("cat the")


def test_an_id_without_a_piece_shows_as_the_id():
    texts = vocabulary().texts(np.array([2.0, 99]))
    assert texts == ["⟨2⟩", "⟨99⟩"]


def test_an_id_that_is_null_or_negative_shows_as_unknown_and_not_as_another_token():
    assert vocabulary().texts(np.array([np.nan, -1.0])) == ["⟨?⟩", "⟨?⟩"]


def test_without_a_vocabulary_the_ids_stand_in():
    assert id_texts(np.array([5.0, np.nan])) == ["⟨5⟩", "⟨?⟩"]
    assert id_texts(np.array([7.0, -1.0, 151_935.0])) == ["⟨7⟩", "⟨-1⟩", "⟨151935⟩"]
    assert id_texts(np.array([7.0, 2.0**70])) == ["⟨7⟩", f"⟨{2**70}⟩"]
    assert id_texts(np.array([])) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"pieces": {"a": "b"}},
        {"pieces": ["a", 1]},
        {"pieces": None},
        {"coding": "utf-7"},
        {"special_ids": [[1]]},
        {"special_ids": "abc"},
    ],
)
def test_a_vocabulary_of_another_form_is_refused_with_the_key_at_fault(broken):
    with pytest.raises(ValueError, match=next(iter(broken))):
        vocabulary(**broken)
