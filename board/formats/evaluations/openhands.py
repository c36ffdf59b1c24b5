"""OpenHands' evaluations: output.jsonl, a task per line, its history as events of agent and environment.

Read from All-Hands-AI/OpenHands evaluation/utils/shared.py (`EvalOutput`) and openhands/events. An action
of the agent has the answer of the model in tool_call_metadata, several actions the same one where it made
several calls; of older versions it has only what was done, in args or in the event itself. Since version
1 an event has a kind, and a call of a tool in tool_call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.formats.base import Head, LineContext, Reader
from board.formats.failures import Verdict, error_text, failure_of
from board.formats.field_values import FAILURE
from board.formats.fields import Fields, at_step
from board.formats.messages import split_conversation
from board.formats.parse import is_list, is_object, object_at, objects_in

_READ_APART: Final = frozenset(
    {"instance_id", "history", "metadata", "metrics", "test_result", "instance", "instruction"}
)
_ERRORS: Final[Mapping[str, Verdict]] = {
    "AgentStuckInLoopError": "policy",
    "maximum iteration": "truncated",
    "RUNTIME_DISCONNECTED": "sandbox",
}
"""By what an error holds."""


class OpenHandsReader(Reader):
    """Reads output.jsonl of OpenHands' evaluations and of its resolver."""

    name = "openhands"
    title = "OpenHands evaluation"
    left_out: Mapping[str, str] = {
        "metadata": "how the agent was set up, the same for all rollouts",
        "history.id": "an id of the framework that nothing else refers to",
        "history.extras.metadata": "of the shell: process, folder; an exit code other than 0 is an error",
        "history.llm_metrics": "sums so far, of which the last are columns",
        "history.tool_call_metadata.total_calls_in_response": "how many calls a message has",
        "history.args.start": "which lines were asked for, which the call has",
        "history.args.end": "which lines were asked for, which the call has",
        "history.cause": "the event that an observation answers",
        "history.message": "what an event is, in a sentence",
        "history.args.agent_class": "the class of the agent",
        "history.args.recall_type": "what was looked up, a word",
        "history.extras.recall_type": "what was looked up, a word",
        "history.extras.runtime_hosts": "addresses of the sandbox",
        "history.extras.date": "the day of the run",
        **{
            f"history.tool_call_metadata.model_response.{path}": reason
            for path, reason in (
                *((key, "of the server's answer") for key in ("id", "created", "model", "object")),
                ("usage", "of each call; their sums are columns"),
                ("system_fingerprint", "of the server's answer"),
                ("choices.message.tool_calls.index", "the place of a call in its message"),
            )
        },
        "history.parent_id": "an id of the framework that nothing else refers to",
        "history.llm_response_id": "an id of the framework that nothing else refers to",
        "history.kind": "the kind of an event",
        "history.timestamp": "when the event was",
        "history.action.kind": "the kind of an action",
        "history.observation.kind": "the kind of an observation",
        "history.observation.metadata": "of the shell: process, folder",
        "history.command_id": "of the shell",
        "history.action_id": "an id of the framework that nothing else refers to",
        "history.classification": "whose an event is",
        "metrics.accumulated_token_usage": "input and output tokens are columns",
        "metrics.token_usages": "of each call; their sums are columns",
        "metrics.response_latencies": "of each call",
        "metrics.costs": "of each call; their sum is a column",
    }

    def recognises(self, head: Head) -> bool:
        """A history of actions and observations beside an instruction or the id of an instance."""
        return any(
            ("instance_id" in record or "instruction" in record)
            and any("action" in e or "kind" in e for e in _events(record.get("history")))
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        metadata, result = object_at(line, "metadata"), object_at(line, "test_result")
        model = object_at(metadata, "llm_config") or object_at(metadata, "llm")
        metrics = object_at(line, "metrics")
        usage = object_at(metrics, "accumulated_token_usage")
        resolved = object_at(result, "report").get("resolved", result.get("resolved"))
        fields: Fields = {key: value for key, value in line.items() if key not in _READ_APART}
        fields |= {
            "split": "eval",
            "group_id": line.get("instance_id"),
            "reward": line.get("success") if resolved is None else resolved,
            "messages": list(_messages(line)),
            "model_patch": result.get("git_patch"),
            "instance": line.get("instance"),
            "tools": next((t for e in _events(line.get("history")) if (t := _tools_of(e))), None),
            "model": model.get("model"),
            "temperature": model.get("temperature"),
            "cost": metrics.get("accumulated_cost"),
            "input_tokens": usage.get("prompt_tokens"),
            "output_tokens": usage.get("completion_tokens"),
        }
        instruction = line.get("instruction")
        if all(instruction != message.get("content") for message in fields["messages"]):
            fields["instruction"] = instruction
        if (error := error_text(line.get("error"))) is not None:
            fields[FAILURE] = failure_of(_verdict(error), {"error": error})
        split_conversation(fields)
        return at_step(fields, None)


def _verdict(error: str) -> Verdict:
    word = next((word for word in _ERRORS if word in error), "")
    return _ERRORS.get(word, UNDECIDED)


def _events(history: object) -> Iterator[Mapping[str, Any]]:
    """The events; before 2025 an action and what came of it were a pair."""
    for entry in history if is_list(history) else ():
        yield from objects_in(entry) if is_list(entry) else ((entry,) if is_object(entry) else ())


def _tools_of(event: Mapping[str, Any]) -> Any:
    """The tools that an event gives the model."""
    return event.get("tools") or object_at(event, "args").get("tools")


def _messages(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    seen = set[str]()
    for event in _events(line.get("history")):
        if "kind" in event:
            yield from _of_kind(event)
            continue
        called = object_at(event, "tool_call_metadata")
        if event.get("observation") is not None:
            if str(event["observation"]) not in ("agent_state_changed", "null"):
                identity = called.get("tool_call_id") or ""
                result = {"role": "tool", "content": _observed(event), "tool_call_id": identity}
                code = object_at(object_at(event, "extras"), "metadata").get("exit_code")
                yield {**result, "exit_code": code} if code not in (None, -1) else result
            continue
        answer = object_at(called, "model_response")
        choices = objects_in(answer.get("choices"))
        if not choices:
            yield from _spoken(event, line)
        elif (identity := str(answer.get("id"))) not in seen:
            seen.add(identity)
            yield {"role": "assistant", **object_at(choices[0], "message")}


def _observed(event: Mapping[str, Any]) -> Any:
    """What came of an action; of a look at what is known of the task, that too."""
    extras = object_at(event, "extras")
    known = [str(entry.get("content")) for entry in objects_in(extras.get("microagent_knowledge"))]
    said = (
        extras.get(key) for key in ("repo_instructions", "additional_agent_instructions", "diff")
    )
    texts = [event.get("content"), *(text for text in said if text), *known]
    return "\n\n".join(map(str, texts)) if len(texts) > 1 else texts[0]


def _of_kind(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The message of an event since version 1, which says of which kind it is."""
    identity = event.get("tool_call_id") or ""
    if text := object_at(event, "system_prompt").get("text"):
        yield {"role": "system", "content": text}
    elif message := object_at(event, "llm_message"):
        yield {"role": message.get("role", "user"), "content": message.get("content")}
    elif call := object_at(event, "tool_call"):
        function = {"name": call.get("name"), "arguments": call.get("arguments")}
        calls = [{"id": identity, "function": function}]
        thoughts = {"reasoning_content": own} if (own := event.get("reasoning_content")) else {}
        said = {"role": "assistant", "content": event.get("thought")}
        yield {**said, "tool_calls": calls, **thoughts}
    elif (observation := object_at(event, "observation")) or "error" in event:
        content = observation.get("content", event.get("error"))
        is_error = {"is_error": True} if "error" in event or observation.get("is_error") else {}
        yield {"role": "tool", "content": content, "tool_call_id": identity, **is_error}


def _spoken(event: Mapping[str, Any], line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The message of an action without the model's answer: what was said, or a call of what was done."""
    kind = str(event.get("action"))
    arguments = dict(object_at(event, "args") or event)
    said = arguments.get("content") or event.get("message")
    if "action" not in event or kind in ("change_agent_state", "null", "None", "recall"):
        return  # it is said to nobody
    if kind == "system":
        yield {"role": "system", "content": said}
    elif kind == "message":
        is_user = event.get("source") == "user" or said == line.get("instruction")
        yield {"role": "user" if is_user else "assistant", "content": said}
    else:
        thought = arguments.pop("thought", None)
        arguments.pop("action", None)
        call = {"function": {"name": kind, "arguments": arguments}}
        yield {"role": "assistant", "content": thought, "tool_calls": [call]}
