"""Where in a conversation the prompt ends: a prompt may hold answers, as examples of what is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from board.core.texts.messages import as_parts, part_text

_Messages = Sequence[Mapping[str, Any]]


def prompt_length(messages: _Messages, prompt: str | None, response: str | None) -> int:
    """How many of the messages are the prompt.

    As the texts of the log say: those before are in the prompt, and what the assistant says from there on
    is in the response, which may come after all of them. Where they do not say it, the response begins
    with the assistant's first message.
    """
    roles = [message.get("role") for message in messages]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    if first >= len(roles) - 1:
        return first
    if roles[-1] != "assistant" and response is not None and _is_other(messages, response):
        return len(roles)
    if prompt is None:
        return first
    begun = _count_within(messages, prompt)
    starts = [at for at in range(1, begun + 1) if _may_begin(roles, at)]
    if response is not None:
        for at in starts:
            answers = [message for message in messages[at:] if message.get("role") == "assistant"]
            if answers and _count_within(answers, response) == len(answers):
                return at
    return starts[-1] if starts else first


def _may_begin(roles: Sequence[object], at: int) -> bool:
    """Whether the response may begin before that message, or after the last one."""
    answers = at == len(roles) or roles[at] == "assistant"
    return answers and roles[at - 1] != "assistant"


def _is_other(messages: _Messages, response: str) -> bool:
    """Whether nothing that the assistant says in the messages is of the response, which comes after."""
    answers = [_said(message) for message in messages if message.get("role") == "assistant"]
    return all(answers) and not any(one in response or response.strip() in one for one in answers)


def _said(message: Mapping[str, Any]) -> str:
    parts = map(part_text, as_parts(message.get("content")))
    return "".join(part for part in parts if part is not None).strip()


def _count_within(messages: _Messages, text: str) -> int:
    """How many of the first messages stand in a text in their order; a system prompt need not."""
    end = 0
    for count, message in enumerate(messages):
        said = _said(message)
        at = text.find(said, end)
        if at >= 0:
            end = at + len(said)
        elif message.get("role") not in ("system", "developer"):
            return count
    return len(messages)
