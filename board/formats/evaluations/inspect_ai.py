"""Logs of Inspect: .eval files, or one JSON document, with the samples of a task and their scores.

Read from UKGovernmentBEIS/inspect_ai src/inspect_ai/log/_log.py and _recorders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.formats.base import Head, LineContext, Reader, run_name
from board.formats.failures import Verdict, error_text, failure_of, verdict_of
from board.formats.field_values import FAILURE
from board.formats.fields import Fields, at_step, named_rewards, rest_of
from board.formats.io.inspect_files import INSPECT
from board.formats.io.locations import Location, State, state_of
from board.formats.messages import split_conversation
from board.formats.parse import is_list, is_object, object_at, objects_at, objects_in
from board.formats.sources import JSON_DOCUMENT, Row

_GRADES: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partial, incorrect, no answer: as Inspect's own accuracy counts them."""


_LIMITS: Final[Mapping[str, Verdict]] = {
    **dict.fromkeys(("context", "message", "token", "turn", "cost"), "truncated"),
    **dict.fromkeys(("time", "working"), "timeout"),
    "operator": "aborted",
    "custom": "unknown",
}
_TOOL_ERRORS: Final[Mapping[str, Verdict]] = {
    "sandbox_unavailable": "sandbox",
    "cancelled": "aborted",
}
"""By types of a tool's error; all others are of what the model asked for."""
_READ: Final = frozenset(
    (
        *("id", "epoch", "input", "target", "messages", "output", "scores", "metadata", "events"),
        *("model_usage", "total_time", "working_time", "uuid", "error", "limit", "attachments"),
        *("header", "started_at", "completed_at", "events_data", "message_pool", "call_pool"),
    )
)
_ATTACHMENT: Final = "attachment://"
_REFERRING: Final = frozenset(("messages", "scores", "target", "metadata"))
_CANCELLED: Final = ("CancelledError(", "Cancelled(")


class InspectReader(Reader):
    """Reads the logs of Inspect, both as .eval and as .json."""

    name = "inspect"
    title = "Inspect logs"
    left_out: Mapping[str, str] = {
        "events": "what happened step by step: the messages have its texts",
        "samples.events": "what happened step by step: the messages have its texts",
        "messages.id": "an id of the framework that nothing else refers to",
        "samples.messages.id": "an id of the framework that nothing else refers to",
        "uuid": "an id of the framework that nothing else refers to",
        "samples.uuid": "an id of the framework that nothing else refers to",
        "started_at": "when the sample began; its duration is a column",
        "completed_at": "when the sample ended; its duration is a column",
        "samples.started_at": "when the sample began; its duration is a column",
        "samples.completed_at": "when the sample ended; its duration is a column",
        **{
            f"{of_file}{path}": reason
            for of_file in ("", "samples.")
            for path, reason in (
                (
                    "attachments",
                    "texts that events refer to; those of messages and scores are shown there",
                ),
                ("message_pool", "messages that events refer to"),
                ("input.id", "an id of the framework that nothing else refers to"),
                ("input.source", "whose a message is"),
                ("messages.source", "whose a message is"),
                ("output.choices.message.source", "whose a message is"),
                ("messages.tool_calls.view", "a call, formatted"),
                ("output.choices.message.tool_calls.view", "a call, formatted"),
            )
        },
        "version": "the version of the file's layout",
        "status": "how the evaluation ended, a column where that is no success",
        "header": "how the agent was set up, the same for all rollouts",
        "eval": "how the agent was set up, the same for all rollouts",
        "plan": "how the agent was set up, the same for all rollouts",
        "results": "computed from the samples",
        "stats": "sums over the samples",
        "output.completion": "the last message",
        "output.time": "a duration that total_time holds",
        "output.usage": "input and output tokens are columns",
        "events_data": "what happened step by step: the messages have its texts",
        "samples.events_data": "what happened step by step: the messages have its texts",
        "samples.output.completion": "the last message",
        "output.choices.message.id": "an id of the framework that nothing else refers to",
        "samples.output.choices.message.id": "an id of the framework that nothing else refers to",
        "output.input_context_tokens": "input and output tokens are columns",
        "samples.output.input_context_tokens": "input and output tokens are columns",
        "samples.output.usage": "input and output tokens are columns",
        "samples.output.time": "a duration that total_time holds",
        "samples.model_usage": "input and output tokens are columns",
        "reductions": "computed from the samples",
        "error.traceback_ansi": "the traceback in colour",
        "samples.error.traceback_ansi": "the traceback in colour",
        "model_usage": "input and output tokens are columns",
    }
    sources = (INSPECT, JSON_DOCUMENT)
    run_per_file = True
    has_outline = True
    layout = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[^/]+_[^/]+\.(?:eval|json)")

    def recognises(self, head: Head) -> bool:
        """A sample with its epoch, messages and scores, or a document with eval, plan and samples."""
        return head.has("epoch", "messages", "header") or head.has("eval", "plan", "samples")

    def run_title(self, log: Location) -> str:
        task = object_at(_header_of(log, state_of(log)), "eval")
        return run_name(task.get("task"), task.get("model"))

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each sample, with what is said of all."""
        if "header" in line:
            return (line,)
        header = {key: line.get(key) for key in ("eval", "plan", "status")}
        is_log = is_object(line.get("eval")) and isinstance(line.get("status"), str)
        if is_log and line.get("samples") is None:  # it ended before the first sample did
            return ()
        return [{**sample, "header": header} for sample in objects_at(line, "samples")]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        line = _with_attachments(line)
        header = object_at(line, "header")
        task = object_at(header, "eval")
        output = object_at(line, "output")
        choices = objects_in(output.get("choices"))
        settings = {
            **object_at(object_at(header, "plan"), "config"),
            **object_at(task, "model_generate_config"),
        }
        usage = objects_in(list(object_at(line, "model_usage").values()))
        usage = usage or objects_in([output.get("usage")])
        target = line.get("target")
        fields = rest_of(line, _READ) | {
            "messages": [_message(message) for message in objects_in(line.get("messages"))],
            "group_id": line.get("id"),
            "epoch": line.get("epoch"),
            "split": "eval",
            "env": task.get("task"),
            "model": output.get("model") or task.get("model"),
            "temperature": settings.get("temperature"),
            "log_status": None if (s := header.get("status")) == "success" else s,
            "ground_truth": " | ".join(map(str, target)) if is_list(target) else target,
            "finish_reason": choices[0].get("stop_reason") if choices else None,
            "error": object_at(line, "error").get("message"),
            "limit": object_at(line, "limit").get("type"),
            "traceback": object_at(line, "error").get("traceback"),
            "total_time": line.get("total_time"),
            "working_time": line.get("working_time"),
            "metadata": line.get("metadata") or None,
            **_scores(object_at(line, "scores")),
        }
        for key in ("input_tokens", "output_tokens"):
            numbers = [own[key] for own in usage if isinstance(own.get(key), int)]
            fields[key] = sum(numbers) if numbers else None
        if (failure := _failure(line)) is not None:
            fields[FAILURE] = failure
        split_conversation(fields)
        return at_step(fields, None)


def _with_attachments(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """A sample whose messages and scores have the texts and images that they refer to."""
    attachments = object_at(line, "attachments")
    if not attachments:
        return line
    resolved = {key: _resolved(line[key], attachments) for key in _REFERRING & line.keys()}
    return {**line, **resolved}


def _resolved(value: Any, attachments: Mapping[str, Any]) -> Any:
    if is_object(value):
        return {key: _resolved(inner, attachments) for key, inner in value.items()}
    if is_list(value):
        return [_resolved(inner, attachments) for inner in value]
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    return value


def _failure(line: Mapping[str, Any]) -> str | None:
    """A sample's error, else its limit, else what the last call of a tool failed by, unless the model
    went on after it.
    """
    if (error := error_text(object_at(line, "error").get("message"))) is not None:
        verdict = "aborted" if error.startswith(_CANCELLED) else UNDECIDED
        return failure_of(verdict, {"error": error})
    limit = object_at(line, "limit").get("type")
    if (verdict := verdict_of(limit, _LIMITS)) is not None:
        return failure_of(verdict, {"limit": limit})
    last = [message for message in objects_in(line.get("messages"))[-2:] if message.get("error")]
    error = object_at(last[-1], "error").get("type") if last else None
    return failure_of(verdict_of(error, _TOOL_ERRORS), {"tool message error.type": error})


@lru_cache(maxsize=256)
def _header_of(log: Location, state: State) -> Mapping[str, Any]:
    """What a log says of all its samples; empty where it can't be read, or is JSON, read whole later."""
    if not INSPECT.takes(log):
        return {}
    try:
        first = next(INSPECT.head(log), None)
    except OSError:
        return {}
    return object_at(first.record, "header") if isinstance(first, Row) else {}


def _scores(scores: Mapping[str, Any]) -> Fields:
    """The value of each scorer; the reward is that of the only one, or of the first that grades."""
    values = {n: score.get("value") if is_object(score) else score for n, score in scores.items()}
    parts: dict[str, Any] = {}
    for name, value in values.items():
        inner = {f"{name}.{key}": own for key, own in value.items()} if is_object(value) else None
        parts |= {name: value} if inner is None else inner
    known = {name: n for name, value in parts.items() if (n := _number(value)) is not None}
    reward = next((known[name] for name in values if name in known), None)
    return {**_said_by_scorers(scores), **named_rewards(known, reward)}


def _said_by_scorers(scores: Mapping[str, Any]) -> Fields:
    """What else each scorer says: the answer that it took out of the response, its explanation, a value
    that is no number.
    """
    return {
        f"{name}.{key}": score[key]
        for name, score in scores.items()
        if is_object(score)
        for key in score
        if score[key] not in (None, {}) and not (key == "value" and _is_shown(score[key]))
    }


def _is_shown(value: object) -> bool:
    """Whether the named rewards have all of a score's value, as they have no list and no other word."""
    values = value.values() if is_object(value) else (value,)
    return all(_number(own) is not None for own in values)


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return _GRADES.get(value)
    return float(value) if isinstance(value, int | float) else None


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message whose calls have OpenAI's form: Inspect's have the name of the function as text."""
    calls = [
        {
            "id": call.get("id"),
            "function": {"name": call.get("function"), "arguments": call.get("arguments", "")},
        }
        for call in objects_in(message.get("tool_calls"))
    ]
    wanted = ("role", "content", "tool_call_id", "error")
    plain = {key: message[key] for key in wanted if key in message}
    if isinstance(tool := message.get("function"), str):
        plain["name"] = tool
    parts = objects_in(message.get("content"))
    thoughts = [one for one in parts if one.get("type") == "reasoning"]
    if thoughts:
        texts = (str(one.get("reasoning", "")) for one in thoughts)
        plain["reasoning_content"] = "\n".join(texts)
        plain["content"] = [one for one in parts if one not in thoughts]
    return {**plain, "tool_calls": calls} if calls else plain
