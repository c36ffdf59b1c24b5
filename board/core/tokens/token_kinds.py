"""What kind of token a piece is: end of text, template marker, tool tag, digits, a word ...

Judged by the piece alone, as text, so that a vocabulary is judged once and not every token of a run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from board.core.tokens.pieces import PLACEHOLDER

Kind = Literal[
    "end of text",
    "template",
    "tool tag",
    "thinking tag",
    "digits",
    "newline",
    "whitespace",
    "punctuation",
    "CJK",
    "code",
    "word",
    "part of a character",
    "other",
    "not known",
]
KINDS: Final[tuple[Kind, ...]] = cast("tuple[Kind, ...]", get_args(Kind))
"""The place of a kind in here is its code."""

_ENDS: Final = re.compile(
    r"</s>|<eos>|<\|endoftext\|>|<\|end_of_text\|>|<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|<\|eot\|>"
    r"|<end_of_turn>|<\|end\|>|<\|return\|>|<\|call\|>|<｜end▁of▁sentence｜>|\[EOS\]|<\|endofturn\|>"
)
_TOOL: Final = re.compile(
    r"</?\|?(?:tool_calls?|tool_response|tool_result|tool|function|function_call|tool▁\w+)\b[^<>]*>"
    r"|<[|｜][^<>]*tool[^<>]*[|｜]>|<\|python_tag\|>|\[/?TOOL_(?:CALLS|RESULTS)\]|\[AVAILABLE_TOOLS\]"
)
_THINKING: Final = re.compile(r"</?(?:think|thinking|thought|reasoning)>|\[/?THINK\]")
_MARKER: Final = re.compile(
    r"<\|[^|<>]*\|>|<｜[^｜<>]*｜>|</?(?:s|pad|bos|unk|mask|cls|sep|start_of_turn)>"
    r"|\[/?(?:INST|PAD|BOS|CLS|SEP|UNK|MASK|SYSTEM_PROMPT)\]"
)
_UNKNOWN: Final = re.compile(r"⟨(?:\d+|\?)⟩")
_CJK: Final = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003ffff]"
)
_CODE: Final = re.compile(
    r"[A-Za-z]_|_[A-Za-z]|[a-z][A-Z]|[A-Za-z]\(|[\])}]\s*[:;{]|->|=>|[=!<>+*/|&:-]=|::|\+\+|&&|\|\|"
    r"|//|/\*|\*/|[({\[][)}\]]|\{\n|\}\n|;\n|\b(?:def|elif|lambda|struct|const|printf|nullptr)\b"
)
_KEYWORDS: Final = frozenset(("def", "elif", "lambda", "struct", "const", "printf", "nullptr"))
_CAMEL: Final = re.compile(r"[a-z][A-Z]")


def kind_of(piece: str) -> Kind:
    """The kind of a piece by its display text; blanks before and after it do not count.

    Templates are those of ChatML, Llama 3, Gemma, gpt-oss, DeepSeek and Mistral. A model that spells a
    marker out in several tokens writes no such piece.
    """
    text = piece.strip()
    if not text:
        return "newline" if "\n" in piece else "whitespace"
    if text.isascii() and text.isalnum():  # most pieces: no pattern has more to say of them
        if text.isdigit():
            return "digits"
        return "code" if text in _KEYWORDS or _CAMEL.search(text) else "word"
    if _UNKNOWN.fullmatch(text):
        return "not known"
    for pattern, kind in _MARKERS:
        if pattern.fullmatch(text):
            return kind
    if "\ufffd" in text or text == PLACEHOLDER:
        return "part of a character"
    if _CJK.search(text):
        return "CJK"
    if text.isdigit():
        return "digits"
    if _CODE.search(piece):
        return "code"
    if not any(character.isalnum() for character in text):
        return "punctuation"
    return "word" if any(character.isalpha() for character in text) else "other"


_MARKERS: Final[tuple[tuple[re.Pattern[str], Kind], ...]] = (
    (_ENDS, "end of text"),
    (_TOOL, "tool tag"),
    (_THINKING, "thinking tag"),
    (_MARKER, "template"),
)


def kinds_of(pieces: Sequence[str], special: Collection[int] = ()) -> npt.NDArray[np.int8]:
    """[pieces] the code of each piece's kind, its place in KINDS.

    special: places in pieces that the tokenizer calls special: markers whatever they look like.
    """
    codes = {kind: code for code, kind in enumerate(KINDS)}
    result = np.array([codes[kind_of(piece)] for piece in pieces], np.int8)
    spoken = {codes[kind] for kind in ("digits", "punctuation", "CJK", "code", "word", "other")}
    for place in special:
        if result[place] in spoken:
            result[place] = codes["template"]
    return result
