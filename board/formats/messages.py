"""Chat messages as text: what is no text (images, tool calls, reasoning) is named where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard, cast

from board.core.texts.message_parts import REASONING, part_name, part_text, reasoning_of, tool_calls

_BESIDE_CONTENT: Final = frozenset((*REASONING, "tool_calls"))

Message = Mapping[str, Any]


def is_messages(value: object) -> TypeGuard[list[dict[str, Any]]]:
    """Whether a value is a list of chat messages, of at least one."""
    if not isinstance(value, list) or not value:
        return False
    entries = cast("list[object]", value)
    for entry in entries:  # noqa: SIM110 - a generator costs as much as all that follows
        if not isinstance(entry, dict) or "role" not in entry:
            return False
    return True


def without_nulls(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages without the keys that hold null: a table has every key in every message."""
    return [{k: v for k, v in message.items() if v is not None} for message in messages]


def message_text(message: Message) -> str:
    """The text of a chat message: reasoning, content, then tool calls, each under its name.

    Parts that are no text stand in brackets, images with their size: [image 640×480], [image 34 kB].
    """
    content = message.get("content")
    if type(content) is str and _BESIDE_CONTENT.isdisjoint(message):  # most: text alone
        return content
    said = content if type(content) is str else _content(content)
    blocks = [_reasoning(message), said, *_tool_calls(message)]
    return "\n".join(filter(None, blocks))


def role_texts(messages: Sequence[Message], texts: Sequence[str]) -> list[tuple[str | None, str]]:
    """Role and text of each message; the role is None where it is not a string."""
    roles = (message.get("role") for message in messages)
    return [
        (role if isinstance(role, str) else None, text)
        for role, text in zip(roles, texts, strict=True)
    ]


def message_texts(messages: Sequence[Message]) -> list[str]:
    """The text of each message."""
    texts: list[str] = []
    for message in messages:
        content = message.get("content")
        is_plain = type(content) is str and len(message) == 2 and message.get("role") is not None
        texts.append(cast("str", content) if is_plain else message_text(message))
    return texts


def conversation_text(messages: Sequence[Message], texts: Sequence[str] | None = None) -> str:
    """Messages in reading order, each under its role. texts: of the messages, where they are known."""
    roles = (message.get("role") for message in messages)
    pairs = zip(roles, message_texts(messages) if texts is None else texts, strict=True)
    return "\n\n".join(f"[{'?' if role is None else role}]\n{text}" for role, text in pairs)


def response_text(messages: Sequence[Message], texts: Sequence[str] | None = None) -> str:
    """What was generated: the text of one message alone, of several under their roles."""
    texts = message_texts(messages) if texts is None else texts
    return texts[0] if len(messages) == 1 else conversation_text(messages, texts)


def parsed_text(value: Any) -> Any:
    """What JSON in a text says; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _reasoning(message: Message) -> str:
    text = reasoning_of(message)
    return f"[reasoning]\n{text}\n[/reasoning]" if text else ""


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part) for part in cast("list[object]", content))
    return "" if content is None else str(content)


def _part(part: object) -> str:
    text = part_text(part)
    return f"[{part_name(part)}]" if text is None else text


def _tool_calls(message: Message) -> Iterator[str]:
    for call in tool_calls(message):
        said = call.arguments
        text = said if isinstance(said, str) else json.dumps(said, default=str)
        yield f"[tool call] {call.name}({text})"
