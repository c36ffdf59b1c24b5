from __future__ import annotations

import pytest

from board.core.tokens.token_kinds import KINDS, kind_of, kinds_of


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
def test_a_piece_is_of_one_kind(piece: str, kind: str) -> None:
    assert kind_of(piece) == kind


def test_what_the_tokenizer_calls_special_is_a_marker_whatever_it_looks_like() -> None:
    found = [KINDS[code] for code in kinds_of(["hello", "<eos>", "extra"], special=[1, 2])]
    assert found == ["word", "end of text", "template"]
