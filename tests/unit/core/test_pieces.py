from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.core.tokens.pieces import (
    KINDS,
    PLACEHOLDER,
    UNKNOWN_PIECE,
    detect_coding,
    display_alone,
    display_pieces,
    joined,
    kind_of,
    kinds_of,
)


def byte_alphabet() -> dict[int, str]:
    """GPT-2's bytes_to_unicode, written the way its authors wrote it."""
    remaining = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    remaining += range(ord("®"), ord("ÿ") + 1)
    chars = remaining[:]
    shift = 0
    for byte in range(256):
        if byte not in remaining:
            remaining.append(byte)
            chars.append(256 + shift)
            shift += 1
    return dict(zip(remaining, map(chr, chars), strict=True))


ALPHABET = byte_alphabet()


def as_pieces(raw: bytes, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    spelled = [ALPHABET[byte] for byte in raw]
    return ["".join(spelled[a:b]) for a, b in pairwise(edges)]


cuts = st.lists(st.integers(0, 400), max_size=40)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=PLACEHOLDER))


@given(texts, cuts)
def test_byte_level_pieces_spell_the_text_however_it_was_cut(text, cuts):
    visible = display_pieces(as_pieces(text.encode(), cuts), "byte_level")
    assert "".join(visible).replace(PLACEHOLDER, "") == text


@given(st.binary(max_size=40), cuts)
def test_any_bytes_decode_as_a_whole_decode_does(raw, cuts):
    visible = display_pieces(as_pieces(raw, cuts), "byte_level")
    whole = raw.decode("utf-8", "replace")
    assert "".join(visible).replace(PLACEHOLDER, "") == whole.replace(PLACEHOLDER, "")


@given(st.lists(st.none() | st.text(max_size=6)), st.sampled_from(["byte_level", "metaspace"]))
def test_every_piece_gets_one_text(pieces, coding):
    visible = display_pieces(pieces, coding)
    assert len(visible) == len(pieces)
    assert all(text for text, piece in zip(visible, pieces, strict=True) if piece != "")


@given(st.lists(st.text(max_size=6)))
def test_text_passes_through(pieces):
    assert display_pieces(pieces, "text") == pieces


@given(st.text())
def test_metaspace_is_a_space(text):
    assert display_pieces([text], "metaspace") == [text.replace("▁", " ")]


def test_a_split_character_stands_on_the_token_that_completes_it():
    visible = display_pieces(["Ġthe", "ä", "½", "ł", "!"], "byte_level")
    assert visible == [" the", PLACEHOLDER, PLACEHOLDER, "你", "!"]
    assert joined(visible) == " the你!"
    assert display_pieces(["▁a", "<0xE4>", "<0xBD>", "<0xA0>", "b"], "metaspace") == [
        " a", PLACEHOLDER, PLACEHOLDER, "你", "b",
    ]  # fmt: skip


def test_byte_fallback_newline_is_a_newline():
    assert display_pieces(["<0x0A>", "▁x"], "metaspace") == ["\n", " x"]


def test_bytes_that_never_become_a_character_show_as_replacement():
    assert display_pieces(["a", "ä½"], "byte_level") == ["a", "\ufffd"]
    assert display_pieces(["aä½", "<｜end▁of▁sentence｜>"], "byte_level") == [
        "a\ufffd", "<｜end▁of▁sentence｜>",
    ]  # fmt: skip


def test_an_unknown_piece_is_said_to_be_unknown():
    for coding in ("byte_level", "metaspace", "text"):
        assert display_pieces(["a", None], coding) == ["a", UNKNOWN_PIECE]


def test_a_wrong_coding_is_refused_by_name():
    with pytest.raises(ValueError, match="coding is 'bpe'; expected 'byte_level'"):
        display_pieces(["a"], "bpe")  # wrong on purpose


@given(texts, cuts)
def test_raw_pieces_are_known_by_the_text_they_spell(text, cuts):
    pieces = as_pieces(text.encode(), cuts)
    coding = detect_coding(pieces, text)
    as_is = "".join(pieces).strip() == text.strip()
    assert coding == "text" if as_is else coding in ("byte_level", "text")
    if " the " in text:
        assert coding == "byte_level"


@given(st.lists(st.text(alphabet="aĠ▁ é", max_size=4)))
def test_decoded_tokens_are_never_taken_for_raw(tokens):
    assert detect_coding(tokens, "".join(tokens)) == "text"


def test_special_tokens_missing_from_the_text_do_not_hide_raw_pieces():
    assert detect_coding(["ĠA", "Ġb", "<|im_end|>"], " A b") == "byte_level"
    assert detect_coding(["▁A", "▁b", "</s>"], "A b") == "metaspace"
    assert detect_coding(["A", " b", "<|im_end|>"], "A b") == "text"


def test_what_cannot_be_known_is_text():
    assert detect_coding(["ĠA"], None) == "text"
    assert detect_coding(["ĠA"], "something else") == "text"
    assert detect_coding([], "A") == "text"


@pytest.mark.parametrize("coding", ["text", "byte_level", "metaspace"])
@pytest.mark.parametrize("piece", ["", "a", " a", "Ġthe", "Ã", "Ã©", "▁of", "<0xE4>", "中"])
def test_a_piece_alone_is_shown_as_in_a_list_of_its_own(piece, coding):
    assert display_alone([piece], coding) == display_pieces([piece], coding)


@pytest.mark.parametrize(
    ("piece", "kind"),
    [
        ("<|im_end|>", "end of text"),
        ("</s>", "end of text"),
        ("<eos>", "end of text"),
        ("<|im_start|>", "template"),
        ("<start_of_turn>", "template"),
        ("[INST]", "template"),
        ("<tool_call>", "tool tag"),
        ("</tool_response>", "tool tag"),
        ("<｜tool▁calls▁begin｜>", "tool tag"),
        ("[TOOL_CALLS]", "tool tag"),
        ("</think>", "thinking tag"),
        (" 42", "digits"),
        ("\n\n", "newline"),
        ("  ", "whitespace"),
        (" ,", "punctuation"),
        ("...", "punctuation"),
        (" 中文", "CJK"),
        ("한", "CJK"),
        (" self_attn", "code"),
        ("getValue", "code"),
        ("->", "code"),
        (" lambda", "code"),
        (" hello", "word"),
        ("x2", "word"),
        ("жизнь", "word"),
        ("\ufffd", "part of a character"),
        ("⟨812⟩", "not known"),
        ("<b>", "word"),
    ],
)
def test_a_piece_is_of_one_kind(piece, kind):
    assert kind_of(piece) == kind


def test_what_the_tokenizer_calls_special_is_a_marker_whatever_it_looks_like():
    result = [KINDS[code] for code in kinds_of(["hello", "<eos>", "extra"], special=[1, 2])]
    assert result == ["word", "end of text", "template"]
