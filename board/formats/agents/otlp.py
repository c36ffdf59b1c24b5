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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.core.records import Remark
from board.errors import RecordError
from board.formats.agents.otlp_messages import conversation
from board.formats.agents.otlp_spans import (
    Span,
    ancestors,
    first_of,
    first_start,
    raw_spans,
    spans_in,
    traces_in,
)
from board.formats.base import Event, Head, LineContext, Reader
from board.formats.failures import failure_of
from board.formats.field_values import FAILURE
from board.formats.fields import Fields, at_step, with_remarks
from board.formats.joined_rows import JoinedRows, Together
from board.formats.messages import parsed_text
from board.formats.parse import is_list
from board.formats.sources import JSON_DOCUMENT, JSON_LINES, Source

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
    "a parent span of this rollout is not in the file",
    "the trace may begin or go on in another file, where the rest is a rollout of its own",
)


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
            (f"{_SPAN}status.code", "whether a span failed, which its error says"),
            ("resourceSpans.scopeSpans.scope", "the library that wrote the spans"),
            ("resourceSpans.scopeSpans.schemaUrl", "the version of the conventions"),
            ("resourceSpans.schemaUrl", "the version of the conventions"),
        )
    }

    def recognises(self, head: Head) -> bool:
        """Spans of an agent, a model or a tool under resourceSpans."""
        return any(span.kind != "other" for record in head.records for span in spans_in(record))

    def source(self, file: Source) -> Source:
        return JoinedRows(file, traces_in) if file is JSON_LINES else file

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """The rollouts of the traces of a line, in the order of their first spans."""
        batches = line.rows if isinstance(line, Together) else (line,)
        spans = [span for batch in batches for span in spans_in(batch)]
        in_pieces = isinstance(line, Together) and line.in_pieces
        rollouts: list[dict[str, Any]] = [
            {"spans": part, "in_pieces": in_pieces} for part in _rollouts(spans)
        ]
        return [*rollouts, *({"spans": [], "line": b} for b in batches if not any(raw_spans(b)))]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields | Event:
        spans: list[Span] = line["spans"]
        if not spans:
            if _OTHERS.isdisjoint(line["line"]):
                raise RecordError("it has no spans", hint="spans under resourceSpans.scopeSpans")
            return Event("header", {"spans": 0})
        if all(span.kind == "other" for span in spans):
            return Event("aside", {"spans": len(spans)})
        fields = conversation(spans) | _times(spans) | _tokens(spans)
        for name, keys in _NAMED.items():
            values = (span.attributes.get(key) for span in spans for key in keys)
            fields[name] = next((value for value in values if value is not None), None)
        step = fields.pop("step")
        fields["rollout_id"] = str(fields["rollout_id"] or spans[0].trace)
        fields["split"] = "eval" if step is None else "train"
        fields["finish_reason"] = _finish_reason(spans)
        start = first_start(spans)
        fields["spans"] = [span.as_record(start) for span in spans]
        root = spans[0]
        if root.error:
            fields["error"] = root.error
            fields[FAILURE] = failure_of(UNDECIDED, {"error": root.error})
        remarks = [_PIECES] if line["in_pieces"] else []
        ids = {span.id for span in spans}
        if any(span.parent and span.parent not in ids for span in spans):
            remarks.append(_NO_PARENT)
        return at_step(with_remarks(fields, *remarks), step)


def _rollouts(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """The spans of each rollout, in the order of their begin, the outermost first."""
    traces = defaultdict[str, list[Span]](list)
    for span in spans:
        traces[span.trace].append(span)
    for trace in traces.values():
        ordered = sorted(trace, key=lambda span: (span.start or 0, -(span.end or 0)))
        above = ancestors(ordered)
        agents = [
            s for s in ordered if s.kind == "agent" and all(a.kind != "agent" for a in above[s.id])
        ]
        if len({_identity(agent) for agent in agents} - {None}) < max(len(agents), 2):
            ordered.sort(key=lambda span: bool(above[span.id]))
            yield ordered
            continue
        among = {id(agent) for agent in agents}
        rest: list[Span] = []
        below = defaultdict[int, list[Span]](list)
        for span in ordered:
            owner = next((a for a in (span, *above[span.id]) if id(a) in among), None)
            if owner is None:
                rest.append(span)
            elif owner is not span:
                below[id(owner)].append(span)
        for agent in agents:
            yield [agent, *below[id(agent)]]
        if any(span.kind != "other" for span in rest):
            yield rest


def _identity(agent: Span) -> object:
    """What tells a rollout from others of its trace; None where its outermost span does not say."""
    values = (agent.attributes.get(key) for key in _NAMED["rollout_id"])
    return next((str(value) for value in values if value is not None), None)


def _outermost(spans: Sequence[Span], kind: str) -> list[Span]:
    """The spans of a kind that are not within another of it: libraries write a call twice."""
    above = ancestors(spans)
    of_kind = [span for span in spans if span.kind == kind]
    return [span for span in of_kind if all(outer.kind != kind for outer in above[span.id])]


def _times(spans: Sequence[Span]) -> Fields:
    """Seconds in all, and in calls of the model, tools and rewards; None where none is recorded."""
    start = first_start(spans)
    ends = [span.end for span in spans if span.end is not None]
    fields: Fields = {"seconds": (max(ends) - start) / 1e9 if ends and start is not None else None}
    for kind in ("generate", "tool", "reward"):
        seconds = [span.seconds for span in _outermost(spans, kind) if span.seconds is not None]
        fields[f"{kind}_s"] = sum(seconds) if seconds else None
    return fields


def _tokens(spans: Sequence[Span]) -> Fields:
    """Tokens of the calls of the model, each counted once; else of the outermost span."""
    above = ancestors(spans)
    fields = Fields()
    for column, names in _TOKENS.items():
        counts = {span.id: first_of(span, names) for span in spans}
        known = {key for key, count in counts.items() if isinstance(count, int | float)}
        calls = [span for span in spans if span.id in known and span.kind == "generate"]
        counted = [
            s for s in calls if not any(a.kind == "generate" and a.id in known for a in above[s.id])
        ]
        counted = counted or [span for span in spans[:1] if span.id in known]
        fields[column] = sum(counts[span.id] for span in counted) if counted else None
    return fields


def _finish_reason(spans: Sequence[Span]) -> Any:
    """Why the last call of the model ended."""
    for span in reversed(spans):
        reasons = span.attributes.get("gen_ai.response.finish_reasons")
        if span.kind == "generate" and reasons is not None:
            reasons = parsed_text(reasons)
            return reasons[-1] if is_list(reasons) and reasons else reasons
    return None
