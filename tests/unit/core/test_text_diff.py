"""Differences between two texts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.texts import diff as module
from board.core.texts.diff import Change, similarity, text_diff

WORDS = st.lists(st.sampled_from(["a", "the", "x1", ".", " ", "\n", "é", "今", "天", "😀"])).map(
    "".join
)
TEXTS = st.one_of(st.text(), WORDS)


def visible(left: str, right: str) -> str:
    parts = text_diff(left, right)
    return "".join(p.left if p.is_equal else f"[{p.left}|{p.right}]" for p in parts)


@given(TEXTS, TEXTS)
def test_equal_and_changed_stretches_alternate_and_none_is_empty(left, right):
    stretches = text_diff(left, right)
    assert all(one.left or one.right for one in stretches)
    assert all(a.is_equal != b.is_equal for a, b in pairwise(stretches))


@given(TEXTS)
def test_a_text_differs_in_nothing_from_itself(text):
    assert text_diff(text, text) == ([Change(text, text)] if text else [])


@pytest.mark.parametrize("bounds", [{}, {"_CELLS": 4, "_ALL_CELLS": 60, "_CHUNKS": 3}])
@given(left=TEXTS, right=TEXTS)
def test_the_sides_of_a_diff_join_to_both_texts_whole_or_in_chunks(bounds, left, right):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in bounds.items():
            patch.setattr(module, name, value)
        stretches = text_diff(left, right)
    assert "".join(one.left for one in stretches) == left
    assert "".join(one.right for one in stretches) == right


@pytest.mark.parametrize(
    ("left", "right", "diff"),
    [
        ("I add 3 and 4.", "I add 5 and 4.", "I add [3|5] and 4."),
        ("the answer is 41.", "the answer is 41", "the answer is 41[.|]"),
        ("one two\nthree", "one two three", "one two[\n| ]three"),
        ("今天天气很好", "今天天气不好", "今天天气[很|不]好"),
        ("", "new", "[|new]"),
    ],
)
def test_words_punctuation_and_characters_that_changed_are_marked(left, right, diff):
    assert visible(left, right) == diff


def test_a_lone_common_word_does_not_align_two_rewritten_sentences():
    left, right = "Start. I add the numbers now", "Start. We divide the total twice"
    assert visible(left, right) == "Start. [I add the numbers now|We divide the total twice]"


def test_an_equal_line_aligns_two_rewritten_texts():
    left, right = (
        "I look for it here\n[tool]\nnothing was found",
        "We search\n[tool]\na lot of lines",
    )
    assert "\n[tool]\n" in [one.left for one in text_diff(left, right) if one.is_equal]


def test_many_equal_words_stay_equal_beside_a_much_longer_change():
    same = "these nine words are equal on both of the sides"
    left = " ".join(f"a{n}" for n in range(900))
    right = " ".join(f"b{n}" for n in range(900))
    stretches = text_diff(f"{left} {same} one", f"{right} {same} two")
    assert any(same in one.left for one in stretches if one.is_equal)


def test_local_edits_in_a_long_text_are_the_only_changes():
    words = [f"w{i * i % 9973}" for i in range(100_000)]
    edited = [*words]
    edited[50], edited[50_000], edited[99_000] = "first", "second", "third"
    changes = [one for one in text_diff(" ".join(words), " ".join(edited)) if not one.is_equal]
    assert [one.right.strip() for one in changes] == ["first", "second", "third"]


def test_long_texts_without_a_common_stretch_are_called_too_different():
    left = " ".join(f"a{i}" for i in range(30_000))
    right = " ".join(f"b{i}" for i in range(30_000))
    assert text_diff(left, right) == [Change(left, right, is_aligned=False)]


def test_similarity_is_the_share_of_characters_in_equal_stretches():
    assert similarity(text_diff("same", "same")) == 1
    assert similarity([]) == 1
    assert similarity([Change("ab", "ab"), Change("cd", "")]) == pytest.approx(4 / 6)
