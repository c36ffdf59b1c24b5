"""How many turns a model took, which tools it called, and how many of the results are errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from board.core.texts.conversation import ConversationTurn, conversation_of
from board.core.texts.messages import TOOL_ROLES, UNNAMED

_KEYS: Final = frozenset(("tool_calls", "function_call"))
_TAGS: Final = re.compile(r"</?(?:tool|function)_", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ToolUse:
    """turns: of the assistant. calls: by the tool's name; errors: how many of their results are errors.
    answered: by name how many results are recorded.
    """

    turns: int
    calls: Mapping[str, int]
    answered: Mapping[str, int]
    errors: Mapping[str, int]


def tool_use(messages: Sequence[Mapping[str, Any]]) -> ToolUse | None:
    """What a conversation has of it, as the reader shows its calls and results; None where the assistant
    has no turn in it.

    A result without a call counts as one: the call is in no message. Which results are errors says
    messages.RULE.
    """
    roles = [message.get("role") for message in messages]
    if not (turns := roles.count("assistant")):
        return None
    calls, answered, errors = Counter[str](), Counter[str](), Counter[str]()
    if any(map(_may_call, messages)):
        for turn in conversation_of(messages, {}):
            _count(turn, calls, answered, errors)
    return ToolUse(turns, calls, answered, errors)


def _may_call(message: Mapping[str, Any]) -> bool:
    """Whether a message may hold a call or a result; of most it is sure that they do not."""
    role, content = message.get("role"), message.get("content")
    if (isinstance(role, str) and role in TOOL_ROLES) or not _KEYS.isdisjoint(message):
        return True
    if isinstance(content, str):
        return role == "assistant" and "<" in content and bool(_TAGS.search(content))
    return content is not None


def _count(
    turn: ConversationTurn,
    calls: Counter[str],
    answered: Counter[str],
    errors: Counter[str],
) -> None:
    for rank, block in enumerate(turn.blocks):
        result = turn.results.get(rank) if block.kind == "call" else block
        if block.kind not in ("call", "result"):
            continue
        name = block.name or (result.name if result else "") or turn.name or UNNAMED
        calls[name] += 1
        if result is not None:
            answered[name] += 1
            errors[name] += bool(result.error)
