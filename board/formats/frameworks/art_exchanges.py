"""What ART's newest trajectories hold in the place of messages: the calls of a model's API as they were.

Read from OpenPipe/ART@110c19d src/art/trajectories/{__init__,_history,_protocols}.py: exchanges
{chat_completions, completions, responses, messages}, each a list of {request, response, model,
start_time, end_time} with the bodies of OpenAI's and Anthropic's APIs. A call whose prompt begins with
all that an earlier one was given and answered goes on with its history; any other begins a history of
its own, and so does each further choice of a call. Histories come out as lists of messages and choices,
the form that older trajectories have.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from board.formats.responses import instructions_of
from board.formats.responses import messages_of as messages_of_items

_Object = dict[str, Any]
_Call = tuple[list[_Object], list[_Object]]
"""What a call was given, as messages, and its answers, as choices {finish_reason, message, logprobs}."""


def histories_of(exchanges: Mapping[str, Any]) -> list[list[_Object]]:
    """The histories of a trajectory in the order they were begun in, as messages and choices."""
    found: list[list[_Object]] = []
    answered: dict[str, list[_Object]] = {}
    calls = [(e, name) for name in _PROTOCOLS for e in _objects(exchanges.get(name))]
    for exchange, name in sorted(calls, key=lambda call: str(call[0].get("start_time"))):
        given, choices = _PROTOCOLS[name](
            _object(exchange, "request"), _object(exchange, "response")
        )
        before = answered.get(str(_object(exchange, "request").get("previous_response_id")), [])
        given = [*before, *given]
        history = next((h for h in reversed(found) if _goes_on(given, h)), None)
        asked = list(given) if history is None else [*history, *given[len(history) :]]
        if history is not None and choices:
            found.remove(history)
        found += [[*asked, choice] for choice in choices]
        if choices:
            answered[str(_object(exchange, "response").get("id"))] = [*asked, choices[0]]
    return found


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
    choices = _objects(response.get("choices"))
    return _objects(request.get("messages")), [
        {
            "finish_reason": choice.get("finish_reason"),
            "message": {"role": "assistant", **_object(choice, "message")},
            "logprobs": choice.get("logprobs"),
        }
        for choice in choices
    ]


def _completion(request: _Object, response: _Object) -> _Call:
    prompt = request.get("prompt")
    given = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else []
    choices: list[_Object] = []
    for choice in _objects(response.get("choices")):
        told = _object(choice, "logprobs")
        values = told.get("token_logprobs") or choice.get("token_logprobs")
        tokens = _tokens(choice.get("token_ids"), told.get("tokens"), values)
        message = {"role": "assistant", "content": choice.get("text")}
        choices.append(_choice(choice.get("finish_reason"), message, tokens))
    return given, choices


def _responses(request: _Object, response: _Object) -> _Call:
    given = [*instructions_of(request), *messages_of_items(request.get("input"))]
    put_out = messages_of_items(response.get("output"))
    if not put_out:
        return given, []
    cut = _object(response, "incomplete_details").get("reason")
    # What of one answer stands before its last message (tools that the server ran) was not asked for
    # by the caller, and is part of the history all the same.
    return [*given, *put_out[:-1]], [_choice(cut or response.get("status"), put_out[-1], None)]


def _anthropic(request: _Object, response: _Object) -> _Call:
    given = [{"role": "system", "content": request["system"]}] if request.get("system") else []
    for message in _objects(request.get("messages")):
        given += _of_blocks(str(message.get("role")), message.get("content"))
    answer = _of_blocks("assistant", response.get("content"))
    if not answer:
        return given, []
    tokens = _tokens(response.get("token_ids"), None, response.get("logprobs"))
    return given, [_choice(response.get("stop_reason"), answer[-1], tokens)]


def _of_blocks(role: str, content: object) -> list[_Object]:
    """A message of Anthropic's API as chat messages: results of tools are messages of their own."""
    if not isinstance(content, list):
        return [{"role": role, "content": content}]
    blocks = _objects(cast("list[Any]", content))
    of_kind = {
        kind: [b for b in blocks if b.get("type") == kind] for kind in ("thinking", "tool_use")
    }
    results: list[_Object] = [
        {"role": "tool", "content": b.get("content"), "tool_call_id": b.get("tool_use_id")}
        for b in blocks
        if b.get("type") == "tool_result"
    ]
    parts = [_part(b) for b in blocks if b.get("type") in ("text", "image")]
    message: _Object = {"role": role, "content": _alone(parts)}
    if of_kind["thinking"]:
        message["reasoning_content"] = "\n".join(
            str(b.get("thinking")) for b in of_kind["thinking"]
        )
    if of_kind["tool_use"]:
        message["tool_calls"] = [
            {"id": b.get("id"), "function": {"name": b.get("name"), "arguments": b.get("input")}}
            for b in of_kind["tool_use"]
        ]
    return [*results, message] if len(message) > 2 or parts or not results else results


def _part(block: _Object) -> _Object:
    return {"type": "image", "image": block.get("source")} if block["type"] == "image" else block


def _alone(parts: Sequence[_Object]) -> object:
    """Parts that are one text as that text, for the same is said in both ways."""
    if len(parts) == 1 and parts[0].get("type") == "text":
        return parts[0].get("text")
    return list(parts)


def _choice(reason: object, message: _Object, tokens: list[_Object] | None) -> _Object:
    logprobs = None if tokens is None else {"content": tokens}
    return {"finish_reason": reason, "message": message, "logprobs": logprobs}


def _tokens(ids: object, texts: object, logprobs: object) -> list[_Object] | None:
    """{token, logprob} of each sampled token; None unless there is one of each for each token."""
    named = [f"token_id:{i}" for i in cast("list[Any]", ids)] if isinstance(ids, list) else texts
    if not isinstance(named, list) or not isinstance(logprobs, list):
        return None
    tokens, values = cast("list[Any]", named), cast("list[Any]", logprobs)
    if len(tokens) != len(values) or not tokens:
        return None
    return [{"token": t, "logprob": p} for t, p in zip(tokens, values, strict=True)]


def _object(line: Mapping[str, Any], key: str) -> _Object:
    value = line.get(key)
    return cast("_Object", value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[_Object]:
    entries = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("_Object", entry) for entry in entries if isinstance(entry, dict)]


_PROTOCOLS: Final[Mapping[str, Callable[[_Object, _Object], _Call]]] = {
    "chat_completions": _chat,
    "completions": _completion,
    "responses": _responses,
    "messages": _anthropic,
}
