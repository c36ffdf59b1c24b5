"""Who said what in a rollout, by the recorded segments of its tokens where there are any."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from board.core.records import Record
from board.core.texts.turns import from_markers, of_tokens, signs_in
from board.core.tokens.pieces import joined
from board.core.tokens.vocabulary import Vocabulary
from board.formats.messages import message_text
from board.index.whole_texts import response_tokens, whole_text

SPEAKERS: Final = (
    *("response", "prompt", "reasoning", "answer"),
    *("assistant", "user", "tool", "system"),
)
"""Whose words can be asked for; roles of segments, markers and messages are the last four."""

_THINKING: Final = frozenset(("reasoning", "thinking", "think", "thought", "analysis"))
_TAGS: Final = re.compile(
    r"(?P<begin><(?:think|thinking|thought|reasoning)>|\[THINK\]|\[reasoning\])"
    r"|(?P<end></(?:think|thinking|thought|reasoning)>|\[/THINK\]|\[/reasoning\])"
)


@dataclass(frozen=True, slots=True)
class Utterance:
    """Words of one speaker. first: the response token they begin with; None where that is not known.
    is_given: whether they were said before the response.
    """

    text: str
    first: int | None = None
    is_given: bool = False


def utterances(record: Record, vocabulary: Vocabulary | None, by: str) -> list[Utterance] | None:
    """What one of SPEAKERS said; empty where nothing, None where the log does not record who spoke.

    Roles are those of recorded segments over the response's tokens, else of its chat-template markers,
    else of messages; token ids without a vocabulary are no words. Reasoning: segments of such a role,
    else the text between thinking tags. Answer: the rest of the response, or of the assistant's part
    where roles are known.
    """
    if by in ("response", "prompt"):
        text = whole_text(record, vocabulary, by)
        return None if text is None else [Utterance(text, is_given=by == "prompt")]
    segments = _token_segments(record, vocabulary)
    if by in ("reasoning", "answer"):
        return _reasoning_or_answer(record, vocabulary, segments, by)
    if segments:
        return [*_given_words(record, by), *(one for role, one in segments if role == by)]
    return [*_message_words(record, by)] if record.messages else None


def split_reasoning(texts: Sequence[str], by: str) -> list[str] | None:
    """The reasoning or the answer in what an assistant said; None where no thinking tag marks any
    reasoning.

    An end tag without a begin tag: the chat template began the reasoning.
    """
    parts = [part for text in texts for part in _parts(text)]
    if by == "reasoning" and not any(kind == by for kind, _ in parts):
        return None
    return [text for kind, text in parts if kind == by]


def _parts(text: str) -> list[tuple[str, str]]:
    """The text cut at thinking tags, each part as reasoning or answer."""
    tags = [*signs_in(text, _TAGS)]
    is_reasoning = bool(tags) and tags[0].group("end") is not None
    parts: list[tuple[str, str]] = []
    start = 0
    for tag in tags:
        parts.append(("reasoning" if is_reasoning else "answer", text[start : tag.start()]))
        is_reasoning, start = tag.group("begin") is not None, tag.end()
    parts.append(("reasoning" if is_reasoning else "answer", text[start:]))
    return [(kind, part) for kind, part in parts if part.strip() or kind == "reasoning"]


def _token_segments(record: Record, vocabulary: Vocabulary | None) -> list[tuple[str, Utterance]]:
    """Role and words of each segment of the response's tokens; empty where roles are not known."""
    tokens, are_ids = response_tokens(vocabulary, record)
    if are_ids:
        return []
    return [
        (_role(turn.role, turn.name), Utterance(joined(tokens[turn.start : turn.end]), turn.start))
        for turn in of_tokens(tokens, record.segments)
    ]


def _role(role: str, name: str) -> str:
    return "reasoning" if {role.lower(), name.lower()} & _THINKING else role


def _given_words(record: Record, by: str) -> Iterator[Utterance]:
    """What a role said in the prompt, by its markers, else by the messages before the first answer."""
    prompt = record.texts.get("prompt", "")
    turns = from_markers(prompt)
    if turns:
        yield from (
            Utterance(prompt[t.start : t.end], is_given=True) for t in turns if t.role == by
        )
    else:
        yield from (one for one in _message_words(record, by) if one.is_given)


def _message_words(record: Record, by: str) -> Iterator[Utterance]:
    given = sum(1 for _ in takewhile(_is_given, record.messages))
    for place, message in enumerate(record.messages):
        if message.get("role") == by:
            yield Utterance(message_text(message), is_given=place < given)


def _is_given(message: Mapping[str, Any]) -> bool:
    return message.get("role") != "assistant"


def _reasoning_or_answer(
    record: Record,
    vocabulary: Vocabulary | None,
    segments: Sequence[tuple[str, Utterance]],
    by: str,
) -> list[Utterance] | None:
    if any(role == "reasoning" for role, _ in segments):
        wanted = "reasoning" if by == "reasoning" else "assistant"
        return [one for role, one in segments if role == wanted]
    texts = [one.text for role, one in segments if role == "assistant"]
    if not texts:
        texts = _assistant_texts(record, vocabulary)
    found = split_reasoning(texts, by) if texts else None
    return None if found is None else [Utterance(text) for text in found]


def _assistant_texts(record: Record, vocabulary: Vocabulary | None) -> list[str]:
    """The response; of a log of messages alone, those of the assistant."""
    tokens, are_ids = response_tokens(vocabulary, record)
    if "response" in record.texts or not record.messages or (tokens and not are_ids):
        text = whole_text(record, vocabulary, "response")
        return [] if text is None else [text]
    return [one.text for one in _message_words(record, "assistant")]
