"""Chat messages: parts of their content, their tool calls, and which results of tools are errors."""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

PART_TEXTS: Final = ("text", "thinking", "reasoning", "input_text", "output_text")
"""Keys that hold the text of a part."""
_DATA_URL: Final = re.compile(r"data:[a-z]+/([a-z0-9.+-]{1,20})[;,]")
REASONING: Final = ("reasoning_content", "reasoning", "thinking")
"""Keys of a message that hold its reasoning."""
UNNAMED: Final = "?"
"""A call of which no name is recorded."""
_MEDIA: Final = ("image", "video", "audio")
_ADDRESSES: Final = ("url", "path", "file_name", "filename", "name", "file_id", "file_uri")
_LONGEST_ADDRESS: Final = 300
_AN_ADDRESS: Final = re.compile(r"^\S*[./-]\S*$")

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


def as_parts(content: object) -> list[object]:
    """The parts of a message's content; one where it is not a list."""
    return cast("list[object]", content) if isinstance(content, list) else [content]


def json_of(text: str) -> object:
    """What JSON in a text says; None where it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def reasoning_of(message: Fields) -> str:
    """The reasoning next to the content; empty where none is recorded."""
    texts = map(message.get, REASONING)
    return next((text for text in texts if isinstance(text, str) and text), "")


def part_text(part: object) -> str | None:
    """The text of a part of a content; None where it is not text."""
    if isinstance(part, str):
        return part
    fields = as_fields(part) or {}
    return next((fields[key] for key in PART_TEXTS if isinstance(fields.get(key), str)), None)


def part_name(part: object) -> str:
    """What a part other than text is called, with its type and size, or where it is: `image 640×480`,
    `image png 34 kB`, `audio`, `image plots/a.png`.
    """
    fields = as_fields(part)
    if fields is None:
        return type(part).__name__
    kind = str(fields.get("type", "part"))
    medium = next((name for name in _MEDIA if name in kind), kind)
    return " ".join([medium, *_size(fields, medium).split(), *_address(fields, medium)])


def tool_calls(message: Fields) -> Iterator[ToolCall]:
    """The calls of a message, of OpenAI's form or flat, or written as JSON within a text."""
    calls: object = message.get("tool_calls")
    entries = cast("list[object]", calls) if isinstance(calls, list) else []
    if one := message.get("function_call"):  # the older name of one call
        entries = [*entries, one]
    for entry in entries:
        called = as_fields(json_of(entry) if isinstance(entry, str) else entry)
        if called is None:
            continue
        inner = as_fields(called.get("function")) or called
        name, identity = str(inner.get("name") or UNNAMED), str(called.get("id") or "")
        yield ToolCall(name, inner.get("arguments", ""), identity)


class CalledNames:
    """The names of tools by the ids of their calls. Where calls of a message have one id, results answer
    them in order; those of a later message with that id wait alone.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[str]] = {}

    def add(self, calls: Iterable[ToolCall]) -> None:
        """The calls of a message."""
        waiting = defaultdict[str, deque[str]](deque)
        for call in calls:
            if call.id:
                waiting[call.id].append("" if call.name == UNNAMED else call.name)
        self._waiting |= waiting

    def answered_by(self, identity: str) -> str:
        """The name of the call that a result with this id answers; empty where it is not known."""
        names = self._waiting.get(identity, ())
        if len(names) > 1:
            return self._waiting[identity].popleft()
        return names[0] if names else ""


def _content_of(fields: Fields, medium: str) -> object:
    """What a part has under a key with the name of its medium."""
    return next((fields[key] for key in fields if medium in key and key != "type"), None)


def _address(fields: Fields, medium: str) -> Iterator[str]:
    """Where a part is that is not in the log: a URL, a path, the name of a file."""
    content = _content_of(fields, medium)
    places = as_fields(content) or as_fields(fields.get("source")) or fields
    for address in (content, *(places.get(key) for key in _ADDRESSES)):
        if not isinstance(address, str) or len(address) > _LONGEST_ADDRESS:
            continue
        if not address.startswith("data:") and _AN_ADDRESS.search(address):
            yield address
            return


def _size(fields: Fields, medium: str) -> str:
    """Width and height where they are recorded, else the type, where a data: URL says it, and how many
    bytes are in the log; empty: neither.
    """
    content = _content_of(fields, medium)
    inner = as_fields(content) or fields
    width, height = inner.get("width"), inner.get("height")
    if isinstance(width, int) and isinstance(height, int):
        return f"{width}×{height}"
    data = inner.get("url", inner.get("data", content)) if isinstance(content, dict) else content
    kind = ""
    if isinstance(data, bytes):
        size = len(data)
    elif isinstance(data, str) and (data.startswith("data:") or len(data) > 1024):
        size = len(data.partition(",")[2] or data) * 3 // 4  # base64: 4 signs for 3 bytes
        kind = match[1] if (match := _DATA_URL.match(data)) else ""
    else:
        return ""
    return f"{kind} {size} B" if size < 1000 else f"{kind} {size / 1000:.0f} kB"


RULE: Final = (
    "A result is an error where the message says so (is_error, error, a status that is no success, an "
    "exit code other than 0), where the text begins with an exception's name or “Error:”, has a line "
    "“Traceback (most recent call last):”, is a Python dict with an 'error' first, or says an exit code "
    "other than 0 in its first or last lines."
)
TOOL_ROLES: Final = frozenset(("tool", "function", "ipython"))
_BAD_STATUS: Final = frozenset(
    ("error", "failed", "failure", "timeout", "timed_out", "cancelled", "exception")
)
_CODES: Final = ("exit_code", "exitcode", "returncode", "return_code", "exit_status")
_TRACEBACK: Final = re.compile(r"^\s*Traceback \(most recent call last\):", re.MULTILINE)
_NAMED: Final = re.compile(
    r"\s*((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)|[Ee]rror|ERROR)\b ?:"
)
_EXIT: Final = re.compile(
    r"\b(?:exit(?:ed with)?|return)[ _]?(?:code|status)\W{1,3}([1-9]\d{0,4})\b", re.IGNORECASE
)
_AS_PYTHON: Final = "{'error': "
"""What TRL makes of an exception: a dict as Python writes it, which is not JSON."""
_EDGE: Final = 400
"""Characters at each end of a result in which an exit code is looked for."""


def error_in(message: Mapping[str, Any], text: str) -> str:
    """Why a tool's result is an error, in a few words; empty where it is none. The rule is RULE."""
    fields = as_fields(json_of(text)) if text.lstrip().startswith("{") else None
    return _recorded(message) or _recorded(fields or {}) or _written(text)


def error_words(message: Mapping[str, Any]) -> str:
    """What the `error` of a message says: a text, or an object's type and message; empty where it is none
    of these.
    """
    error = message.get("error")
    if isinstance(error, str):
        return error
    said = as_fields(error) or {}
    texts = (said.get(key) for key in ("type", "message"))
    return ": ".join(text for text in texts if isinstance(text, str) and text)


def error_within(text: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """Why one of the results that a tool's part of a response holds is an error, by error_in.

    messages: of the rollout. Where none of their results is found in the text, the text is one result.
    """
    own = (message for message in messages if message.get("role") in TOOL_ROLES)
    contents = ((message, message.get("content")) for message in own)
    texts = [(message, one) for message, one in contents if isinstance(one, str) and one.strip()]
    inside = [(message, one) for message, one in texts if one.strip() in text]
    errors = (error_in(message, content) for message, content in inside or [({}, text)])
    return next(filter(None, errors), "")


def _recorded(fields: Mapping[str, Any]) -> str:
    if fields.get("is_error") is True or fields.get("isError") is True:
        return "error"
    for key in _CODES:
        code = fields.get(key)
        if isinstance(code, int) and not isinstance(code, bool) and code != 0:
            return f"exit code {code}"
    status = fields.get("status")
    if isinstance(status, str) and status.lower() in _BAD_STATUS:
        return status.lower().replace("_", " ")
    return "error" if fields.get("error") else ""


def _written(text: str) -> str:
    if text.startswith(_AS_PYTHON):
        return "error"
    if code := _EXIT.search(text[:_EDGE]) or _EXIT.search(text[-_EDGE:]):
        return f"exit code {code[1]}"
    if _TRACEBACK.search(text):
        return "traceback"
    return "error" if _NAMED.match(text) else ""
