"""The last output of a tool or environment in a rollout: what failures of infrastructure are told by.

Only a short output is of use, or the end of a Python traceback: failures say one line, and a long output
is what a tool is there for. A model that went on for several turns had its chance: the output is not its
last one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from board.core.texts.messages import as_fields, tool_calls
from board.formats.messages import message_text, parsed_text

_MOST: Final = 600
"""Characters of an output that is looked at whole."""
_CUT: Final = 300
_TOOL_ROLES: Final = frozenset(("tool", "function", "environment", "ipython", "observation"))
_MOST_ANSWERS: Final = 1
"""Turns of the model after its last output."""
_TAIL: Final = 1200
_AFTER: Final = 200
"""Characters that may stand beside it: of the model's own text after an output, of others around a
traceback."""
_NAMES: Final = (
    "(?:tool|function|search|execution|code|interpreter|api|environment)_?(?:response|results?|outputs?)"
    "|results?|information|observation|outputs?|documents|interpreter"
)
_IN_TEXT: Final = re.compile(
    rf"<({_NAMES})>(?:(?!<\1>).)*?</\1>"
    r"|```output\n.*?\n```"
    r"|<\|im_start\|>(?:tool|ipython|environment|observation)\n.*?<\|im_end\|>"
    r"|<\|start_header_id\|>(?:tool|ipython)<\|end_header_id\|>.*?<\|eot_id\|>"
    r"|\[TOOL_RESULTS\].*?\[/TOOL_RESULTS\]"
    r"|O(?<=^O)bservation(?: \d+)?:.*?(?=\n(?:Thought|Action|Final|Answer|Assistant)|\Z)",
    re.DOTALL | re.MULTILINE,
)
"""Outputs of tools in a response that is one text, by the marks of chat templates and of prompts. Each
begins with a letter that is written out, so that Python's re looks only where there is one.
"""
_END: Final = _AFTER + 40
"""Where the mark stands that closes an output; the longest has fewer than 40 characters."""
_TAGS: Final = re.compile(
    r"^<[a-z_]+>|</[a-z_]+>$|^```output\n|\n```$|^<\|im_start\|>\w+\n|<\|im_end\|>$"
    r"|^<\|start_header_id\|>\w+<\|end_header_id\|>\s*|<\|eot_id\|>$|^\[TOOL_RESULTS\]|\[/TOOL_RESULTS\]$"
    r"|^Observation(?: \d+)?:\s*"
)
_SEARCHES: Final = re.compile(r"<(?:information|documents|search_)")
"""Marks that only results of a search have."""
_KEYS: Final = (
    "output",
    "stdout",
    "stderr",
    "result",
    "observation",
    "content",
    "error",
    "message",
)
_TRACEBACK: Final = "Traceback (most recent call last)"
_TITLE: Final = re.compile(r"<title>\s*(.*?)\s*</title>", re.DOTALL | re.IGNORECASE)
_FRAME: Final = re.compile(r'^\s*File "([^"]+)", line \d+', re.MULTILINE)
_OWN_CODE: Final = re.compile(
    r"^<(?!frozen )|^/tmp/|^/testbed/|^/workspace/|^/root/|^/home/(?!.*(?:site|dist)-packages)"
    r"|(?:^|/)(?:script|solution|main|test[^/]*)\.py$"
)
_LIBRARY: Final = re.compile(r"(?:site|dist)-packages/|/lib/python3|^<frozen ")
_NUMBERS: Final = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,}|\d+")
_WORD: Final = re.compile(r"[^\W\d_]{4}")
_PATHS: Final = re.compile(r"(?:/[\w.@+-]+){2,}")


@dataclass(frozen=True, slots=True)
class LastOutput:
    """text: at most 300 characters, of a traceback "Traceback, KIND PATH: ERROR" (see traceback_line).
    tool: its name, None where it is not recorded.
    """

    text: str
    tool: str | None = None

    @property
    def normalized(self) -> str:
        """The same for outputs that differ in numbers, addresses and paths alone; empty where there is no
        word: results that are numbers have nothing in common.
        """
        text = _PATHS.sub("/#", _NUMBERS.sub("#", self.text.lower()))
        return text if _WORD.search(text) else ""


def last_output(messages: Sequence[Mapping[str, Any]]) -> LastOutput | None:
    """The last output in a conversation; None without one, where it is long, or where the model went on.

    Where no message has the role of a tool, those of the user after the model's first turn are the
    environment's.
    """
    roles = [message.get("role") for message in messages]
    is_tool = [isinstance(role, str) and role in _TOOL_ROLES for role in roles]
    if not any(is_tool):
        first = roles.index("assistant") if "assistant" in roles else len(roles)
        is_tool = [role == "user" and place > first for place, role in enumerate(roles)]
    place = max((place for place, is_one in enumerate(is_tool) if is_one), default=None)
    if place is None or roles[place:].count("assistant") > _MOST_ANSWERS:
        return None
    text = _short(message_text(messages[place]))
    return None if text is None else LastOutput(text, _tool_name(messages, place))


def outputs_in_texts(responses: Sequence[str | None]) -> list[LastOutput | None]:
    """The same of responses that are each one text, with outputs in tags."""
    texts = [*filter(None, responses)]
    # Most logs have no tags, which takes a fraction of a microsecond a text where all are asked at once.
    if max(map(len, texts), default=0) <= _END:
        ends = tails = "\n".join(texts)
    else:
        ends = "\n".join([text[-_END:] for text in texts])
        tails = "\n".join([text[-_TAIL:] for text in texts])
    if not _may_end_an_output(ends, tails):
        return [None] * len(responses)
    return [None if text is None else output_in_text(text) for text in responses]


def _may_end_an_output(end: str, tail: str) -> bool:
    is_closed = "</" in end or "```" in end or "<|" in end or "[/TOOL_RESULTS]" in end
    return is_closed or "Observation" in tail


def output_in_text(response: str) -> LastOutput | None:
    """The same of one response."""
    tail = response[-_TAIL:]
    if not _may_end_an_output(response[-_END:], tail):
        return None
    outputs = [*_IN_TEXT.finditer(tail)]
    if not outputs or len(tail) - outputs[-1].end() > _AFTER:
        return None
    text = _short(_TAGS.sub("", outputs[-1][0]))
    tool = "search" if _SEARCHES.match(outputs[-1][0]) else None
    return None if text is None else LastOutput(text, tool)


def _tool_name(messages: Sequence[Mapping[str, Any]], place: int) -> str | None:
    message = messages[place]
    if isinstance(name := message.get("name"), str) and name:
        return name
    identity = message.get("tool_call_id")
    for at in range(place - 1, -1, -1):
        if messages[at].get("role") == "assistant":
            calls = [*tool_calls(messages[at])]
            names = [call.name for call in calls if call.id == identity]
            between = messages[at + 1 : place]
            answered = sum(message.get("tool_call_id") == identity for message in between)
            names = names[min(answered, len(names) - 1) :] if names else names
            return next(iter(names or [call.name for call in calls if len(calls) == 1]), None)
    return None


def _short(text: str) -> str | None:
    """The output in a line or a few; None where it is empty or long and no traceback."""
    text = text.strip()
    if _TRACEBACK in text[-_TAIL * 4 :]:
        return traceback_line(text)
    if text.startswith("<") and (title := _TITLE.search(text[:_TAIL])):
        return f"<title>{title[1][:_CUT]}</title>"
    if not text or len(text) > _MOST:
        return None
    fields = as_fields(parsed_text(text)) if text[0] == "{" else None
    if fields is not None:
        inner = [value.strip() for key in _KEYS if isinstance(value := fields.get(key), str)]
        text = "\n".join(filter(None, inner)) or text
    return text[:_CUT]


def traceback_line(text: str) -> str | None:
    """Where the last traceback of a text was raised, and its error: "Traceback, KIND PATH: ERROR"; None
    where the text is of something else besides, such as a log that quotes one.

    KIND: "own code" where a frame is surely of the model's program; "libraries" where all of two or more
    are of Python and of packages, so that no program is among them; "library" where the only one is; else
    "program".
    """
    first = text.index(_TRACEBACK)
    own = text[first:]
    frames = [*_FRAME.finditer(own)]
    if not frames or first > _AFTER:
        return None
    lines = own[frames[-1].end() :].splitlines()[1:]
    after = [line for line in lines if line.strip() and not line.startswith((" ", "\t"))]
    error = after[0].strip() if after else ""
    if len("\n".join(after[1:])) > _AFTER:
        return None
    paths = [frame[1] for frame in frames]
    if any(_OWN_CODE.search(path) and not _LIBRARY.search(path) for path in paths):
        where = "own code"
    elif all(map(_LIBRARY.search, paths)):
        where = "libraries" if len(frames) > 1 else "library"
    else:
        where = "program"
    return f"Traceback, {where} {frames[-1][1][-120:]}: {error}"[:_CUT]
