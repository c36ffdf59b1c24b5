"""What becomes of a log's texts on an exported page: matches removed, and all else to be seen."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.tokens.pieces import PLACEHOLDER
from board.errors import ChoiceError
from board.export.page_text import REDACTED, Redaction, html, visible

TEXTS = st.text(st.sampled_from("ab s1\n<&\ud800\u202e\x00"), max_size=30)


def seen(markup: str) -> str:
    """What a browser shows of a markup; it may hold no tags."""
    parts: list[str] = []
    parser = HTMLParser(convert_charrefs=True)
    parser.handle_data = parts.append
    parser.handle_starttag = parser.handle_endtag = lambda *_: pytest.fail("a tag of a text")
    parser.feed(markup)
    parser.close()
    return "".join(parts)


@given(
    TEXTS, st.lists(st.integers(0, 30), max_size=6), st.sampled_from(["a", "ab", "s1+", r"a\s*b"])
)
def test_a_match_is_removed_however_the_text_is_cut_into_tokens(text, cuts, pattern):
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    tokens = [text[a:b] for a, b in pairwise(ends)]
    whole, cut = Redaction.of(pattern), Redaction.of(pattern)
    expected, redacted = whole.text(text), cut.tokens(tokens)
    assert len(redacted) == len(tokens)
    assert visible("".join(redacted)).replace("▒", "") == visible(expected)
    assert cut.count == whole.count == len(re.findall(pattern, text))


@given(TEXTS, st.sampled_from([".", r"\w+", "(?s).*", "a|[redacted]", "x*"]))
def test_what_was_removed_is_neither_removed_nor_counted_again(text, pattern):
    redaction = Redaction.of(pattern)
    once, count = redaction.text(text), redaction.count
    assert (redaction.text(once), redaction.count) == (once, count)


@given(TEXTS)
def test_any_text_can_be_written_and_hides_nothing(text):
    markup = html(text)
    assert seen(markup.encode().decode()) == visible(text)
    assert all(char.isprintable() or char == "\n" for char in visible(text))


def test_a_character_on_several_tokens_is_not_split_from_its_match():
    assert Redaction.of("中").tokens(["a", PLACEHOLDER, "中b"])[:2] == ["a", PLACEHOLDER]
    assert (
        visible("".join(Redaction.of("a中").tokens(["a", PLACEHOLDER, "中b"]))) == f"{REDACTED}·b"
    )


def test_texts_within_a_message_are_redacted_and_its_structure_stays():
    redaction = Redaction.of("user|key")
    message = {"role": "user", "content": [{"type": "text", "text": "my key"}], "key": 1}
    assert redaction.value(message)["role"] == "user"
    assert visible(redaction.value(message)["content"][0]["text"]) == f"my {REDACTED}"


def test_a_wrong_pattern_is_said_in_a_sentence():
    with pytest.raises(ChoiceError, match="is no regular expression"):
        Redaction.of("(")
