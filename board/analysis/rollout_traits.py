"""What a rollout is like, of its record: texts, and every number and short text of its line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from board.core.records import Record, is_number
from board.core.texts.traits import LENGTH, Traits, ends_of, last_sign, numbers_of_text, words_of
from board.core.tokens.vocabulary import Vocabulary
from board.errors import RecordError
from board.formats.messages import message_text
from board.index.whole_texts import whole_text

_MOST_NAMES: Final = 60
_DEEPEST: Final = 3
_LONGEST: Final = 80
"""Characters of a text that may be a value which many rollouts have."""
_BEGIN: Final = (32, 160)
_END: Final = 24
_MOST_TOOLS: Final = 4
_TOOL_READ: Final = 300
_LEAST_TRUTH: Final = 2
_PLACE: Final = re.compile(
    r"(?:.*[._])?(?:rank|worker|node|host|replica|server|device|shard)(?:_?id)?"
)
"""Names of numbers that say where a rollout was made, and are no amounts."""


def traits_of(record: Record, vocabulary: Vocabulary | None = None) -> Traits:
    """What a rollout is like; what is not known is left out."""
    numbers: dict[str, float] = dict(record.scores)
    values: dict[str, str] = {}
    for name, value in _leaves(record.extras):
        if isinstance(value, str) or _PLACE.fullmatch(name):
            values[name] = str(value)
        else:
            numbers[name] = float(value)
    numbers.pop("reward", None)
    prompt, response = (_text(record, vocabulary, name) for name in ("prompt", "response"))
    words: dict[str, frozenset[str]] = {}
    if prompt:
        words["prompts"] = _words_of_prompt(ends_of(prompt))
        for length in _BEGIN:
            values[f"first {length} characters of prompts"] = prompt[:length]
        values[f"last {_END} characters of prompts"] = prompt[-_END:]
    if system := _system(record):
        values["system prompt"] = system
    if response is not None:
        read = ends_of(response)
        terms = words_of(read)
        words["responses"] = frozenset(terms)
        numbers |= numbers_of_text(read, terms)
        numbers[LENGTH] = float(len(response))
        values["first word of responses"] = terms[0] if terms else ""
        values["last sign of responses"] = last_sign(read)
    tools = [m for m in record.messages if m.get("role") == "tool"][-_MOST_TOOLS:]
    if tools:
        read = "\n".join(message_text(message)[:_TOOL_READ] for message in tools)
        words["tool outputs"] = frozenset(words_of(read))
    truth = (record.texts.get("ground_truth") or "").strip()
    if len(truth) >= _LEAST_TRUTH:
        for name, text in (("prompts", prompt), ("responses", response)):
            if text:
                numbers[f"share of {name} with the ground truth in them"] = float(truth in text)
    return Traits(numbers, values, words)


@lru_cache(64)
def _words_of_prompt(text: str) -> frozenset[str]:
    return frozenset(words_of(text))  # a group has one prompt


def _text(record: Record, vocabulary: Vocabulary | None, name: str) -> str | None:
    try:
        return whole_text(record, vocabulary, name)
    except RecordError:
        return None


def _system(record: Record) -> str:
    """The beginning of the first message where it is the system's."""
    first = record.messages[0] if record.messages else {}
    return message_text(first)[:_LONGEST] if first.get("role") == "system" else ""


def _leaves(extras: Mapping[str, Any]) -> Iterator[tuple[str, float | str]]:
    """Numbers and short texts of a line, those of nested objects under names with dots."""
    left = _MOST_NAMES
    for leaf in _nested(extras, "", _DEEPEST):
        yield leaf
        left -= 1
        if not left:
            return


def _nested(
    values: Mapping[str, Any], before: str, deepest: int
) -> Iterator[tuple[str, float | str]]:
    for key, value in values.items():
        if isinstance(value, bool) or (is_number(value) and math.isfinite(value)):
            yield f"{before}{key}", float(value)
        elif isinstance(value, str) and len(value) <= _LONGEST:
            yield f"{before}{key}", value
        elif isinstance(value, dict) and deepest:
            yield from _nested(value, f"{before}{key}.", deepest - 1)
