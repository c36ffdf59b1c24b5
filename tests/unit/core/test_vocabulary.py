import numpy as np
import pytest

from board.core.tokens.vocabulary import Vocabulary, id_texts


def vocabulary(**changes):
    data = {"pieces": ["Ġthe", "Ċ", None, "cat"], "coding": "byte_level", "special_ids": [3]}
    return Vocabulary.from_json(data | changes)


def test_ids_become_the_text_a_reader_can_follow():
    assert "".join(vocabulary().texts(np.array([3.0, 0, 1]))).startswith("cat the")


def test_an_id_without_a_piece_shows_as_the_id_and_one_that_is_none_as_unknown():
    assert vocabulary().texts(np.array([2.0, 99, np.nan, -1])) == ["⟨2⟩", "⟨99⟩", "⟨?⟩", "⟨?⟩"]


@pytest.mark.parametrize(
    ("ids", "texts"),
    [
        ([5.0, np.nan], ["⟨5⟩", "⟨?⟩"]),
        ([7.0, -1.0, 151_935.0], ["⟨7⟩", "⟨-1⟩", "⟨151935⟩"]),
        ([7.0, 2.0**70], ["⟨7⟩", f"⟨{2**70}⟩"]),
        ([], []),
    ],
)
def test_without_a_vocabulary_the_ids_stand_in(ids, texts):
    assert id_texts(np.array(ids)) == texts


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
