"""The first call of a tool in a rollout and what it answered.

At its first call a rollout has changed nothing yet: the same call of the same prompt should be answered
alike in every rollout. Where it is not, the tool is to blame and not the policy, in whatever words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from board.core.texts.messages import tool_calls
from board.formats.call_shapes import call_shape, is_echo
from board.formats.last_outputs import (
    TAIL,
    LastOutput,
    call_in,
    last_of,
    last_output,
    may_have_outputs,
    output_places,
    outputs_in,
    short_output,
    without_tags,
)
from board.formats.messages import message_text

_HEAD: Final = 6_000
"""Characters of a response that are looked at."""
_CUT: Final = 300
_ACTION: Final = re.compile(
    r"<tool_call>\s*(.*?)\s*</tool_call>|```[^\n]*\n(.*?)```|<(\w+)>(?:(?!<\3>).)*?</\3>"
    r"|^Action(?: Input)?(?: \d+)?:.*",
    re.DOTALL | re.MULTILINE,
)
"""How a model writes a call in its text."""
_SAYS_WHAT: Final = re.compile(r"\w\W+\w")
"""What more than one word has: a name alone says not what was asked."""


@dataclass(frozen=True, slots=True)
class FirstOutput:
    """call: the tool and its arguments as one text; shape: see call_shape. output: what it answered, masked, its first 300
    characters; where that has no word, not masked: results that are numbers have nothing in common.
    """

    call: str
    shape: str
    output: str


@dataclass(frozen=True, slots=True)
class ToolOutputs:
    """The first output of a tool in a rollout and the last one; None where it has none of use."""

    first: FirstOutput | None
    last: LastOutput | None


def tool_outputs(messages: Sequence[Mapping[str, Any]], prompt: str = "") -> ToolOutputs | None:
    """Of a conversation; None where no tool answered. prompt: what was asked besides."""
    places = output_places(messages)
    if not places:
        return None
    place = places[0]
    last = last_output(messages, places[-1])
    if not (call := _call_of(messages, place)):
        return ToolOutputs(None, last)
    if last is not None and is_echo(_call_of(messages, places[-1]), last.text):
        last = None
    is_last = len(places) == 1
    asked = "\n".join([prompt, *(message_text(m) for m in messages[:place] if m.get("role") == "user")])
    said = _said_of(last) if last and is_last else _said(message_text(messages[place]))
    return ToolOutputs(FirstOutput(call, call_shape(call, asked), said), last)


def tool_outputs_in_texts(
    responses: Sequence[str | None], prompts: Sequence[str | None]
) -> list[ToolOutputs | None]:
    """Of responses that are each one text, with outputs in tags. The first ones are left out where none
    of all responses ends with one.
    """
    if not may_have_outputs(responses):
        return [None] * len(responses)
    return [
        None if text is None else tool_outputs_in_text(text, prompt)
        for text, prompt in zip(responses, prompts, strict=True)
    ]


def tool_outputs_in_text(response: str, prompt: str | None) -> ToolOutputs | None:
    """Of one response."""
    at_end = [*outputs_in(response[-TAIL:])]
    last = last_of(at_end)
    if last is not None and is_echo(_action_before(at_end[-1]), last.text):
        last = None
    is_all = len(response) <= TAIL
    output = next(iter(at_end), None) if is_all else next(outputs_in(response[:_HEAD]), None)
    if output is None:
        return None if last is None else ToolOutputs(None, last)
    if not (call := _action_before(output)):
        return ToolOutputs(None, last)
    said = _said_of(last) if last and output is at_end[-1] else _said(without_tags(output))
    return ToolOutputs(FirstOutput(call, call_shape(call, prompt or ""), said), last)


def _action_before(output: re.Match[str]) -> str:
    return call_in(output) or _action_in(output.string[: output.start()])


def _said(text: str) -> str:
    short = short_output(text)
    return _said_of(LastOutput(text.strip()[:_CUT] if short is None else short))


def _said_of(output: LastOutput) -> str:
    return output.normalized or output.text


def _call_of(messages: Sequence[Mapping[str, Any]], place: int) -> str:
    """The call that a message of a tool answers: by its id, else all of the model's message before it;
    empty where no arguments are recorded, so that calls of all kinds would be one.
    """
    said = next((m for m in reversed(messages[:place]) if m.get("role") == "assistant"), None)
    if said is None:
        return ""
    calls, identity = [*tool_calls(said)], messages[place].get("tool_call_id")
    known = [call for call in calls if identity and call.id == identity] or calls
    if not known:
        return _action_in(message_text(said))
    written = [_written(call.arguments) for call in known]
    if not any(map(_SAYS_WHAT.search, written)):
        return ""
    return "\n".join(f"{call.name} {own}" for call, own in zip(known, written, strict=True))


def _written(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return orjson.dumps(
            arguments, default=str, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
        ).decode()
    except TypeError:  # integers of more than 64 bits, halves of characters, hundreds of levels
        return _as_python_writes(arguments)


def _as_python_writes(arguments: object) -> str:
    try:
        return str(arguments)
    except RecursionError:
        return ""


def _action_in(text: str) -> str:
    """The call in a text, without what the model says besides; the text where it has no mark of one."""
    actions = [*_ACTION.finditer(text[-_HEAD:])]
    if not actions:
        return text[-_HEAD:].strip()
    action, called = actions[-1][0], actions[-1][1]
    return action if called is None or _SAYS_WHAT.search(called) else ""
