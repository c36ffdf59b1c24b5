"""The tokens of a rollout as the reader takes them: prompt, segments, and values of every metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from board.analysis.rollout import OpenRollout
from board.components.token_data import PromptPart, TokenContent, TokenSegment
from board.core.arrays import FloatArray, with_length
from board.core.metrics.definitions import Metric, in_menu_order, token_metric
from board.core.texts.messages import TOOL_ROLES, error_within
from board.core.texts.turns import (
    from_markers,
    from_messages,
    of_tokens,
    over_tokens,
    token_starts,
    without_gaps,
    without_markers,
)
from board.core.tokens.pieces import joined

MaskedFloats = np.ma.MaskedArray[Any, np.dtype[np.float64]]

_MARKER_CHARACTERS: Final = 32
_MARKER_TOKENS: Final = 6
"""What a chat template writes before a message is at most so long."""


def has_tokens(opened: OpenRollout) -> bool:
    """Whether there is anything to show token by token."""
    recorded = opened.record.response_ids, opened.record.response_tokens
    return any(one is not None for one in recorded) or bool(opened.metrics)


def content_of(opened: OpenRollout) -> TokenContent:
    """A rollout as the reader takes it."""
    length = len(opened.tokens)
    # An array may be longer than there are tokens.
    count = max([length, *(len(values) for values in opened.metrics.values())])
    metrics = metrics_of(opened, count)
    ids = opened.record.response_ids
    return TokenContent(
        [*opened.tokens, *[""] * (count - length)],
        metrics,
        specs_of(metrics),
        loss_mask=metrics.get("loss_mask"),
        ids=None if ids is None or len(ids) != length else _masked(ids.values(), count),
        surplus=count - length,
        segments=segments_of(opened, count),
        prompt=prompt_parts(opened),
        top_k=opened.top_k,
        advantage=opened.record.scores.get("advantage"),
        clip=opened.clip,
    )


def metrics_of(opened: OpenRollout, count: int) -> dict[str, MaskedFloats]:
    """Name -> [count] values in the order of the menu; what is not recorded is masked."""
    return {name: _masked(opened.metrics[name], count) for name in in_menu_order(opened.metrics)}


def _masked(values: FloatArray, length: int) -> MaskedFloats:
    """[length] values; NaN and what is missing at the end are masked. NaN alone was measured so."""
    padded = with_length(values, length)
    missing = np.isnan(padded)
    if missing[: len(values)].all():
        missing[: len(values)] = False
    return np.ma.masked_array(padded, mask=missing)


def specs_of(metrics: Mapping[str, Any]) -> dict[str, Metric]:
    """Words for the arrays that the board knows; the reader finds words for the others itself."""
    known = {name: token_metric(name) for name in metrics}
    return {name: metric for name, metric in known.items() if metric.label != name}


def segments_of(opened: OpenRollout, count: int) -> list[TokenSegment]:
    """Who speaks in which of `count` tokens: as recorded, by chat markers, or by messages."""
    turns = of_tokens(opened.tokens, opened.record.segments, opened.record.messages)
    segments: list[TokenSegment] = []
    for turn in without_gaps(turns, count, ""):
        error = ""
        if turn.role in TOOL_ROLES:
            text = without_markers(joined(opened.tokens[turn.start : turn.end]), closing=True)
            error = error_within(text, opened.record.messages)
        segments.append(TokenSegment(turn.start, turn.end, turn.role, turn.name, error))
    return segments


def prompt_parts(opened: OpenRollout) -> list[PromptPart]:
    """What was given to the model, by role: from its tokens, its text, or the messages before."""
    if opened.prompt_tokens is not None:
        return _parts_of_tokens(opened.prompt_tokens, opened)
    prompt = opened.record.texts.get("prompt")
    if prompt is not None:
        turns = from_markers(prompt) or from_messages(prompt, opened.record.messages)
        covered = without_gaps(turns, len(prompt), "prompt", _MARKER_CHARACTERS)
        return [PromptPart(prompt[t.start : t.end], t.role, t.name) for t in covered]
    return _parts_of_messages(opened)


def _parts_of_tokens(tokens: Sequence[str], opened: OpenRollout) -> list[PromptPart]:
    text = joined(tokens)
    turns = from_markers(text, token_starts(tokens)) or from_messages(text, opened.record.messages)
    recorded = opened.record.prompt_ids
    ids = [] if recorded is None else recorded.values().tolist()
    parts: list[PromptPart] = []
    for turn in without_gaps(over_tokens(turns, tokens), len(tokens), "prompt", _MARKER_TOKENS):
        own = tokens[turn.start : turn.end]
        known = ids[turn.start : turn.end] if len(ids) == len(tokens) else ()
        parts.append(PromptPart(joined(own), turn.role, turn.name, own, known))
    return parts


def _parts_of_messages(opened: OpenRollout) -> list[PromptPart]:
    """Messages up to the first one that is part of the response."""
    response = joined(opened.tokens)
    parts: list[PromptPart] = []
    for message in opened.record.messages:
        content = message.get("content")
        if not isinstance(content, str):
            continue
        if content.strip() and content.strip() in response:
            break
        role, name = str(message.get("role", "")), str(message.get("name") or "")
        parts.append(PromptPart(content, role, name))
    return parts
