"""OpenAI Responses objects as chat messages: items of an input or an output, in their order.

An item is a message, a piece of reasoning, a call of a function or another tool, or what a tool gave
back. What one turn of a model put out (reasoning, text, calls) becomes one message of the assistant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

_RESULT: Final = "_output"
_RESULT_KEYS: Final = ("output", "result", "content")
_CALL_KEYS: Final = ("arguments", "input", "action", "code", "query", "queries")


def messages_of(items: object) -> list[dict[str, Any]]:
    """Chat messages {role, content, reasoning_content?, tool_calls?} of a text or a list of items."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    messages: list[dict[str, Any]] = []
    for item in _objects(items):
        _add(messages, item)
    return messages


def instructions_of(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The instructions of a request as the message that they are given to the model as."""
    text = request.get("instructions")
    return [{"role": "system", "content": text}] if isinstance(text, str) and text else []


def _objects(items: object) -> Sequence[Mapping[str, Any]]:
    entries = cast("list[object]", items) if isinstance(items, list) else []
    return [cast("dict[str, Any]", entry) for entry in entries if isinstance(entry, dict)]


def _add(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    kind = str(item.get("type", "message"))
    if "role" in item:
        _add_message(messages, item)
    elif kind == "reasoning":
        turn = _turn(messages, "reasoning_content", "content", "tool_calls")
        turn["reasoning_content"] = _reasoning(item)
    elif kind.endswith(_RESULT):
        result = next((item[key] for key in _RESULT_KEYS if item.get(key) is not None), "")
        messages.append(
            {"role": "tool", "content": result, "tool_call_id": item.get("call_id", "")}
        )
    else:
        _turn(messages).setdefault("tool_calls", []).append(_call(item, kind))


def _add_message(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    content = item.get("content")
    if item["role"] == "assistant":
        _turn(messages, "content", "tool_calls")["content"] = content
    else:
        messages.append({"role": item["role"], "content": content})


def _turn(messages: list[dict[str, Any]], *closing: str) -> dict[str, Any]:
    """The assistant's last message, or a new one where that has one of the parts that close it.

    A model thinks, speaks, then calls: what comes out of that order is of the next turn.
    """
    last = messages[-1] if messages else {}
    if last.get("role") != "assistant" or any(key in last for key in closing):
        messages.append({"role": "assistant"})
    return messages[-1]


def _reasoning(item: Mapping[str, Any]) -> str:
    """The reasoning itself, or its summary where that is all there is."""
    for key in ("content", "summary"):
        texts = [str(part.get("text", "")) for part in _objects(item.get(key))]
        if any(texts):
            return "\n".join(texts)
    return "[encrypted]" if item.get("encrypted_content") else ""


def _call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    arguments = next((item[key] for key in _CALL_KEYS if item.get(key) is not None), "")
    function = {"name": item.get("name") or kind, "arguments": arguments}
    return {"id": item.get("call_id") or item.get("id"), "type": "function", "function": function}
