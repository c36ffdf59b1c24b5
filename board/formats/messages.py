"""Chat messages as text, and items of OpenAI's Responses API as chat messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard, cast

from board.core.texts.messages import REASONING, part_name, part_text, reasoning_of, tool_calls
from board.formats.key_names import field_of, words_of
from board.formats.parse import is_list, objects_in

_OTHER_CONTENT: Final = frozenset((*REASONING, "tool_calls"))

Message = Mapping[str, Any]


def is_messages(value: object) -> TypeGuard[list[dict[str, Any]]]:
    """Whether a value is a list of chat messages, of at least one."""
    if not is_list(value) or not value:
        return False
    for entry in value:  # noqa: SIM110 - a generator costs as much as all that follows
        if not isinstance(entry, dict) or "role" not in entry:
            return False
    return True


_CONTENT_NAMES: Final = ("text", "value", "message")
ROLE_KEYS: Final = ("role", "from", "speaker", "author", "sender")
TEXT_KEYS: Final = ("content", *_CONTENT_NAMES, "utterance")
"""What a message that is a row of a table calls its role and its text."""
_BESIDE: Final = ("name", "tool_calls", "tool_call_id", "function_call", *REASONING)
_NOBODY: Final = "?"
"""The role of a message without one among others that have one."""
_ROLES: Final = ("system", "user", "assistant")
_SPEAKERS: Final = {"human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant"}


def with_usual_names(value: object) -> object:
    """Messages whose text is under another key than `content`, or whose role is under `from` as in
    ShareGPT, with the usual keys; entries that each hold what was asked and answered as two messages;
    anything else as it is.
    """
    if not is_list(value) or not value:
        return value
    if pairs := _of_exchanges(value):
        return pairs
    messages: list[dict[str, Any]] = []
    has_roles = any(isinstance(entry, dict) and "role" in entry for entry in value)
    for entry in value:
        if not isinstance(entry, dict):
            if not has_roles:
                return value
            messages.append({"role": _NOBODY, "content": entry})
            continue
        fields = dict(cast("Message", entry))
        if has_roles and "role" not in fields and "from" not in fields:
            fields = {"role": _NOBODY, **fields}
        if "role" not in fields and isinstance(speaker := fields.get("from"), str):
            del fields["from"]
            fields = {"role": _SPEAKERS.get(speaker, speaker), **fields}
        name = next((key for key in _CONTENT_NAMES if isinstance(fields.get(key), str)), None)
        if "role" not in fields:
            return value
        if name is not None and "content" not in fields:
            fields = {"role": fields.pop("role"), "content": fields.pop(name), **fields}
        messages.append(fields)
    return messages


def _of_exchanges(entries: Sequence[object]) -> list[dict[str, Any]]:
    """The messages of entries such as `{human, assistant}`, which are a turn of both; empty where they
    are none.
    """
    messages: list[dict[str, Any]] = []
    for entry in entries:
        if not isinstance(entry, dict):
            return []
        fields = cast("Message", entry)
        if "role" in fields or "from" in fields:
            return []
        said = {_role_by_words(str(key), value): value for key, value in fields.items()}
        if not {"user", "assistant"} <= said.keys():
            return []
        messages += ({"role": role, "content": said[role]} for role in _ROLES if role in said)
    return messages


def beside_exchanges(value: object) -> dict[str, list[Any]]:
    """What entries that `with_usual_names` makes two messages of hold beside them, in their order."""
    entries = cast("list[Message]", value) if is_list(value) else []
    if not entries or not _of_exchanges(entries):
        return {}
    keys = dict.fromkeys(key for entry in entries for key in entry)
    others = [key for key in keys if not any(_role_by_words(key, e.get(key)) for e in entries)]
    return {key: [entry.get(key) for entry in entries] for key in others}


def _role_by_words(key: str, value: object) -> str:
    """Whose text a key holds by its words; empty where they do not say."""
    if not isinstance(value, str):
        return ""
    words = words_of(key)
    speaker = next((_SPEAKERS.get(word, word) for word in words), "")
    if "system" in words or speaker in _ROLES:
        return "system" if "system" in words else speaker
    return {"prompt": "user", "response": "assistant"}.get(field_of(key, value), "")


def keys_of_message(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a row that are those of a chat message, the role's and the text's first; none where it
    is no message.
    """
    role = next((key for key in ROLE_KEYS if isinstance(row.get(key), str)), None)
    text = next((key for key in TEXT_KEYS if isinstance(row.get(key), str | list)), None)
    text = next((key for key in TEXT_KEYS if key in row), None) if text is None else text
    if role is None or text is None:
        return ()
    return (role, text, *(key for key in _BESIDE if key in row))


def message_of_row(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The chat message that a row is; None where it is none."""
    if not (keys := keys_of_message(row)):
        return None
    role, text, *others = keys
    speaker = _SPEAKERS.get(row[role].lower(), row[role])
    rest = {key: row[key] for key in others if row[key] is not None}
    return {"role": speaker, "content": row[text], **rest}


def without_nulls(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages without the keys that hold null: a table has every key in every message."""
    return [{k: v for k, v in message.items() if v is not None} for message in messages]


def split_turns(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """What was given, up to the assistant's first turn, and what was generated after it."""
    roles = [message.get("role") for message in messages]
    first = roles.index("assistant") if "assistant" in roles else len(roles)
    return messages[:first], messages[first:]


def split_conversation(fields: dict[str, Any]) -> None:
    """Makes a conversation as a whole prompt and response, where neither is there; see split_turns."""
    messages = fields.get("messages")
    if not is_messages(messages) or any(fields.get(k) is not None for k in ("prompt", "response")):
        return
    given, generated = split_turns(messages)
    fields["messages"] = without_nulls(messages)
    fields["prompt"], fields["response"] = given or None, generated or None


def split_chatml(text: str) -> tuple[str | None, str]:
    """A text cut into prompt and response where ChatML lets the assistant begin first; without such a
    place all of it is the response.
    """
    before, begins, after = text.partition("<|im_start|>assistant\n")
    return (before + begins, after) if begins else (None, text)


def message_text(message: Message) -> str:
    """The text of a chat message: reasoning, content, then tool calls, each under its name.

    Parts that are no text stand in brackets, images with their size: [image 640×480], [image png 34 kB].
    """
    content = message.get("content")
    if type(content) is str and _OTHER_CONTENT.isdisjoint(message):  # most: text alone
        return content
    reasoning = reasoning_of(message)
    blocks = [f"[reasoning]\n{reasoning}\n[/reasoning]" if reasoning else "", _content(content)]
    return "\n".join(filter(None, (*blocks, *_tool_calls(message))))


def role_texts(messages: Sequence[Message], texts: Sequence[str]) -> list[tuple[str | None, str]]:
    """Role and text of each message; the role is None where it is not a string."""
    roles = [message.get("role") for message in messages]
    named = [role if isinstance(role, str) else None for role in roles]
    return list(zip(named, texts, strict=True))


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


def _content(content: object) -> str:
    if is_list(content):
        texts = [(part, part_text(part)) for part in content]
        return "".join(f"[{part_name(part)}]" if text is None else text for part, text in texts)
    return "" if content is None else str(content)


def _tool_calls(message: Message) -> Iterator[str]:
    for call in tool_calls(message):
        arguments = call.arguments
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, default=str)
        yield f"[tool call] {call.name}({text})"


def messages_of(items: object) -> list[dict[str, Any]]:
    """Chat messages {role, content, reasoning_content?, tool_calls?} of a text or a list of items."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    messages: list[dict[str, Any]] = []
    for item in objects_in(items):
        _add(messages, item)
    return messages


def instructions_of(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The instructions of a request as the message that they are given to the model as."""
    text = request.get("instructions")
    return [{"role": "system", "content": text}] if isinstance(text, str) and text else []


def _add(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    kind = str(item.get("type", "message"))
    if item.get("role") == "assistant":
        _turn(messages, "content", "tool_calls")["content"] = item.get("content")
    elif "role" in item:
        messages.append({"role": item["role"], "content": item.get("content")})
    elif kind == "reasoning":
        turn = _turn(messages, "reasoning_content", "content", "tool_calls")
        turn["reasoning_content"] = _reasoning_of_item(item)
    elif kind.endswith("_output"):
        result = _first_of(item, "output", "result", "content")
        messages.append(
            {"role": "tool", "content": result, "tool_call_id": item.get("call_id", "")}
        )
    else:
        arguments = _first_of(item, "arguments", "input", "action", "code", "query", "queries")
        function = {"name": item.get("name") or kind, "arguments": arguments}
        identity = item.get("call_id") or item.get("id")
        call = {"id": identity, "type": "function", "function": function}
        _turn(messages).setdefault("tool_calls", []).append(call)


def _first_of(item: Mapping[str, Any], *keys: str) -> Any:
    return next((item[key] for key in keys if item.get(key) is not None), "")


def _turn(messages: list[dict[str, Any]], *closing: str) -> dict[str, Any]:
    """The assistant's last message, or a new one where that has one of the parts that close it.

    A model thinks, speaks, then calls: what comes out of that order is of the next turn.
    """
    last = messages[-1] if messages else {}
    if last.get("role") != "assistant" or any(key in last for key in closing):
        messages.append({"role": "assistant"})
    return messages[-1]


def _reasoning_of_item(item: Mapping[str, Any]) -> str:
    """The reasoning itself, or its summary where that is all there is."""
    for key in ("content", "summary"):
        texts = [str(part.get("text", "")) for part in objects_in(item.get(key))]
        if any(texts):
            return "\n".join(texts)
    return "[encrypted]" if item.get("encrypted_content") else ""
