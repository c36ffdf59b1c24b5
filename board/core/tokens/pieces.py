"""Tokenizer pieces as text a reader can follow, one string per token.

Byte-level BPE (GPT-2, Llama 3, Qwen) writes every byte as one printable character, so " the" is "Ġthe"
and one Chinese character may lie on three tokens. SentencePiece (Llama 2, Mistral, Gemma) writes a space
as "▁" and bytes outside its vocabulary as "<0xE4>". Loggers write either of these, or decoded text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Final, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

Coding = Literal["byte_level", "metaspace", "text"]
"""GPT-2's byte alphabet; SentencePiece with byte fallback; already text, shown as it is."""

PLACEHOLDER = "\ufdd0"
"""Stands on a token whose bytes are the beginning of a character that a later token completes. A code
point that Unicode sets aside for such use, so that no text of a model is taken for it."""

PLACEHOLDER_SIGN = "·"
"""What a reader sees in its place where tokens are listed one by one."""

UNKNOWN_PIECE = "⟨?⟩"
"""Stands on a token whose piece is not known (None)."""

_WORDS: Final = re.compile(r"\S+\s*|\s+")
_BYTE_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPECIAL = re.compile(r"<\|[^|<>]*\|>|<｜[^｜<>]*｜>|</?(?:s|pad|eos|bos|unk)>|\[(?:PAD|EOS|BOS)\]")


def display_pieces(pieces: Sequence[str | None], coding: Coding) -> list[str]:
    """Text to show for each token [n], in order; None is a piece that is not known.

    A character whose bytes lie on several tokens is shown on the token that completes it and the tokens
    before it hold `PLACEHOLDER`; bytes that never become a character show as U+FFFD. Special tokens show
    as they are written. Raises ValueError when the coding is none of the three.
    """
    exact = _decoded(pieces, coding)
    return [
        PLACEHOLDER if piece and not text else text
        for piece, text in zip(pieces, exact, strict=True)
    ]


def display_alone(pieces: Sequence[str], coding: Coding) -> list[str]:
    """Text to show for each piece by itself, as display_pieces has it of a list of that piece alone."""
    if coding == "text":
        return [*pieces]
    to_bytes, literal = _CODINGS[coding]
    return [
        literal(piece) if (raw := to_bytes(piece)) is None else raw.decode("utf-8", "replace")
        for piece in pieces
    ]


def joined(tokens: Sequence[str]) -> str:
    """The text that display texts of tokens make together."""
    return "".join(token for token in tokens if token != PLACEHOLDER)


def words(text: str) -> list[str]:
    """A text cut after its blanks, to be shown where no tokens are known; joined they are the text."""
    return _WORDS.findall(text)


def detect_coding(pieces: Sequence[str | None], text: str | None) -> Coding:
    """How a response's pieces are written, judged by its text, None where that is not recorded.

    "Ġ" or "▁" alone prove nothing: a model may have written those very characters. Raw is said only
    where decoding the pieces gives the response text and the pieces as they are do not; special tokens
    and blanks at the ends, which many writers drop from the text, are left out of the comparison.
    """
    if not text:
        return "text"
    known = ["" if piece is None else piece for piece in pieces]
    whole = "".join(known)
    if whole == text:  # nearly always
        return "text"
    target = _bare(text)
    if _bare(whole) == target:
        return "text"
    for coding in ("byte_level", "metaspace"):
        if _bare("".join(_decoded(known, coding))) == target:
            return coding
    return "text"


def _decoded(pieces: Sequence[str | None], coding: Coding) -> list[str]:
    """Each token's part of the whole text; empty where a later token completes the character."""
    if coding == "text":
        return [UNKNOWN_PIECE if piece is None else piece for piece in pieces]
    if coding not in _CODINGS:
        expected = "expected 'byte_level', 'metaspace' or 'text' (see detect_coding)"
        raise ValueError(f"coding is {coding!r}; {expected}")
    return _join_bytes(pieces, *_CODINGS[coding])


@cache
def _byte_alphabet() -> dict[str, int]:
    """Printable Latin-1 bytes are themselves, the rest from U+0100 on, as in GPT-2's bytes_to_unicode
    (https://github.com/openai/gpt-2/blob/master/src/encoder.py).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    shifted = (byte for byte in range(256) if byte not in printable)
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(0x100 + rank): byte for rank, byte in enumerate(shifted)})
    return alphabet


def _byte_level_bytes(piece: str) -> bytes | None:
    alphabet = _byte_alphabet()
    try:
        return bytes([alphabet[char] for char in piece])
    except KeyError:
        return None


def _fallback_byte(piece: str) -> bytes | None:
    match = _BYTE_FALLBACK.fullmatch(piece)
    return bytes([int(match[1], 16)]) if match else None


_CODINGS: Final[Mapping[str, tuple[Callable[[str], bytes | None], Callable[[str], str]]]] = {
    "byte_level": (_byte_level_bytes, str),
    "metaspace": (_fallback_byte, lambda piece: piece.replace("▁", " ")),
}
"""How a piece becomes bytes (None: it has none of its own) and, where it has none, text."""


def _join_bytes(
    pieces: Sequence[str | None],
    to_bytes: Callable[[str], bytes | None],
    literal: Callable[[str], str],
) -> list[str]:
    """Decode runs of byte pieces as one UTF-8 stream; a piece without bytes ends the run."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts: list[str] = []

    def end_run() -> None:
        if tail := decoder.decode(b"", final=True):
            texts[-1] += tail

    for piece in pieces:
        raw = None if piece is None else to_bytes(piece)
        if raw is not None:
            texts.append(decoder.decode(raw))
            continue
        end_run()
        texts.append(UNKNOWN_PIECE if piece is None else literal(piece))
    end_run()
    return texts


def _bare(text: str) -> str:
    return _SPECIAL.sub("", text).strip().rstrip("\ufffd").rstrip()


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
    spoken = [codes[kind] for kind in ("digits", "punctuation", "CJK", "code", "word", "other")]
    own = np.array([*special], np.int64)
    result[own[np.isin(result[own], spoken)]] = codes["template"]
    return result
