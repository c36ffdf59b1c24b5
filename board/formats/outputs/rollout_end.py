"""What a rollout with tools ends with: the model's answer, a call, an output of a tool, or the harness.

Who ends with a call that nobody answered did not end by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from board.core.texts.messages import as_fields, tool_calls
from board.formats.messages import message_text
from board.formats.outputs.last_outputs import TAIL, output_places, outputs_in

ANSWER, CALL, OUTPUT, HARNESS = "answer", "call", "output", "harness"
_CUT: Final = 200
_SAID: Final = re.compile(
    r"(?:\A|\n)[ \t]*(\[[^\]\n]{2,200}\][^\n]{0,200}|\S{2,30}: (?:error|fatal|critical)\b[^\n]{0,200}"
    r"|\*{2,}[^\n]{5,200}\*{2,})\s*\Z"
)
"""A line of the harness at the end of a response that is one text."""
_WORDS: Final = re.compile(r"[^\W\d_]+\W+[^\W\d_]+\W+[^\W\d_]+")
_CALLED: Final = re.compile(
    r"(?:<tool_call>|^Action(?: \d+)?:|```\w*\n|^>>> )\s*(\{.*\})\s*(?:</tool_call>|```)?\s*\Z",
    re.DOTALL | re.MULTILINE,
)
_NAMES_A_TOOL: Final = re.compile(r'\{\s*"(?:name|tool|tool_name|function|action)" ?:')
"""What JSON begins with that is a call, and not an answer in a block."""
_TAGGED: Final = re.compile(
    r"<(search|python|code|execute|tool|call|bash|query)>(?:(?!<\1>).)*</\1>\s*\Z", re.DOTALL
)


def end_of(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Of a conversation: ANSWER, CALL, OUTPUT, or HARNESS with what it says; None where there is no turn
    of the model, or no tool.
    """
    roles = [message.get("role") for message in messages]
    if "assistant" not in roles:
        return None
    last, role = messages[-1], roles[-1]
    places = output_places(messages)
    if role == "assistant":
        calls = [*tool_calls(last)]
        if calls:
            return CALL if all(_is_written(call.arguments) for call in calls) else ANSWER
        text = message_text(last)
        if end := end_in_text(text):
            return end
        return ANSWER if places else None
    if places and places[-1] == len(messages) - 1:
        return OUTPUT
    return f"{HARNESS}: {' '.join(message_text(last).split())[:_CUT]}"


def end_in_text(response: str) -> str | None:
    """The same of a response that is one text."""
    tail = response[-TAIL:].rstrip()
    if (said := _SAID.search(tail)) and _WORDS.search(said[1]):
        return f"{HARNESS}: {' '.join(said[1].split())[:_CUT]}"
    if tail.endswith(("}", "</tool_call>", "```")) and (called := _CALLED.search(tail)):
        return CALL if _NAMES_A_TOOL.search(called[1]) and _is_written(called[1]) else ANSWER
    if _TAGGED.search(tail):
        return CALL
    outputs = [*outputs_in(tail)]
    if not outputs:
        return None
    return OUTPUT if outputs[-1].end() >= len(tail) and "\n" not in outputs[-1][0][-1:] else ANSWER


def _is_written(arguments: object) -> bool:
    """Whether arguments of a call are an object, parsed or not."""
    if as_fields(arguments) is not None:
        return True
    try:
        return isinstance(arguments, str) and as_fields(orjson.loads(arguments)) is not None
    except orjson.JSONDecodeError:
        return False
