"""The first calls of tools in a rollout and what each was answered.

After the same calls of the same prompt a tool should answer alike in every rollout. Where it does not,
the tool is to blame and not the policy, in whatever words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import orjson

from board.core.texts.messages import tool_calls
from board.formats.messages import message_text
from board.formats.outputs.call_shapes import call_shape, is_echo
from board.formats.outputs.last_outputs import (
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
from board.formats.outputs.rollout_end import end_in_text, end_of

_HEAD: Final = 6_000
"""Characters of a response that are looked at."""
_CUT: Final = 300
_MOST_CALLS: Final = 4
_ACTION: Final = re.compile(
    r"<tool_call>\s*(.*?)\s*</tool_call>|```[^\n]*\n(.*?)```|<(\w+)>(?:(?!<\3>).)*?</\3>"
    r"|^Action(?: Input)?(?: \d+)?:.*",
    re.DOTALL | re.MULTILINE,
)
"""How a model writes a call in its text."""
_SAYS_WHAT: Final = re.compile(r"\w\W+\w")
"""What more than one word has: a name alone says not what was asked."""


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """call: the tool and its arguments as one text; shape: see call_shape. output: what it answered,
    masked, its first 300 characters; where that has no word, not masked: results that are numbers have
    nothing in common.
    """

    call: str
    shape: str
    output: str


@dataclass(frozen=True, slots=True)
class ToolOutputs:
    """The first calls with an output, of a call that was repeated at once the last time; and the last
    output of a tool in a rollout, None where it has none of use. ends: see end_of.
    """

    calls: Sequence[AnsweredCall]
    last: LastOutput | None
    ends: str | None = None


def tool_outputs(messages: Sequence[Mapping[str, Any]], prompt: str = "") -> ToolOutputs | None:
    """Of a conversation; None where no tool answered. prompt: what was asked besides."""
    places = output_places(messages)
    ends = end_of(messages)
    if not places:
        return None if ends is None else ToolOutputs((), None, ends)
    last = last_output(messages, places[-1])
    if last is not None and is_echo(_call_of(messages, places[-1]), last.text):
        last = None
    first = messages[: places[0]]
    asked = "\n".join([prompt, *(message_text(m) for m in first if m.get("role") == "user")])
    calls: list[AnsweredCall] = []
    for place in places:
        if not (call := _call_of(messages, place)):
            break
        is_last = last is not None and place == places[-1]
        said = _said_of(last) if last and is_last else _said(message_text(messages[place]))
        if not _add(calls, call, asked, said):
            break
    return ToolOutputs(calls, last, ends)


def _add(calls: list[AnsweredCall], call: str, asked: str, output: str) -> bool:
    """Adds a call in the place of the same one before it. Returns whether more are looked at."""
    if calls and calls[-1].call == call:
        calls[-1] = AnsweredCall(call, calls[-1].shape, output)
        return True
    if len(calls) == _MOST_CALLS:
        return False
    calls.append(AnsweredCall(call, call_shape(call, asked), output))
    return True


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
    ends = end_in_text(response)
    at_end = [*outputs_in(response[-TAIL:])]
    last = last_of(at_end)
    if last is not None and is_echo(_action_before(at_end[-1]), last.text):
        last = None
    is_all = len(response) <= TAIL
    outputs = at_end if is_all else [*islice(outputs_in(response[:_HEAD]), _MOST_CALLS)]
    if not outputs:
        return None if last is None and ends is None else ToolOutputs((), last, ends)
    calls: list[AnsweredCall] = []
    for output in outputs:
        if not (call := _action_before(output)):
            break
        is_last = last is not None and output is at_end[-1]
        said = _said_of(last) if last and is_last else _said(without_tags(output))
        if not _add(calls, call, prompt or "", said):
            break
    return ToolOutputs(calls, last, ends)


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
