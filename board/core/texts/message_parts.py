"""What a chat message holds beside plain text: named parts of its content, and its tool calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

PART_TEXTS: Final = ("text", "thinking", "reasoning", "input_text", "output_text")
"""Keys that hold the text of a part."""
REASONING: Final = ("reasoning_content", "reasoning", "thinking")
"""Keys of a message that hold its reasoning."""
_MEDIA: Final = ("image", "video", "audio")

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the message has it. arguments: a text (usually JSON) or what JSON was parsed to."""

    name: str
    arguments: Any
    id: str = ""


def as_fields(value: object) -> Fields | None:
    """The value where it is a mapping."""
    return cast("Fields", value) if isinstance(value, Mapping) else None


def reasoning_of(message: Fields) -> str:
    """The reasoning that stands beside the content; empty where none is recorded."""
    candidates = (message.get(key) for key in REASONING)
    return next((text for text in candidates if isinstance(text, str) and text), "")


def part_text(part: object) -> str | None:
    """The text of a part of a content; None where it is no text."""
    if isinstance(part, str):
        return part
    fields = as_fields(part) or {}
    return next((fields[key] for key in PART_TEXTS if isinstance(fields.get(key), str)), None)


def part_name(part: object) -> str:
    """What a part that is no text is called, with its size: `image 640×480`, `image 34 kB`, `audio`."""
    fields = as_fields(part)
    if fields is None:
        return type(part).__name__
    kind = str(fields.get("type", "part"))
    medium = next((name for name in _MEDIA if name in kind), kind)
    return " ".join(filter(None, (medium, _size(fields, medium))))


def tool_calls(message: Fields) -> Iterator[ToolCall]:
    """The calls of a message, of OpenAI's form or flat, or written as JSON within a text."""
    calls = message.get("tool_calls")
    entries = cast("list[object]", calls) if isinstance(calls, list) else []
    if one := message.get("function_call"):  # the older name of one call
        entries = [*entries, one]
    for entry in entries:
        called = as_fields(_parsed(entry) if isinstance(entry, str) else entry)
        if called is None:
            continue
        inner = as_fields(called.get("function")) or called
        name, identity = str(inner.get("name", "?")), str(called.get("id") or "")
        yield ToolCall(name, inner.get("arguments", ""), identity)


def _parsed(call: str) -> object:
    try:
        return json.loads(call)
    except (ValueError, RecursionError):
        return None


def _size(fields: Fields, medium: str) -> str:
    """Width and height where they are recorded, else how many bytes are in the log; empty: neither."""
    content = next((fields[key] for key in fields if medium in key and key != "type"), None)
    inner = as_fields(content) or fields
    width, height = inner.get("width"), inner.get("height")
    if isinstance(width, int) and isinstance(height, int):
        return f"{width}×{height}"
    data = inner.get("url", inner.get("data", content)) if isinstance(content, dict) else content
    if isinstance(data, bytes):
        return _bytes(len(data))
    if isinstance(data, str) and (data.startswith("data:") or len(data) > 1024):
        return _bytes(len(data.partition(",")[2] or data) * 3 // 4)  # base64: 4 signs for 3 bytes
    return ""


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB"
