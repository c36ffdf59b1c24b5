"""Trajectories of SWE-agent and mini-swe-agent: one JSON document per task, without a reward.

Read from SWE-agent/SWE-agent@3ea751c sweagent/agent/agents.py (`get_trajectory_data`; <id>/<id>.traj:
trajectory, history, info, and replay_config, an object or JSON in a text) and
SWE-agent/mini-swe-agent@a83fcae src/minisweagent/agents/default.py (`serialize`; <id>/<id>.traj.json:
info, messages, trajectory_format, instance_id). What the benchmark says of the patch is in other files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.failures.causes import UNDECIDED
from board.formats.base import Head, LineContext, Reader
from board.formats.failures import Verdict, error_text, failure_of, verdict_of
from board.formats.field_values import FAILURE, is_truncated
from board.formats.fields import Fields, at_step, rest_of
from board.formats.messages import parsed_text, split_conversation
from board.formats.parse import as_object, is_list, object_at, objects_in
from board.formats.sources import JSON_DOCUMENT

_LAYOUT: Final = re.compile(r"(?:(?P<id>[^/]+)/(?P=id)|(?P<alone>[^/]+?))\.traj(?:\.json)?")


_STATUSES: Final[Mapping[str, Verdict]] = {
    "exit_total_execution_time": "timeout",
    "exit_api": "server",
    "exit_error": UNDECIDED,
    "exit_environment_error": "sandbox",
    **dict.fromkeys(("early_exit", "skipped"), "aborted"),
    **dict.fromkeys(("unknown_exit", "validate"), "unknown"),
}
"""By exit_status of SWE-agent, or what it has in brackets: how the agent ended."""
_MINI_STATUSES: Final[Mapping[str, Verdict]] = {
    "timeexceeded": "timeout",
    "userinterruption": "aborted",
    # exceptions of the model's client
    **dict.fromkeys(("timeout", "notfounderror"), "server"),
    # the container did not start
    **dict.fromkeys(("calledprocesserror", "timeoutexpired"), "sandbox"),
}
"""By exit_status of mini-swe-agent, which may be the name of an exception."""
_MINI_ENDS: Final = frozenset({"submitted", "repeatedformaterror", "limitsexceeded"})
_READ: Final = frozenset(("trajectory", "history", "info", "replay_config"))
_READ_OF_MINI: Final = frozenset(("info", "messages", "trajectory_format", "instance_id"))
_NO_CALL: Final = "no model call, api_calls"
_HARNESS_SAYS: Final = "Exit due to"
"""Begins what SWE-agent writes in the model's place."""


class SweAgentReader(Reader):
    """Reads the .traj files of SWE-agent."""

    name = "swe_agent"
    title = "SWE-agent trajectories"
    left_out: Mapping[str, str] = {
        "trajectory.execution_time": "the seconds of each step",
        "trajectory.query": "what the model was given, which is the history before the step",
        "trajectory.state": "the state of the editor",
        "trajectory.messages": "what the model was given, once more",
        "trajectory.action": "the call of its message, as a command",
        "history.action": "the call of its message, as a command",
        "history.message_type": "the kind of a message",
        "history.agent": "the name of the agent, the same in all messages",
        "info.edited_files30": "parts of the patch, which is shown",
        "info.edited_files50": "parts of the patch, which is shown",
        "info.edited_files70": "parts of the patch, which is shown",
        "replay_config": "how the agent was set up, the same for all rollouts",
    }
    sources = (JSON_DOCUMENT,)
    layout = _LAYOUT

    def recognises(self, head: Head) -> bool:
        """A history whose messages have an agent, with a trajectory and info or alone."""
        return head.has("trajectory", "history", "info") or any(
            list(record) == ["history"] and "agent" in message
            for record in head.records
            for message in objects_in(record.get("history"))[:1]
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        """The history as a conversation; what settings are recorded are those of replay_config."""
        settings = as_object(parsed_text(line.get("replay_config")))
        model = object_at(object_at(settings, "agent"), "model")
        fields = rest_of(line, _READ) | _of_info(object_at(line, "info"), at)
        fields |= {"model": model.get("name"), "temperature": model.get("temperature")}
        history = objects_in(line.get("history"))
        fields["messages"] = messages = [*history, *_steps_after(history, line)]
        fields["steps_beside_history"] = _steps_beside(messages, line) or None
        for i, message in enumerate(messages):  # its list has the one id that a chat message has
            if is_list(ids := message.get("tool_call_ids")) and ids:
                messages[i] = {**message, "tool_call_id": ids[0]}
        fields |= _ending(object_at(line, "info"), messages)
        split_conversation(fields)
        return at_step(fields, None)


class MiniSweAgentReader(Reader):
    """Reads the .traj.json files of mini-swe-agent, whose messages OpenAI's clients write."""

    name = "mini_swe_agent"
    title = "mini-swe-agent trajectories"
    left_out: Mapping[str, str] = {
        "info.config": "how the agent was set up, the same for all rollouts",
        "messages.extra": "the answer of the server, in which every text stands again",
        "trajectory_format": "the version of the file's layout",
    }
    sources = (JSON_DOCUMENT,)
    layout = _LAYOUT

    def recognises(self, head: Head) -> bool:
        """Messages with a trajectory_format of mini-swe-agent."""
        return any(
            str(record.get("trajectory_format", "")).startswith("mini-swe-agent")
            and is_list(record.get("messages"))
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        info = object_at(line, "info")
        model = object_at(object_at(info, "config"), "model")
        fields = rest_of(line, _READ_OF_MINI) | _of_info(info, at)
        fields["group_id"] = line.get("instance_id") or fields["group_id"]
        fields["model"] = model.get("model_name")
        fields["temperature"] = object_at(model, "model_kwargs").get("temperature")
        # extra: the answer of the server, in which every text stands again
        fields["messages"] = [
            {key: value for key, value in message.items() if key != "extra"}
            for message in objects_in(line.get("messages"))
            if "role" in message
        ]
        if (failure := _mini_failure(info, fields["messages"])) is not None:
            fields[FAILURE] = failure
        split_conversation(fields)
        return at_step(fields, None)


def _steps_after(history: Sequence[Mapping[str, Any]], line: Mapping[str, Any]) -> list[Any]:
    """The last steps of the trajectory as messages, where the history ends before them."""
    said = {str(message.get("content")).strip() for message in history}
    said |= {str(message.get("thought")).strip() for message in history}
    steps = objects_in(line.get("trajectory"))
    known = [i for i, step in enumerate(steps) if str(step.get("response")).strip() in said]
    messages: list[dict[str, Any]] = []
    for step in steps[known[-1] + 1 if known else 0 :]:
        messages.append({"role": "assistant", "content": step.get("response")})
        action = step.get("action")
        if isinstance(action, str) and action not in str(step.get("response")):
            messages[-1]["tool_calls"] = [{"function": {"name": "action", "arguments": action}}]
        if step.get("observation"):
            messages.append({"role": "tool", "content": step["observation"]})
    return messages


def _steps_beside(
    messages: Sequence[Mapping[str, Any]], line: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The steps whose answers no message has: histories of demonstrations were edited by hand."""
    said = "\n".join(
        str(message.get(key)) for message in messages for key in ("content", "thought")
    )
    steps = objects_in(line.get("trajectory"))
    return [
        {"step": number, "response": step.get("response"), "thought": step.get("thought")}
        for number, step in enumerate(steps, 1)
        if str(step.get("response")).strip() not in said
    ]


def _of_info(info: Mapping[str, Any], at: LineContext) -> Fields:
    """What both say of how a task ended and what it cost."""
    return {
        "split": "eval",
        "group_id": at.named("id") or at.named("alone"),
        "finish_reason": info.get("exit_status"),
        "error": info.get("exception_str"),
        "submission": info.get("submission"),
        **{key: info[key] for key in info if key.endswith(("_version", "_hash"))},
        **object_at(info, "model_stats"),
    }


def _ending(info: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> Fields:
    """How SWE-agent ended: whether at a limit, and what failed."""
    status = info.get("exit_status")
    own = [str(one.get("content")) for one in messages if one.get("role") == "assistant"]
    harness = [text for text in own if text.startswith(_HARNESS_SAYS)]
    if _calls(info) == 0 and len(own) == len(harness):
        return {FAILURE: failure_of("server", {_NO_CALL: "0", "exit_status": status})}
    if status == "":
        return {FAILURE: failure_of("unknown", {"exit_status": "(empty)"})}
    if not isinstance(status, str):
        return {}
    outer, _, bracket = status.partition(" (")
    ended = bracket.removesuffix(")") or outer
    verdict = verdict_of(ended, _STATUSES) or verdict_of(outer, _STATUSES)
    evidence = {"exit_status": status, "response": harness[-1] if harness else None}
    if status.startswith("Environment died unexpectedly"):
        verdict = "sandbox"
    fields: Fields = {"is_truncated": is_truncated(ended)}
    return fields if verdict is None else {**fields, FAILURE: failure_of(verdict, evidence)}


def _mini_failure(info: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> str | None:
    status, error = info.get("exit_status"), error_text(info.get("exception_str"))
    if not isinstance(status, str):
        return None
    has_answer = any(message.get("role") == "assistant" for message in messages)
    verdict = verdict_of(status, _MINI_STATUSES)
    if status == "":
        verdict = "unknown"
    elif verdict is None and status.lower() not in _MINI_ENDS:
        verdict = UNDECIDED
    if _calls(info) == 0 and not has_answer and verdict in (None, "unknown"):
        return failure_of("server", {_NO_CALL: "0", "exit_status": status})
    return failure_of(verdict, {"exit_status": status or "(empty)", "exception_str": error})


def _calls(info: Mapping[str, Any]) -> object:
    return object_at(info, "model_stats").get("api_calls")
