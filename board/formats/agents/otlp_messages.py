"""What was said in the calls of a model that spans tell of, as chat messages, and the calls of tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from board.formats.agents.otlp_spans import Attributes, Span, first_of
from board.formats.fields import Fields
from board.formats.merged_turns import merged_turns
from board.formats.messages import parsed_text
from board.formats.parse import as_list, as_object, is_list, objects_in

_GIVEN: Final = ("gen_ai.input.messages", "gen_ai.prompt", "llm.input_messages")
_ANSWERED: Final = ("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages")
_EVENT: Final = re.compile(
    r"gen_ai\.(?:content\.)?(system\.message|user\.message|assistant\.message|tool\.message|choice)"
)
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_TOOL_INPUTS: Final = ("gen_ai.tool.call.arguments", "tool.parameters", "input.value")
_TOOL_OUTPUTS: Final = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")


def conversation(spans: Sequence[Span]) -> Fields:
    """What was said in the calls of the model, with what is known of the tools' calls; of spans without
    a text the calls of tools alone.
    """
    calls = [span for span in spans if span.kind == "generate"]
    rows = [row for span in calls if (row := _exchange(span))]
    rows = rows or [row for span in spans[:1] if (row := _exchange(span))]
    tools = [span for span in spans if span.kind == "tool"]
    if not rows:
        messages = [message for span in tools for message in _called(span)]
        return {"messages": messages, "response": messages} if messages else {}
    fields = merged_turns(rows)
    for holder in ("prompt", "response"):
        if is_list(fields.get(holder)):
            fields[holder] = [_with_span(message, tools) for message in objects_in(fields[holder])]
    fields["messages"] = [*(fields.get("prompt") or ()), *(fields.get("response") or ())]
    return fields


def _exchange(span: Span) -> Fields:
    """What a call was given and what it answered, as messages; empty where no text is recorded."""
    given = [*_instructions(span), *_messages(span, _GIVEN, "gen_ai.choice", is_answer=False)]
    answered = _messages(span, _ANSWERED, "gen_ai.choice", is_answer=True)
    if not answered:
        return {}
    if span.seconds is not None:
        answered[-1] = {**answered[-1], "duration_s": span.seconds}
    return {"prompt": given or None, "response": answered}


def _instructions(span: Span) -> list[Attributes]:
    parts = parsed_text(span.attributes.get("gen_ai.system_instructions"))
    texts = [str(part.get("content", "")) for part in objects_in(parts)]
    return [{"role": "system", "content": "\n".join(texts)}] if any(texts) else []


def _messages(
    span: Span, names: Sequence[str], choice: str, *, is_answer: bool
) -> list[Attributes]:
    """The messages of attributes, else of events. choice: the name of the event with the answer."""
    logs = (parsed_text(span.attributes.get(name)) for name in names)
    lists = [as_list(value) for value in logs if is_list(value)]
    logged = lists[0] if lists else []
    if not logged:
        logged = [
            _message_of_event(event)
            for event in span.events
            if _EVENT.fullmatch(str(event["name"])) and (event["name"] == choice) == is_answer
        ]
    return [message for entry in objects_in(logged) for message in _of_parts(entry)]


def _message_of_event(event: Attributes) -> Attributes:
    """The message of an event such as gen_ai.user.message, whose content may be JSON."""
    match = _EVENT.fullmatch(str(event["name"]))
    role = "assistant" if match is None or match[1] == "choice" else match[1].split(".")[0]
    said = as_object(parsed_text(event.get("message")))
    content = event.get("content", said.get("content", event.get("gen_ai.event.content")))
    calls = parsed_text(event.get("tool_calls", said.get("tool_calls")))
    message: Attributes = {"role": role, "content": content}
    if is_list(calls):
        message["tool_calls"] = calls
    if event.get("id") is not None:
        message["tool_call_id"] = event["id"]
    return message


def _of_parts(entry: Mapping[str, Any]) -> Iterator[Attributes]:
    """The messages of {role, parts}; of a message with its content itself."""
    role = str(entry.get("role") or "assistant")
    if not is_list(entry.get("parts")):
        yield {
            "role": role,
            **{k: v for k, v in entry.items() if k not in ("role", "finish_reason")},
        }
        return
    message: Attributes = {"role": role}
    texts = list[str]()
    others = list[Any]()
    for part in objects_in(entry["parts"]):
        kind = part.get("type")
        if kind == "text":
            texts.append(str(part.get("content", "")))
        elif kind == "reasoning":
            message["reasoning_content"] = (
                f"{message.get('reasoning_content', '')}{part.get('content')}"
            )
        elif kind == "tool_call":
            function = {"name": part.get("name"), "arguments": part.get("arguments")}
            call = {"id": part.get("id"), "function": function}
            message.setdefault("tool_calls", []).append(call)
        elif kind == "tool_call_response":
            result = part.get("response", part.get("result"))
            yield {"role": "tool", "content": result, "tool_call_id": str(part.get("id") or "")}
        else:
            others.append(part)
    if others:
        message["content"] = [*({"type": "text", "text": text} for text in texts), *others]
    elif texts:
        message["content"] = "\n".join(texts)
    if len(message) > 1:
        yield message


def _called(span: Span) -> Iterator[Attributes]:
    """The call of a tool and its result, of its span."""
    arguments = first_of(span, _TOOL_INPUTS)
    given: Any = "{}" if arguments is None else arguments
    function: Attributes = {"name": _tool_name(span), "arguments": given}
    yield {"role": "assistant", "tool_calls": [{"id": span.id, "function": function}]}
    output = first_of(span, _TOOL_OUTPUTS)
    result = {"role": "tool", "content": "" if output is None else output, "tool_call_id": span.id}
    yield {**result, **_of_result(span)}


def _of_result(span: Span) -> Attributes:
    seconds = {} if span.seconds is None else {"duration_s": span.seconds}
    return {**seconds, **({"error": span.error} if span.error else {})}


def _with_span(message: Mapping[str, Any], tools: Sequence[Span]) -> dict[str, Any]:
    """The result of a tool with the seconds and the error of its span."""
    identity = message.get("tool_call_id")
    if message.get("role") != "tool" or not identity:
        return dict(message)
    matching = (span for span in tools if span.attributes.get("gen_ai.tool.call.id") == identity)
    span = next(matching, None)
    return dict(message) if span is None else {**message, **_of_result(span)}


def _tool_name(span: Span) -> str:
    return str(first_of(span, _TOOL_NAMES) or span.name)
