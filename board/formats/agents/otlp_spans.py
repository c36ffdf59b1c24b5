"""Spans of OTLP in JSON: what each is, by whichever convention, how long it took, what is above it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from board.formats.parse import as_object, object_at, objects_in

_OPERATION: Final = "gen_ai.operation.name"
_KINDS: Final = {
    **dict.fromkeys(("invoke_agent", "create_agent", "agent", "AGENT"), "agent"),
    **dict.fromkeys(("chat", "text_completion", "generate_content", "LLM", "llm"), "generate"),
    **dict.fromkeys(("execute_tool", "tool", "TOOL"), "tool"),
    **dict.fromkeys(("evaluate", "EVALUATOR"), "reward"),
}
"""What a span is, by its operation or by the kind that other conventions give it."""
_KIND_NAMES: Final = (_OPERATION, "openinference.span.kind", "traceloop.span.kind")
_NUMBERED: Final = re.compile(
    r"(gen_ai\.(?:prompt|completion)|llm\.(?:input|output)_messages)\.([0-9]{1,4})\.(?:message\.)?(.+)"
)
_CALL: Final = re.compile(
    r"(?:message\.)?tool_calls\.([0-9]+)\.(?:tool_call\.)?(?:function\.)?(id|name|arguments)"
)
_MOST_LEVELS: Final = 32
_MOST_DIGITS: Final = 20
"""Of a time: 64 bits."""
_FAILED: Final = (2, "STATUS_CODE_ERROR")
Attributes = dict[str, Any]


class Span:
    """A span. start, end: seconds since 1970, exact to a microsecond. error: its type or message."""

    def __init__(self, span: Mapping[str, Any], resource: Attributes) -> None:
        self.trace, self.id = _text(span.get("traceId")), _text(span.get("spanId"))
        self.parent, self.name = _text(span.get("parentSpanId")), _text(span.get("name"))
        self.attributes = _unflattened(_attributes(span))
        self.resource = resource
        self.kind = _kind_of(self.attributes)
        self.start, self.end = (
            _nanoseconds(span.get(f"{end}TimeUnixNano")) for end in ("start", "end")
        )
        self.events = [
            {"name": event.get("name"), **_attributes(event)}
            for event in objects_in(span.get("events"))
        ]
        status = object_at(span, "status")
        said = [self.attributes.get("error.type"), status.get("message")]
        if status.get("code") in _FAILED and not any(said):
            said = ["error"]
        self.error = ": ".join(str(part) for part in said if part)

    @property
    def seconds(self) -> float | None:
        """How long it took; None where it has not ended."""
        return None if self.start is None or self.end is None else (self.end - self.start) / 1e9

    def as_record(self, origin: int | None) -> dict[str, Any]:
        """The span as a record shows it, times in seconds from the first one."""
        times = {
            name: (time - origin) / 1e9
            for name, time in (("start", self.start), ("end", self.end))
            if time is not None and origin is not None
        }
        record: dict[str, Any] = {
            "id": self.id,
            "parent": self.parent,
            "kind": self.kind,
            "name": self.name,
            **times,
        }
        rest: dict[str, Any] = {
            "error": self.error,
            "attributes": self.attributes,
            "events": self.events,
            "resource": None if self.parent else self.resource,
        }
        return record | {key: value for key, value in rest.items() if value}


def traces_in(line: Mapping[str, Any]) -> set[str]:
    """The ids of the traces of which a line has spans."""
    return {_text(span.get("traceId")) for span, _ in raw_spans(line)}


def spans_in(line: Mapping[str, Any]) -> Iterator[Span]:
    """The spans of a line."""
    for span, of_resource in raw_spans(line):
        yield Span(span, _attributes(object_at(of_resource, "resource")))


def raw_spans(line: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each span of a line with what it stands in."""
    for of_resource in objects_in(line.get("resourceSpans")):
        for of_scope in objects_in(of_resource.get("scopeSpans")):
            for span in objects_in(of_scope.get("spans")):
                yield span, of_resource


def _kind_of(attributes: Attributes) -> str:
    names = (attributes.get(name) for name in _KIND_NAMES)
    return next(
        (_KINDS[name] for name in names if isinstance(name, str) and name in _KINDS), "other"
    )


def _attributes(holder: Mapping[str, Any]) -> Attributes:
    """Attributes as a mapping, from the list of {key, value} that OTLP has."""
    entries = objects_in(holder.get("attributes"))
    return {_text(entry.get("key")): _value(as_object(entry.get("value"))) for entry in entries}


def _value(value: Mapping[str, Any], level: int = 0) -> Any:
    """What an AnyValue of OTLP holds."""
    for kind, content in value.items():
        if kind == "intValue":
            text = _text(content)
            is_number = text.lstrip("-").isdigit() and len(text) <= _MOST_DIGITS
            return int(text) if is_number else content
        if kind == "arrayValue" and level < _MOST_LEVELS:
            return [
                _value(entry, level + 1) for entry in objects_in(as_object(content).get("values"))
            ]
        if kind == "kvlistValue" and level < _MOST_LEVELS:
            pairs = objects_in(as_object(content).get("values"))
            return {
                _text(p.get("key")): _value(as_object(p.get("value")), level + 1) for p in pairs
            }
        return content
    return None


def _unflattened(attributes: Attributes) -> Attributes:
    """Attributes whose keys have the place of a message, such as `gen_ai.prompt.0.content`, as lists."""
    plain = Attributes()
    parts = defaultdict[str, defaultdict[int, Attributes]](lambda: defaultdict(dict))
    for key, value in attributes.items():
        if match := _NUMBERED.fullmatch(key):
            parts[match[1]][int(match[2])][match[3]] = value
        else:
            plain[key] = value
    for name, messages in parts.items():
        plain[name] = [_message_of_names(messages[number]) for number in sorted(messages)]
    return plain


def _message_of_names(fields: Attributes) -> Attributes:
    """A message of attributes such as `tool_calls.0.name`."""
    message = Attributes()
    calls = defaultdict[str, Attributes](dict)
    for key, value in fields.items():
        if match := _CALL.fullmatch(key):
            calls[match[1]][match[2]] = value
        else:
            message[key] = value
    if calls:
        message["tool_calls"] = [
            {
                "id": call.get("id"),
                "function": {"name": call.get("name"), "arguments": call.get("arguments")},
            }
            for call in calls.values()
        ]
    return message


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _nanoseconds(time: object) -> int | None:
    text = _text(time)
    return int(text) if text.isdigit() and len(text) <= _MOST_DIGITS and int(text) else None


def first_start(spans: Iterable[Span]) -> int | None:
    """When the first of the spans began, in nanoseconds; None where none says."""
    return min((span.start for span in spans if span.start is not None), default=None)


def ancestors(spans: Sequence[Span]) -> dict[str, list[Span]]:
    """By its id the spans above each, the nearest first."""
    by_id = {span.id: span for span in spans}
    above = dict[str, list[Span]]()
    for span in spans:
        chain = list[Span]()
        seen = {id(span)}
        parent = by_id.get(span.parent)
        while parent is not None and id(parent) not in seen:
            chain.append(parent)
            seen.add(id(parent))
            parent = by_id.get(parent.parent)
        above[span.id] = chain
    return above


def first_of(span: Span, names: Sequence[str]) -> Any:
    """The attribute of a span under the first of the names that it has; None without one."""
    return next((span.attributes[name] for name in names if name in span.attributes), None)
