"""Chat messages as text: what is no text (images, tool calls, reasoning) is named where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard, cast

import orjson

_TEXTS: Final = ("text", "thinking", "reasoning", "input_text", "output_text")
_REASONING: Final = ("reasoning_content", "reasoning", "thinking")
_BESIDE_CONTENT: Final = frozenset((*_REASONING, "tool_calls"))
_MEDIA: Final = ("image", "video", "audio")

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


def conversation_text(messages: Sequence[Message]) -> str:
    """Messages in reading order, each under its role."""
    turns: list[str] = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        is_plain = type(content) is str and len(message) == 2 and role is not None
        text = content if is_plain else message_text(message)
        turns.append(f"[{'?' if role is None else role}]\n{text}")
    return "\n\n".join(turns)


def response_text(messages: Sequence[Message]) -> str:
    """What was generated: the text of one message alone, of several under their roles."""
    return message_text(messages[0]) if len(messages) == 1 else conversation_text(messages)


def parsed_text(value: Any) -> Any:
    """What JSON in a text says; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _reasoning(message: Message) -> str:
    for key in _REASONING:
        if isinstance(text := message.get(key), str) and text:
            return f"[reasoning]\n{text}\n[/reasoning]"
    return ""


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part(part) for part in cast("list[object]", content))
    return "" if content is None else str(content)


def _part(part: object) -> str:
    if not isinstance(part, dict):
        return part if isinstance(part, str) else f"[{type(part).__name__}]"
    fields = cast("dict[str, Any]", part)
    for key in _TEXTS:
        if isinstance(text := fields.get(key), str):
            return text
    kind = str(fields.get("type", "part"))
    medium = next((name for name in _MEDIA if name in kind), kind)
    size = _size(fields, medium)
    return f"[{medium} {size}]" if size else f"[{medium}]"


def _size(fields: Mapping[str, Any], medium: str) -> str:
    """Width and height where they are recorded, else how many bytes are in the log; empty: neither."""
    held = next((fields[key] for key in fields if medium in key and key != "type"), None)
    inner = cast("dict[str, Any]", held) if isinstance(held, dict) else fields
    width, height = inner.get("width"), inner.get("height")
    if isinstance(width, int) and isinstance(height, int):
        return f"{width}×{height}"
    data = inner.get("url", inner.get("data", held)) if isinstance(held, dict) else held
    if isinstance(data, bytes):
        return _bytes(len(data))
    if isinstance(data, str) and (data.startswith("data:") or len(data) > 1024):
        return _bytes(len(data.partition(",")[2] or data) * 3 // 4)  # base64: 4 signs for 3 bytes
    return ""


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB"


def _tool_calls(message: Message) -> Iterator[str]:
    calls = message.get("tool_calls")
    told = cast("list[object]", calls) if isinstance(calls, list) else []
    if one := message.get("function_call"):  # the older name of one call
        told = [*told, one]
    for call in told:
        fields: object = _parsed_call(call) if isinstance(call, str) else call
        if not isinstance(fields, dict):
            continue
        called = cast("dict[str, Any]", fields)
        function = called.get("function")
        inner = cast("dict[str, Any]", function) if isinstance(function, dict) else called
        arguments = inner.get("arguments", "")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
        yield f"[tool call] {inner.get('name', '?')}({text})"


def _parsed_call(call: str) -> object:
    """A tool call that was written as JSON within a text; None where it is none."""
    try:
        found: object = orjson.loads(call)
        if isinstance(found, dict) and set(map(type, cast("dict[str, Any]", found).values())) == {
            str
        }:
            return cast("object", found)  # numbers, of any size, json reads as they were written
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(call)
    except (ValueError, RecursionError):
        return None
