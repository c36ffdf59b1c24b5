import re
from typing import Any

import pytest

from board.core.texts.phrases import MOST_CHARACTERS, changed_phrases, phrases_of


def steps(
    *shares: float, message: str = "let me check", else_: str = "so it is", of: int = 20
) -> Any:
    """Texts of some steps, of which such a share says a phrase."""
    return [[message if i < share * of else else_ for i in range(of)] for share in shares]


def test_phrases_are_words_with_one_space_between():
    assert phrases_of("Let me  check") == {"let", "me", "check", "let me"}
    assert phrases_of("It’s 12, well") == {"it’s", "well"}


def test_scripts_without_spaces_are_told_by_pairs_of_signs():
    assert phrases_of("让我再想") == {"让我", "我再", "再想"}


def test_what_is_said_more_has_its_shares_and_the_longest_phrase():
    (more, less) = changed_phrases(steps(0.0, 0.0, 0.5, 1.0))
    assert (more.phrase, more.change, more.shares) == ("let me check", 1.0, (0, 0, 0.5, 1))
    assert (less.phrase, less.change) == ("so it is", -1.0)


def test_what_comes_and_goes_is_told():
    (one, _) = changed_phrases(steps(0.0, 1.0, 1.0, 0.0))
    assert abs(one.change) == 1.0


def test_before_and_after_are_the_shares_that_differ_by_the_change():
    one = next(
        x for x in changed_phrases(steps(*[0.75] * 2, *[0.5] * 4, *[0.0] * 2)) if x.change < 0
    )
    assert (one.before, one.after, one.change) == (0.75, 0.0, -0.75)


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5, 0.5), (0.4, 0.5, 0.6, 0.5), (1.0, 1.0), (0.5,)])
def test_chance_and_a_single_step_change_nothing(shares):
    assert changed_phrases(steps(*shares)) == []
    assert changed_phrases([]) == []


def test_a_step_without_texts_is_neither_zero_nor_counted():
    (one, _) = changed_phrases([*steps(0.0, 0.0), [], *steps(1.0)])
    assert one.shares[2] != one.shares[2]
    assert one.change == 1.0


def test_a_pattern_finds_whole_words_alone():
    one = next(x for x in changed_phrases(steps(0, 0, 1, 1, message="wait")) if x.change > 0)
    assert re.search(one.pattern, "so wait, no")
    assert not re.search(one.pattern, "waiter")
    chinese = next(x for x in changed_phrases(steps(0, 0, 1, 1, message="等等")) if x.change > 0)
    assert re.search(chinese.pattern, "我等等看")


def test_a_text_is_looked_at_up_to_a_bound():
    assert phrases_of("x" * MOST_CHARACTERS + " wait") == set()


def test_a_word_of_one_prompt_is_no_change_of_the_training():
    said = [["wait"] * 6 + ["so"] * 18, ["so"] * 24]
    texts = [said[0], *[said[1]] * 11]
    groups = [[place // 6 for place in range(24)] for _ in texts]
    assert not changed_phrases(texts, groups)
    assert changed_phrases(texts)
