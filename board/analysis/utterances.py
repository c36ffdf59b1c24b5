"""Who says what in a rollout, and where a phrase or regular expression is said first.

Python's `re` may take for ever on a pattern such as (a+)+$, and holds up every page of the server
meanwhile. RE2 (https://github.com/google/re2), which pyarrow brings along, can't: it has no look-around
and no back-references, and says so. Case is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from board.analysis.rollout import OpenRollout
from board.core.arrays import IntArray
from board.core.records import Record
from board.core.texts.turns import at_character, from_markers, of_tokens, signs_in, token_starts
from board.core.tokens.pieces import joined
from board.core.tokens.vocabulary import Vocabulary
from board.errors import ChoiceError
from board.formats.messages import message_text
from board.index.whole_texts import response_tokens, whole_text
from board.query.open_run import Run

MOST_CHARACTERS: Final = 1000


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is looked for. text: as it was given; expression: as RE2 reads it."""

    text: str
    expression: str

    def counts(self, texts: Sequence[str]) -> IntArray:
        """[texts] how often it is said in each."""
        counts = pc.count_substring_regex(_array(texts), self.expression)
        return np.asarray(counts.to_numpy(zero_copy_only=False), np.int64)

    def counts_in_lists(self, texts: Any) -> IntArray:
        """[n] how often it is said in each list of texts, 0 where there is none. texts: an Arrow array of
        lists of valid UTF-8, [n].
        """
        times = pc.count_substring_regex(pc.list_flatten(texts), self.expression).to_numpy()
        lists = pc.list_parent_indices(texts).to_numpy()
        return np.bincount(lists, times, len(texts)).astype(np.int64)

    def first(self, text: str) -> int:
        """The character at which it is first said; -1 where it is not."""
        whole = _clean(text)
        (at,) = pc.find_substring_regex(_array([whole]), self.expression).to_pylist()
        return len(whole.encode()[:at].decode()) if at >= 0 else -1


def compiled(text: str, *, regex: bool = False) -> Pattern:
    """A phrase, or with regex a regular expression. Raises ChoiceError on none."""
    if len(text) > MOST_CHARACTERS:
        raise ChoiceError(f"the pattern has more than {MOST_CHARACTERS} characters")
    pattern = Pattern(text, f"(?i){text if regex else re.escape(_clean(text))}")
    try:
        pattern.counts([""])
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise ChoiceError(
            f"{text[:80]!r} is not a valid RE2 regular expression; RE2 has no look-around, no "
            f"back-references and at most 1000 repetitions: {reason[:200]}"
        ) from None
    return pattern


def _array(texts: Sequence[str]) -> Any:
    return pa.array([_clean(text) for text in texts], pa.large_string())


def _clean(text: str) -> str:
    """The text with halves of characters, which no encoding has, as question marks."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


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


def _given_words(record: Record, by: str) -> list[Utterance]:
    """What a role said in the prompt, by its markers, else by the messages before the first answer."""
    prompt = record.texts.get("prompt", "")
    if turns := from_markers(prompt):
        texts = (prompt[turn.start : turn.end] for turn in turns if turn.role == by)
        return [Utterance(text, is_given=True) for text in texts]
    return [one for one in _message_words(record, by) if one.is_given]


def _message_words(record: Record, by: str) -> Iterator[Utterance]:
    is_given = True
    for message in record.messages:
        is_given = is_given and message.get("role") != "assistant"
        if message.get("role") == by:
            yield Utterance(message_text(message), is_given=is_given)


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
    parts = split_reasoning(texts, by) if texts else None
    return None if parts is None else [Utterance(text) for text in parts]


def _assistant_texts(record: Record, vocabulary: Vocabulary | None) -> list[str]:
    """The response; of a log of messages alone, those of the assistant."""
    tokens, are_ids = response_tokens(vocabulary, record)
    if "response" in record.texts or not record.messages or (tokens and not are_ids):
        text = whole_text(record, vocabulary, "response")
        return [] if text is None else [text]
    return [one.text for one in _message_words(record, "assistant")]


_CONTEXTS: Final = (120, 30, 10)
"""Characters before and after a hit by which it is looked for among the tokens' text."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The first place in a rollout where it is said. before, after: up to `around` characters; after
    begins with the words themselves. token: the response token it begins in; None where that is not
    known, and `unplaced` says why.
    """

    before: str
    after: str
    token: int | None
    unplaced: str = ""


def hit_in(run: Run, opened: OpenRollout, pattern: Pattern, by: str, around: int) -> Hit | None:
    """Where one of SPEAKERS says it first; None where none does."""
    for utterance in utterances(opened.record, run.vocabulary, by) or ():
        at = pattern.first(utterance.text)
        if at >= 0:
            first = max(at - around, 0)
            before = ("…" if first else "") + utterance.text[first:at]
            end = at + around
            after = utterance.text[at:end] + ("…" if end < len(utterance.text) else "")
            unplaced = _unplaced(opened, utterance)
            token = None if unplaced else _token_of(opened, utterance, at)
            if token is None and not unplaced:
                unplaced = "These words do not occur exactly once in the text of the tokens."
            return Hit(before, after, token, unplaced)
    return None


def _unplaced(opened: OpenRollout, utterance: Utterance) -> str:
    """Why no token is known; empty where one may be."""
    if utterance.is_given:
        return "This was said before the response, so no response token corresponds to it."
    if not opened.tokens:
        return "The log holds no tokens of this response."
    if opened.tokens_are_ids:
        return "The log holds token ids and no vocabulary: choose a tokenizer in the reader on Rollouts."
    return ""


def _token_of(opened: OpenRollout, utterance: Utterance, at: int) -> int | None:
    """The token of a character of an utterance: counted from where it begins, else by its context."""
    if utterance.first is not None:
        starts = token_starts(opened.tokens[utterance.first :])
        return utterance.first + at_character(starts, at)
    place = _aligned(joined(opened.tokens), utterance.text, at)
    return None if place is None else at_character(token_starts(opened.tokens), place)


def _aligned(whole: str, text: str, at: int) -> int | None:
    """The place in the tokens' text of a character of another text of the same words.

    By the whole other text where it occurs there once, else by what is around the character: a message
    may be written another way than the tokens were, as tool calls are. None where nothing fits, or more
    than one place does.
    """
    blank = len(text) - len(text.lstrip())
    spans = [(blank, len(text.rstrip()))]
    spans += [(max(at - n, 0), min(at + n, len(text))) for n in _CONTEXTS]
    for first, end in spans:
        place = whole.find(text[first:end])
        if place >= 0:
            is_only = whole.find(text[first:end], place + 1) < 0
            return place + at - first if is_only else None
    return None
