"""Conversations of many rollouts: their texts, and what their turns did, as columns."""

from __future__ import annotations

from typing import Any

from board.core.texts.tool_use import tool_use
from board.formats.messages import conversation_text, message_texts, response_text, role_texts
from board.formats.outputs.answered_calls import tool_outputs
from board.formats.parse import is_list

Values = list[Any]


def take_conversations(
    texts: dict[str, Values],
) -> tuple[Values | None, Values | None, Values | None]:
    """Makes texts of prompts and responses that are messages. Role and text of each message of rows where
    both are, and the ToolOutputs and the ToolUse of these; None where no row has any.
    """
    parts: list[Values] = []
    for key, text_of in (("prompt", conversation_text), ("response", response_text)):
        values = texts.get(key, [])
        if list not in set(map(type, values)):
            continue
        own = [message_texts(value) if is_list(value) else None for value in values]
        texts[key] = [v if p is None else text_of(v, p) for v, p in zip(values, own, strict=True)]
        parts += values, own
    if len(parts) < 4:
        return None, None, None
    messages: Values = []
    outputs: Values = []
    tool_uses: Values = []
    for a, before, b, after, prompt in zip(*parts, texts["prompt"], strict=True):
        if before is None or after is None:
            messages.append(None)
            outputs.append(None)
            tool_uses.append(None)
        else:
            both = [*a, *b]
            messages.append(role_texts(both, [*before, *after]))
            outputs.append(tool_outputs(both, prompt or ""))
            tool_uses.append(tool_use(both))
    return messages, outputs, tool_uses
