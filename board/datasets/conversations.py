"""A rollout as chat messages, as TRL and the chat templates of transformers take them.

TRL 1.16, docs/source/dataset_formats.md: a message is {role, content}; that of an assistant may have
reasoning_content and tool_calls, each {type: "function", id?, function: {name, arguments}} with arguments
that are an object; that of a tool may have a name and tool_call_id. Tools are JSON schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from board.core.records import Record
from board.core.texts.border import prompt_length
from board.core.texts.conversation import arguments_of
from board.core.texts.messages import (
    TOOL_ROLES,
    CalledNames,
    as_fields,
    as_parts,
    part_text,
    reasoning_of,
    tool_calls,
)
from board.core.texts.turns import turns_of_texts, without_markers
from board.errors import RecordError
from board.formats.messages import parsed_text

_ROLES: Final = frozenset(("system", "developer", "user", "assistant", "tool"))
_THOUGHTS: Final = frozenset(("thinking", "reasoning"))
_SPECIAL_TOKENS: Final = re.compile(r"(?:\s|<[^<>\s]{1,40}>)*")
"""All that stands before the first turn where a template begins with such a token."""

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """given: messages of the prompt. generated: those from the first that was generated to the last one
    of the assistant. after: how many came after that, which nobody may learn from: what a user or the
    environment says of the answer.
    """

    given: list[Message]
    generated: list[Message]
    after: int = 0

    @property
    def messages(self) -> list[Message]:
        """All of them."""
        return [*self.given, *self.generated]

    def turns(self) -> Iterator[Conversation]:
        """The same up to each turn that was generated, of which all before it is the prompt."""
        for place, message in enumerate(self.generated):
            if message["role"] == "assistant" and _says_something(message):
                yield Conversation([*self.given, *self.generated[:place]], [message])


def conversation(record: Record | None, prompt: str | None, response: str | None) -> Conversation:
    """The messages of a rollout, with at least one that was given and one that the assistant generated.

    record: whose messages count, where it has any; else, and where none is the assistant's, the texts.
    The border of prompt and response is the log's, where it says it. Roles that no template has, such as
    environment, become user. Raises RecordError with why there is none.
    """
    given, generated = _cut(record, prompt, response)
    last = max((i for i, m in enumerate(generated) if m["role"] == "assistant"), default=-1)
    result = Conversation(given, generated[: last + 1], len(generated) - last - 1)
    if last < 0 and response is None:
        raise RecordError("no text of the response is recorded")
    if not given:
        raise RecordError("no prompt is recorded")
    if not any(_says_something(m) for m in result.generated if m["role"] == "assistant"):
        raise RecordError("the response is empty")
    return result


def _cut(
    record: Record | None, prompt: str | None, response: str | None
) -> tuple[list[Message], list[Message]]:
    """The messages of the prompt, and those after them."""
    if record is None or not (record.messages or record.given or record.generated):
        return _written(prompt, response)
    given, generated = record.given, record.generated
    if given is not None and generated is not None and [*given, *generated] == [*record.messages]:
        return _at(_recorded(record.messages), len(given))
    if record.messages:
        border = prompt_length(record.messages, prompt, response)
        before, after = _at(_recorded(record.messages), border)
        return before, after or _answer(response)
    if given:
        return _recorded(given), _answer(response)
    before, _ = _written(prompt, "")
    return before, _recorded(generated or ())


def _at(messages: list[Message], border: int) -> tuple[list[Message], list[Message]]:
    return messages[:border], messages[border:]


def _answer(response: str | None) -> list[Message]:
    return [] if response is None else [_message("assistant", _without_end(response))]


def tool_schemas(tools: object) -> list[dict[str, Any]] | None:
    """The tools that a log records, each {type: "function", function: {name, ...}}; None: it has none."""
    schemas: list[dict[str, Any]] = []
    entries = parsed_text(tools)
    for entry in as_parts(entries) if isinstance(entries, list) else ():
        fields = as_fields(parsed_text(entry))
        if fields is not None and as_fields(fields.get("function")):
            schemas.append({"type": "function", **fields})
        elif fields is not None and fields.get("name"):
            function = {key: value for key, value in fields.items() if key != "type"}
            schemas.append({"type": "function", "function": function})
    return schemas or None


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _says_something(message: Mapping[str, Any]) -> bool:
    texts = (message["content"], message.get("reasoning_content", ""))
    return bool(message.get("tool_calls")) or any(text.strip() for text in texts)


def _recorded(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    result: list[Message] = []
    called = CalledNames()
    for message in messages:
        role = str(message.get("role")).lower()
        role = "tool" if role in TOOL_ROLES else role if role in _ROLES else "user"
        content, thoughts = _content(message.get("content"))
        made = _message(role, content)
        if role == "assistant":
            if reasoning := reasoning_of(message) or thoughts:
                made["reasoning_content"] = reasoning
            if calls := [*tool_calls(message)]:
                made["tool_calls"] = [_call(one.name, one.arguments, one.id) for one in calls]
            called.add(calls)
        elif role == "tool":
            identity = str(message.get("tool_call_id") or "")
            name = str(message.get("name") or message.get("tool_name") or "")
            answered = called.answered_by(identity)
            made |= {"name": name or answered} if name or answered else {}
            made |= {"tool_call_id": identity} if identity else {}
        result.append(made)
    return result


def _call(name: str, arguments: Any, identity: str) -> dict[str, Any]:
    """A call of OpenAI's form. Arguments that are no JSON object stay as the model wrote them."""
    parsed = arguments_of(arguments)
    if parsed is None or parsed == "":
        parsed = {}
    function = {"name": name, "arguments": parsed if isinstance(parsed, dict) else arguments}
    return {"type": "function", **({"id": identity} if identity else {}), "function": function}


def _content(content: object) -> tuple[str, str]:
    """The text of a content, and the reasoning among its parts. Raises RecordError for an image."""
    texts: list[str] = []
    thoughts: list[str] = []
    for part in as_parts(content):
        if part is None:
            continue
        text = part_text(part)
        if text is None:
            raise RecordError("a message holds something that is no text, such as an image")
        fields = as_fields(part) or {}
        (thoughts if fields.get("type") in _THOUGHTS else texts).append(text)
    return "".join(texts), "\n".join(thoughts)


def _written(prompt: str | None, response: str | None) -> tuple[list[Message], list[Message]]:
    """The turns of two texts: by markers of a chat template, else prompt and response are one each.

    What the template wrote at the end of the prompt, after it let the assistant begin, goes before the
    response. An end mark at the end of a turn is left out: the template will write it again.
    """
    if not (prompt or "").strip():
        raise RecordError("no prompt is recorded")
    if response is None:
        raise RecordError("no text of the response is recorded")
    texts = {"prompt": prompt or "", "response": response}
    turns = [*turns_of_texts(texts, headings=False)]
    if {turn.role for turn, _, _ in turns} <= {"prompt", "response"}:
        return [_message("user", texts["prompt"])], _answer(response)
    both: tuple[list[Message], list[Message]] = ([], [])
    begun = ""
    for turn, text, is_given in turns:
        if turn.role == "prompt" and _SPECIAL_TOKENS.fullmatch(text):
            continue
        role = {"prompt": "user", "response": "assistant"}.get(turn.role, turn.role)
        role = "tool" if role in TOOL_ROLES else role if role in _ROLES else "user"
        if is_given and role == "assistant" and turn.end == len(texts["prompt"]):
            begun = without_markers(texts["prompt"][turn.start : turn.end], closing=False)
            continue
        made = _message(role, text if is_given else begun + _without_end(text))
        made |= {"name": turn.name} if role == "tool" and turn.name else {}
        begun = begun if is_given else ""
        both[not is_given].append(made)
    return both


def _without_end(text: str) -> str:
    return without_markers(text, closing=True)
