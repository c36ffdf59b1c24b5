"""Traces of agents as OpenTelemetry's file exporter writes them: OTLP in JSON, a batch of spans a line.

Read from opentelemetry-proto 1.x (`TracesData`: resourceSpans, scopeSpans, spans; 64-bit integers are
texts), the GenAI semantic conventions (gen_ai.operation.name chat, execute_tool, invoke_agent;
gen_ai.input.messages and gen_ai.output.messages, lists of {role, parts}), and the names that
OpenInference and OpenLLMetry use for the same (openinference.span.kind,
llm.input_messages.0.message.content; traceloop.span.kind, gen_ai.prompt.0.content). A rollout is a trace;
where several agents in it have ids of conversations of their own, each is one. The spans of a trace may
be in several lines.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.core.records import Remark
from board.errors import RecordError
from board.formats.base import Event, Head, LineContext, Reader
from board.formats.failures import failure_of
from board.formats.field_values import FAILURE
from board.formats.fields import Fields, at_step, with_remarks
from board.formats.joined_rows import JoinedRows, Together
from board.formats.merged_turns import merged_turns
from board.formats.messages import parsed_text
from board.formats.parse import as_list, as_object, is_list, object_at, objects_in
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, Source

_OPERATION: Final = "gen_ai.operation.name"
_KINDS: Final = {
    **dict.fromkeys(("invoke_agent", "create_agent", "agent", "AGENT"), "agent"),
    **dict.fromkeys(("chat", "text_completion", "generate_content", "LLM", "llm"), "generate"),
    **dict.fromkeys(("execute_tool", "tool", "TOOL"), "tool"),
    **dict.fromkeys(("evaluate", "EVALUATOR"), "reward"),
}
"""What a span is, by its operation or by the kind that other conventions give it."""
_KIND_NAMES: Final = (_OPERATION, "openinference.span.kind", "traceloop.span.kind")
_GIVEN: Final = ("gen_ai.input.messages", "gen_ai.prompt", "llm.input_messages")
_ANSWERED: Final = ("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages")
_NUMBERED: Final = re.compile(
    r"(gen_ai\.(?:prompt|completion)|llm\.(?:input|output)_messages)\.([0-9]{1,4})\.(?:message\.)?(.+)"
)
_TOKENS: Final = {
    "input_tokens": ("gen_ai.usage.input_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "llm.token_count.completion"),
}
_NAMED: Final = {
    "reward": ("reward", "rl.reward", "gen_ai.evaluation.score.value"),
    "step": ("rl.step", "step", "training.step"),
    "group_id": ("rl.group_id", "group_id", "task_id", "rl.task_id"),
    "rollout_id": ("gen_ai.conversation.id", "session.id", "rl.rollout_id", "rollout_id"),
    "env": ("rl.env", "env"),
    "model": ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name"),
    "agent": ("gen_ai.agent.name",),
}
"""What the outermost span, or the first below it that has it, says of a rollout."""
_EVENT: Final = re.compile(
    r"gen_ai\.(?:content\.)?(system\.message|user\.message|assistant\.message|tool\.message|choice)"
)
_CALL: Final = re.compile(
    r"(?:message\.)?tool_calls\.([0-9]+)\.(?:tool_call\.)?(?:function\.)?(id|name|arguments)"
)
_MOST_LEVELS: Final = 32
_MOST_DIGITS: Final = 20
"""Of a time: 64 bits."""
_FAILED: Final = (2, "STATUS_CODE_ERROR")
_TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_TOOL_INPUTS: Final = ("gen_ai.tool.call.arguments", "tool.parameters", "input.value")
_TOOL_OUTPUTS: Final = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_OTHERS: Final = frozenset(("resourceSpans", "resourceLogs", "resourceMetrics"))
"""What a batch is of, where it has no spans."""
_SPAN: Final = "resourceSpans.scopeSpans.spans."

_PIECES: Final = Remark(
    "spans",
    "spans of this trace stand too far apart in the file to be read together",
    "sort the file by trace",
)

_NO_PARENT: Final = Remark(
    "spans",
    "the span above a span of this rollout is not in the file",
    "the trace may begin or go on in another file, where the rest is a rollout of its own",
)

Attributes = dict[str, Any]


class OtlpReader(Reader):
    """Reads spans of agents in OTLP JSON."""

    name = "otlp"
    title = "OpenTelemetry traces"
    sources = (JSON_LINES, JSON_DOCUMENT)
    layout = re.compile(r"[^/]*(?:trace|otlp|otel|span)[^/]*\.json", re.IGNORECASE)
    repeats = "unordered"
    left_out: Mapping[str, str] = {
        f"{rows}{path}": reason
        for rows in ("", "rows.")
        for path, reason in (
            (f"{_SPAN}startTimeUnixNano", "times are seconds from the rollout's first span"),
            (f"{_SPAN}endTimeUnixNano", "times are seconds from the rollout's first span"),
            (f"{_SPAN}events.timeUnixNano", "times are seconds from the rollout's first span"),
            (f"{_SPAN}traceId", "an id that all spans of the trace have"),
            (f"{_SPAN}kind", "whether a span is a client's or a server's"),
            (f"{_SPAN}flags", "of the transport"),
            (f"{_SPAN}traceState", "of the transport"),
            (f"{_SPAN}attributes.key", "names, which the attributes have in the rollout too"),
            (f"{_SPAN}events.attributes.key", "names, which the events have in the rollout too"),
            (
                "resourceSpans.resource.attributes.key",
                "names, which the resource has in the rollout too",
            ),
            (f"{_SPAN}droppedAttributesCount", "of the exporter"),
            ("resourceSpans.scopeSpans.scope", "the library that wrote the spans"),
            ("resourceSpans.scopeSpans.schemaUrl", "the version of the conventions"),
            ("resourceSpans.schemaUrl", "the version of the conventions"),
        )
    }

    def recognises(self, head: Head) -> bool:
        """Spans of an agent, a model or a tool under resourceSpans."""
        return any(span.kind != "other" for record in head.records for span in _spans_in(record))

    def source(self, file: Source) -> Source:
        return JoinedRows(file, _traces_in) if file is JSON_LINES else file

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """The rollouts of the traces of a line, in the order of their first spans."""
        batches = line.rows if isinstance(line, Together) else (line,)
        spans = [span for batch in batches for span in _spans_in(batch)]
        in_pieces = isinstance(line, Together) and line.in_pieces
        rollouts: list[dict[str, Any]] = [
            {"spans": part, "in_pieces": in_pieces} for part in _rollouts(spans)
        ]
        return [*rollouts, *({"spans": [], "line": b} for b in batches if not any(_raw_spans(b)))]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields | Event:
        spans: list[_Span] = line["spans"]
        if not spans:
            if _OTHERS.isdisjoint(line["line"]):
                raise RecordError("it has no spans", hint="spans under resourceSpans.scopeSpans")
            return Event("header", {"spans": 0})
        if all(span.kind == "other" for span in spans):
            return Event("aside", {"spans": len(spans)})
        fields = _conversation(spans) | _times(spans) | _tokens(spans)
        for name, keys in _NAMED.items():
            values = (span.attributes.get(key) for span in spans for key in keys)
            fields[name] = next((value for value in values if value is not None), None)
        step = fields.pop("step")
        fields["rollout_id"] = str(fields["rollout_id"] or spans[0].trace)
        fields["split"] = "eval" if step is None else "train"
        fields["finish_reason"] = _finish_reason(spans)
        fields["spans"] = [span.as_record(_first_start(spans)) for span in spans]
        root = spans[0]
        if root.error:
            fields["error"] = root.error
            fields[FAILURE] = failure_of(UNDECIDED, {"error": root.error})
        remarks = [_PIECES] if line["in_pieces"] else []
        ids = {span.id for span in spans}
        if any(span.parent and span.parent not in ids for span in spans):
            remarks.append(_NO_PARENT)
        return at_step(with_remarks(fields, *remarks), step)


class _Span:
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


def _traces_in(line: Mapping[str, Any]) -> set[str]:
    return {_text(span.get("traceId")) for span, _ in _raw_spans(line)}


def _spans_in(line: Mapping[str, Any]) -> Iterator[_Span]:
    for span, of_resource in _raw_spans(line):
        yield _Span(span, _attributes(object_at(of_resource, "resource")))


def _raw_spans(line: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
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
    for kind, held in value.items():
        if kind == "intValue":
            text = _text(held)
            is_number = text.lstrip("-").isdigit() and len(text) <= _MOST_DIGITS
            return int(text) if is_number else held
        if kind == "arrayValue" and level < _MOST_LEVELS:
            return [_value(entry, level + 1) for entry in objects_in(as_object(held).get("values"))]
        if kind == "kvlistValue" and level < _MOST_LEVELS:
            pairs = objects_in(as_object(held).get("values"))
            return {
                _text(p.get("key")): _value(as_object(p.get("value")), level + 1) for p in pairs
            }
        return held
    return None


def _unflattened(attributes: Attributes) -> Attributes:
    """Attributes whose keys have the place of a message, such as `gen_ai.prompt.0.content`, as lists."""
    plain = Attributes()
    parts = defaultdict[str, defaultdict[int, Attributes]](lambda: defaultdict(dict))
    for key, value in attributes.items():
        if found := _NUMBERED.fullmatch(key):
            parts[found[1]][int(found[2])][found[3]] = value
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
        if found := _CALL.fullmatch(key):
            calls[found[1]][found[2]] = value
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


def _first_start(spans: Iterable[_Span]) -> int | None:
    return min((span.start for span in spans if span.start is not None), default=None)


def _rollouts(spans: Sequence[_Span]) -> Iterator[list[_Span]]:
    """The spans of each rollout, in the order of their begin, the outermost first."""
    traces = defaultdict[str, list[_Span]](list)
    for span in spans:
        traces[span.trace].append(span)
    for trace in traces.values():
        ordered = sorted(trace, key=lambda span: (span.start or 0, -(span.end or 0)))
        above = _ancestors(ordered)
        agents = [
            s for s in ordered if s.kind == "agent" and all(a.kind != "agent" for a in above[s.id])
        ]
        if len({_identity(agent) for agent in agents} - {None}) < max(len(agents), 2):
            ordered.sort(key=lambda span: bool(above[span.id]))
            yield ordered
            continue
        owners = {s.id: next((a for a in (s, *above[s.id]) if a in agents), None) for s in ordered}
        rest = [span for span in ordered if owners[span.id] is None]
        for agent in agents:
            yield [agent, *(s for s in ordered if owners[s.id] is agent and s is not agent)]
        if any(span.kind != "other" for span in rest):
            yield rest


def _ancestors(spans: Sequence[_Span]) -> dict[str, list[_Span]]:
    """By its id the spans above each, the nearest first."""
    by_id = {span.id: span for span in spans}
    above = dict[str, list[_Span]]()
    for span in spans:
        chain = list[_Span]()
        parent = by_id.get(span.parent)
        while parent is not None and parent not in chain and parent is not span:
            chain.append(parent)
            parent = by_id.get(parent.parent)
        above[span.id] = chain
    return above


def _identity(agent: _Span) -> object:
    """What tells a rollout from others of its trace; None where its outermost span does not say."""
    values = (agent.attributes.get(key) for key in _NAMED["rollout_id"])
    return next((str(value) for value in values if value is not None), None)


def _conversation(spans: Sequence[_Span]) -> Fields:
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


def _exchange(span: _Span) -> Fields:
    """What a call was given and what it answered, as messages; empty where no text is recorded."""
    given = [*_instructions(span), *_messages(span, _GIVEN, "gen_ai.choice", is_answer=False)]
    answered = _messages(span, _ANSWERED, "gen_ai.choice", is_answer=True)
    if not answered:
        return {}
    if span.seconds is not None:
        answered[-1] = {**answered[-1], "duration_s": span.seconds}
    return {"prompt": given or None, "response": answered}


def _instructions(span: _Span) -> list[Attributes]:
    parts = parsed_text(span.attributes.get("gen_ai.system_instructions"))
    texts = [str(part.get("content", "")) for part in objects_in(parts)]
    return [{"role": "system", "content": "\n".join(texts)}] if any(texts) else []


def _messages(
    span: _Span, names: Sequence[str], choice: str, *, is_answer: bool
) -> list[Attributes]:
    """The messages of attributes, else of events. choice: the name of the event with the answer."""
    found = (parsed_text(span.attributes.get(name)) for name in names)
    lists = [as_list(value) for value in found if is_list(value)]
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
    found = _EVENT.fullmatch(str(event["name"]))
    role = "assistant" if found is None or found[1] == "choice" else found[1].split(".")[0]
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


def _called(span: _Span) -> Iterator[Attributes]:
    """The call of a tool and its result, of its span."""
    arguments = _first(span, _TOOL_INPUTS)
    given: Any = "{}" if arguments is None else arguments
    function: Attributes = {"name": _tool_name(span), "arguments": given}
    yield {"role": "assistant", "tool_calls": [{"id": span.id, "function": function}]}
    output = _first(span, _TOOL_OUTPUTS)
    result = {"role": "tool", "content": "" if output is None else output, "tool_call_id": span.id}
    yield {**result, **_of_result(span)}


def _of_result(span: _Span) -> Attributes:
    seconds = {} if span.seconds is None else {"duration_s": span.seconds}
    return {**seconds, **({"error": span.error} if span.error else {})}


def _with_span(message: Mapping[str, Any], tools: Sequence[_Span]) -> dict[str, Any]:
    """The result of a tool with the seconds and the error of its span."""
    identity = message.get("tool_call_id")
    if message.get("role") != "tool" or not identity:
        return dict(message)
    matching = (span for span in tools if span.attributes.get("gen_ai.tool.call.id") == identity)
    span = next(matching, None)
    return dict(message) if span is None else {**message, **_of_result(span)}


def _tool_name(span: _Span) -> str:
    return str(_first(span, _TOOL_NAMES) or span.name)


def _first(span: _Span, names: Sequence[str]) -> Any:
    return next((span.attributes[name] for name in names if name in span.attributes), None)


def _outermost(spans: Sequence[_Span], kind: str) -> list[_Span]:
    """The spans of a kind that are not within another of it: libraries write a call twice."""
    above = _ancestors(spans)
    of_kind = [span for span in spans if span.kind == kind]
    return [span for span in of_kind if all(outer.kind != kind for outer in above[span.id])]


def _times(spans: Sequence[_Span]) -> Fields:
    """Seconds in all, and in calls of the model, tools and rewards; None where none is recorded."""
    start = _first_start(spans)
    ends = [span.end for span in spans if span.end is not None]
    fields: Fields = {"seconds": (max(ends) - start) / 1e9 if ends and start is not None else None}
    for kind in ("generate", "tool", "reward"):
        seconds = [span.seconds for span in _outermost(spans, kind) if span.seconds is not None]
        fields[f"{kind}_s"] = sum(seconds) if seconds else None
    return fields


def _tokens(spans: Sequence[_Span]) -> Fields:
    """Tokens of the calls of the model, each counted once; else of the outermost span."""
    above = _ancestors(spans)
    fields = Fields()
    for column, names in _TOKENS.items():
        counts = {span.id: _first(span, names) for span in spans}
        known = {key for key, count in counts.items() if isinstance(count, int | float)}
        calls = [span for span in spans if span.id in known and span.kind == "generate"]
        counted = [
            s for s in calls if not any(a.kind == "generate" and a.id in known for a in above[s.id])
        ]
        counted = counted or [span for span in spans[:1] if span.id in known]
        fields[column] = sum(counts[span.id] for span in counted) if counted else None
    return fields


def _finish_reason(spans: Sequence[_Span]) -> Any:
    """Why the last call of the model ended."""
    for span in reversed(spans):
        reasons = span.attributes.get("gen_ai.response.finish_reasons")
        if span.kind == "generate" and reasons is not None:
            reasons = parsed_text(reasons)
            return reasons[-1] if is_list(reasons) and reasons else reasons
    return None
