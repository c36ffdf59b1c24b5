"""The whole texts of a rollout, as the index holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final

from xxhash import xxh3_64_digest

from board.core.records import NumberArray, Record
from board.core.tokens.pieces import detect_coding, display_pieces, joined
from board.core.tokens.vocabulary import Vocabulary, id_texts
from board.formats.messages import message_text
from board.index.segments import PROMPT_KEY, WHOLE

TEXTS: Final = ("prompt", "response")
"""Texts of which a row has a preview."""
_WITHOUT_PREVIEW: Final = ("ref_response", "ground_truth")


def text_columns(
    record: Record, vocabulary: Vocabulary | None, previews: Mapping[str, str | None]
) -> dict[str, str | int]:
    """Columns segments.WHOLE_TEXTS of a rollout's row, and PROMPT_KEY where its prompt is no text.

    previews: of prompt and response; one that is the whole text is not stored twice. Raises RecordError
    where token ids can't be read.
    """
    found: dict[str, str | int] = {}
    texts: list[str] = []
    for name, preview in previews.items():
        text = whole_text(record, vocabulary, name)
        if text is not None:
            texts.append(text)
            if text != preview:
                found[WHOLE + name] = text
        elif name == "prompt" and record.prompt_ids is not None:
            found[PROMPT_KEY] = key_of_ids(record.prompt_ids)
    for name in _WITHOUT_PREVIEW:
        if name in record.texts:
            found[WHOLE + name] = record.texts[name]
    messages = [message_text(message) for message in record.messages]
    others = [text for text in messages if not any(text in one for one in texts)]
    if others:
        found[WHOLE + "messages"] = "\n".join(others)
    return found


def whole_text(record: Record, vocabulary: Vocabulary | None, name: str) -> str | None:
    """The whole prompt or response; None where no text of it is known.

    As recorded, else decoded from tokens, else the messages before the first one of the assistant, and
    from there on. Raises RecordError where token ids can't be read.
    """
    if name in record.texts:
        return record.texts[name]
    tokens = _tokens(record, vocabulary, name)
    if tokens:
        return joined(tokens)
    if not record.messages:
        return None
    given = sum(1 for _ in takewhile(lambda m: m.get("role") != "assistant", record.messages))
    messages = record.messages[:given] if name == "prompt" else record.messages[given:]
    return "\n".join(map(message_text, messages))


def _tokens(record: Record, vocabulary: Vocabulary | None, name: str) -> Sequence[str]:
    """Display texts of the tokens; none where only their ids are known."""
    if name == "response" and record.response_tokens is not None:
        return response_tokens(vocabulary, record)[0]
    ids = record.prompt_ids if name == "prompt" else record.response_ids
    return () if ids is None or vocabulary is None else vocabulary.texts(ids.values())


def response_tokens(vocabulary: Vocabulary | None, record: Record) -> tuple[list[str], bool]:
    """Display text of each response token, and whether ids stand in the place of text."""
    if record.response_tokens is not None:
        pieces = list(record.response_tokens)
        return display_pieces(pieces, detect_coding(pieces, record.texts.get("response"))), False
    if record.response_ids is None:
        return [], False
    ids = record.response_ids.values()
    if vocabulary is not None:
        return vocabulary.texts(ids), False
    return id_texts(ids), True


def prompt_tokens(vocabulary: Vocabulary | None, record: Record) -> tuple[str, ...] | None:
    """Display text of each prompt token; None where the log has no prompt ids."""
    if record.prompt_ids is None:
        return None
    ids = record.prompt_ids.values()
    return tuple(vocabulary.texts(ids) if vocabulary else id_texts(ids))


def key_of_text(text: str) -> int:
    """The key of a prompt."""
    return _hashed(text.encode("utf-8", "surrogatepass"))


def key_of_ids(ids: NumberArray) -> int:
    """The key of a prompt that is token ids alone. Raises RecordError where they can't be read."""
    return _hashed(ids.values().tobytes())


def _hashed(content: bytes) -> int:
    return int.from_bytes(xxh3_64_digest(content), "big", signed=True)
