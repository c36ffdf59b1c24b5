"""ART's trajectories: trajectories/{split}/{step}.{jsonl,yaml}, a group a line or entry, or .parquet.

Read from OpenPipe/ART 0.5.18 src/art/utils/trajectory_migration.py (`serialize_trajectory_groups`, lines;
`migrate_jsonl_to_parquet`), src/art/utils/trajectory_logging.py (`write_trajectory_groups_parquet`,
versions 1 and 2), and OpenPipe/ART@779559f's trajectory_logging.py, which wrote .yaml until June 2025. A
trajectory has messages and choices {finish_reason, message, logprobs} that the model made, the newest
exchanges in their place. Of several histories the one with most choices is shown, the last one of equals,
and the others are counted. Only version 2 keeps the log-probabilities of choices: the sampler's.

Exchanges are the calls of a model's API as they were. Read from OpenPipe/ART@110c19d
src/art/trajectories/{__init__,_history,_protocols}.py: {chat_completions, completions, responses,
messages}, each a list of {request, response, model, start_time, end_time} with the bodies of OpenAI's and
Anthropic's APIs. A call whose prompt begins with all that an earlier one was given and answered goes on
with its history; any other begins a history of its own, and so does each further choice of a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.failures import failure_of, verdict_of
from board.formats.field_values import FAILURE, split_named
from board.formats.fields import RecordBuilder
from board.formats.io.parquet_files import PARQUET
from board.formats.io.yaml_files import YAML
from board.formats.messages import instructions_of, is_messages, messages_of, parsed_text
from board.formats.parse import as_list, as_object, is_list, object_at, objects_in
from board.formats.sources import JSON_LINES

_READ: Final = frozenset(
    (
        *("messages", "messages_and_choices", "exchanges", "additional_histories", "reward"),
        *("metrics", "metadata", "tools", "logs", "group_metrics", "group_metadata", "group_logs"),
        *("group_index", "trajectory_index", "trajectory_json", "format_version"),
        *("initial_policy_version", "final_policy_version"),
    )
)
_Object = dict[str, Any]
_Call = tuple[list[_Object], list[_Object]]
"""What a call was given, as messages, and its answers, as choices {finish_reason, message, logprobs}."""


def _histories_of(exchanges: Mapping[str, Any]) -> list[list[_Object]]:
    """The histories of a trajectory in the order they were begun in, as messages and choices."""
    histories: list[list[_Object]] = []
    answered: dict[str, list[_Object]] = {}
    calls = [(e, name) for name in _PROTOCOLS for e in objects_in(exchanges.get(name))]
    for exchange, name in sorted(calls, key=lambda call: str(call[0].get("start_time"))):
        request, response = object_at(exchange, "request"), object_at(exchange, "response")
        given, choices = _PROTOCOLS[name](request, response)
        given = [*answered.get(str(request.get("previous_response_id")), []), *given]
        history = next((h for h in reversed(histories) if _goes_on(given, h)), None)
        asked = list(given) if history is None else [*history, *given[len(history) :]]
        if history is not None and choices:
            histories.remove(history)
        histories += [[*asked, choice] for choice in choices]
        if choices:
            answered[str(response.get("id"))] = [*asked, choices[0]]
    return histories


def _goes_on(given: Sequence[_Object], history: Sequence[_Object]) -> bool:
    """Whether all of a history stands at the beginning of what a call was given."""
    return len(history) < len(given) and all(
        _visible(a) == _visible(b) for a, b in zip(given, history, strict=False)
    )


def _visible(entry: _Object) -> str:
    """What two messages have to agree in; reasoning is often left out when a message is sent back."""
    message = entry["message"] if "finish_reason" in entry else entry
    keys = ("role", "content", "tool_calls", "tool_call_id")
    return json.dumps({k: message[k] for k in keys if message.get(k)}, sort_keys=True, default=str)


def _chat(request: _Object, response: _Object) -> _Call:
    choices: list[_Object] = []
    for choice in objects_in(response.get("choices")):
        message = {"role": "assistant", **object_at(choice, "message")}
        choices.append({"finish_reason": None, **choice, "message": message})
    return objects_in(request.get("messages")), choices


def _completion(request: _Object, response: _Object) -> _Call:
    prompt = request.get("prompt")
    given = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else []
    choices: list[_Object] = []
    for choice in objects_in(response.get("choices")):
        logprobs = object_at(choice, "logprobs")
        values = logprobs.get("token_logprobs") or choice.get("token_logprobs")
        tokens = _tokens(choice.get("token_ids"), logprobs.get("tokens"), values)
        message = {"role": "assistant", "content": choice.get("text")}
        choices.append(_choice(choice.get("finish_reason"), message, tokens))
    return given, choices


def _responses(request: _Object, response: _Object) -> _Call:
    given = [*instructions_of(request), *messages_of(request.get("input"))]
    put_out = messages_of(response.get("output"))
    if not put_out:
        return given, []
    cut = object_at(response, "incomplete_details").get("reason")
    # What of one answer stands before its last message (tools that the server ran) was not asked for
    # by the caller, and is part of the history all the same.
    return [*given, *put_out[:-1]], [_choice(cut or response.get("status"), put_out[-1], None)]


def _anthropic(request: _Object, response: _Object) -> _Call:
    given = [{"role": "system", "content": request["system"]}] if request.get("system") else []
    for message in objects_in(request.get("messages")):
        given += _of_blocks(str(message.get("role")), message.get("content"))
    answer = _of_blocks("assistant", response.get("content"))
    if not answer:
        return given, []
    tokens = _tokens(response.get("token_ids"), None, response.get("logprobs"))
    return given, [_choice(response.get("stop_reason"), answer[-1], tokens)]


def _of_blocks(role: str, content: object) -> list[_Object]:
    """A message of Anthropic's API as chat messages: results of tools are messages of their own."""
    if not is_list(content):
        return [{"role": role, "content": content}]
    results: list[_Object] = []
    parts: list[_Object] = []
    thoughts: list[str] = []
    calls: list[_Object] = []
    for block in objects_in(content):
        kind = block.get("type")
        if kind == "tool_result":
            answer = {"content": block.get("content"), "tool_call_id": block.get("tool_use_id")}
            results.append({"role": "tool", **answer})
        elif kind == "thinking":
            thoughts.append(str(block.get("thinking")))
        elif kind == "tool_use":
            function = {"name": block.get("name"), "arguments": block.get("input")}
            calls.append({"id": block.get("id"), "function": function})
        elif kind == "image":
            parts.append({"type": "image", "image": block.get("source")})
        elif kind == "text":
            parts.append(block)
    # One text alone is said in both ways.
    is_text = [part["type"] for part in parts] == ["text"]
    message: _Object = {"role": role, "content": parts[0].get("text") if is_text else parts}
    if thoughts:
        message["reasoning_content"] = "\n".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return [*results, message] if len(message) > 2 or parts or not results else results


def _choice(reason: object, message: _Object, tokens: list[_Object] | None) -> _Object:
    logprobs = None if tokens is None else {"content": tokens}
    return {"finish_reason": reason, "message": message, "logprobs": logprobs}


def _tokens(ids: object, texts: object, logprobs: object) -> list[_Object] | None:
    """{token, logprob} of each sampled token; None unless there is one of each for each token."""
    tokens = [f"token_id:{i}" for i in ids] if is_list(ids) else as_list(texts)
    values = as_list(logprobs)
    if len(tokens) != len(values) or not tokens:
        return None
    return [{"token": t, "logprob": p} for t, p in zip(tokens, values, strict=True)]


_PROTOCOLS: Final[Mapping[str, Callable[[_Object, _Object], _Call]]] = {
    "chat_completions": _chat,
    "completions": _completion,
    "responses": _responses,
    "messages": _anthropic,
}


_EXPECTED: Final = "a list of trajectories, each with a reward and messages_and_choices"
_TOKEN_ID: Final = "token_id:"


class ArtReader(Reader):
    """Reads the trajectories that ART logs."""

    name = "art"
    title = "ART"
    left_out: Mapping[str, str] = {
        "format_version": "the version of the file's layout",
        "trajectories.messages_and_choices.index": "which of a call's choices it is: the first",
        "trajectory_json.exchanges": "calls as they were made: their histories are shown",
    }
    sources = (JSON_LINES, PARQUET, YAML)
    layout = re.compile(r"trajectories/(?P<split>[^/]+)/(?P<step>[0-9]+)\.(?:jsonl|parquet|yaml)")

    def recognises(self, head: Head) -> bool:
        """Columns of a trajectory with its group, or lines of trajectories with messages and choices."""
        columns = ("group_index", "reward", "messages", "metadata", "tools", "logs")
        return head.has(*columns) or any(
            "messages_and_choices" in entry or "exchanges" in entry
            for record in head.records
            for entry in objects_in(record.get("trajectories"))
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """The trajectories of a group, numbered, each with what is said of all; of a table the row."""
        if "trajectories" not in line:
            return (line,)
        entries = line["trajectories"]
        if not is_list(entries):
            raise RecordError("trajectories is not a list", field="trajectories", hint=_EXPECTED)
        of_group = {f"group_{k}": v for k, v in line.items() if k != "trajectories" and v}
        return [
            {**of_group, **as_object(entry), "trajectory_index": i}
            for i, entry in enumerate(entries)
        ]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record | None:
        """The Record of one trajectory; None for an empty group. The step is the file name's."""
        whole = line.get("trajectory_json")
        if "group_index" in line and line.get("reward") is line.get("messages") is whole is None:
            return None
        if "reward" not in line:
            raise RecordError("it is not a trajectory", field="reward", hint=_EXPECTED)
        # The JSON is the whole trajectory, the columns beside it are for queries.
        trajectory = {**line, **as_object(parsed_text(whole))}
        builder = RecordBuilder(at.options, split_named(at.named("split") or "train"))
        group = line.get("group_index", at.line - 1)  # lines have no number but their own
        builder.take("group_id", group)
        if (index := line.get("trajectory_index")) is not None:
            builder.take("rollout_id", f"{group}-{index}")
        builder.take("reward", line.get("reward"))
        builder.take("policy_version", trajectory.get("initial_policy_version"))
        builder.take("policy_version_end", trajectory.get("final_policy_version"))
        _take_messages(builder, trajectory)
        for key in ("metrics", "group_metrics"):
            for name, value in as_object(parsed_text(trajectory.get(key))).items():
                builder.take(f"{key}.{name}", value)
        for key in ("metadata", "tools", "logs", "group_metadata", "group_logs"):
            builder.take(key, parsed_text(trajectory.get(key)) or None)
        builder.take_rest(trajectory, _READ)
        return builder.build(at.step)


def _take_messages(builder: RecordBuilder, trajectory: Mapping[str, Any]) -> None:
    """Takes the conversation, cut where the model's own first message is, and its tokens."""
    entries = objects_in(trajectory.get("messages_and_choices")) or objects_in(
        trajectory.get("messages")
    )
    others = len(objects_in(parsed_text(trajectory.get("additional_histories"))))
    if not entries and (histories := _histories_of(object_at(trajectory, "exchanges"))):
        histories.reverse()  # the last one of equals
        entries = max(histories, key=lambda h: sum("finish_reason" in entry for entry in h))
        others = len(histories) - 1
        further = [[_message(entry) for entry in h] for h in histories if h is not entries]
        builder.take_extra("other_histories", further or None)
    else:
        builder.take_extra(
            "other_histories", parsed_text(trajectory.get("additional_histories")) or None
        )
    builder.take("additional_histories", others or None)
    messages = [_message(entry) for entry in entries]
    own = [bool(entry.get("trainable")) or "finish_reason" in entry for entry in entries]
    if not is_messages(messages):
        if trajectory.get("exchanges"):
            reason = "no conversation can be made of the calls of the model"
            hint = f"{_EXPECTED}, or exchanges of OpenAI's or Anthropic's API"
            builder.remark("exchanges", reason, f"expected: {hint}")
        return
    if True in own:
        first = own.index(True)
        builder.take_turns(messages[:first], messages[first:])
    else:
        builder.take_conversation(messages)
    choices = [entry for entry in entries if "finish_reason" in entry]
    if choices:
        reason = choices[-1]["finish_reason"]
        builder.take("finish_reason", reason)
        reasons = [choice["finish_reason"] for choice in choices]
        builder.take_extra("finish_reasons", reasons if any(r != reason for r in reasons) else None)
        builder.take(FAILURE, failure_of(verdict_of(reason), {"finish_reason": reason}))
        _take_tokens(builder, choices)


def _message(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The chat message of an entry, a choice's being inside it; tool calls may be JSON in a text."""
    inner = as_object(entry["message"]) if "finish_reason" in entry else entry
    message = {k: v for k, v in inner.items() if v is not None and k != "trainable"}
    if isinstance(message.get("tool_calls"), str):
        message["tool_calls"] = parsed_text(message["tool_calls"])
    return message


def _take_tokens(builder: RecordBuilder, choices: Sequence[Mapping[str, Any]]) -> None:
    """Takes the tokens of all choices one after the other, where each choice has them."""
    contents = [objects_in(as_object(choice.get("logprobs")).get("content")) for choice in choices]
    if not all(contents):
        return
    tokens = [token for content in contents for token in content]
    pieces = [str(token.get("token")) for token in tokens]
    ids = [piece.removeprefix(_TOKEN_ID) for piece in pieces]
    if all(p.startswith(_TOKEN_ID) and i.isdigit() for p, i in zip(pieces, ids, strict=True)):
        builder.take("response_ids", [int(i) for i in ids])
    else:
        builder.take("response_tokens", pieces)
    builder.take("sampling_logprobs", [token.get("logprob") for token in tokens])
