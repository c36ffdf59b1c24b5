"""The last output of a tool or environment in a rollout: what failures of infrastructure are told by.

Only a short output is of use, or the end of a Python traceback: failures say one line, and a long output
is what a tool is there for. A model that went on for several turns had its chance: the output is not its
last one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
TAIL: Final = 1200
"""Characters at the end of a response in which its last output is looked for."""
_AFTER: Final = 200
"""Characters that may stand beside it: of the model's own text after an output, of others around a
traceback."""
_NAMES: Final = (
    "(?:(?:tool|function|search|execution|exec|code|interpreter|api|environment|env|shell|bash|python)_?)?"
    "(?:response|results?|outputs?|observation|obs|stdout|stderr)"
    "|information|documents|interpreter|tool|environment"
)
_LABELS: Final = (
    "Observation",
    "Obs",
    "Environment",
    "Env",
    "Execution result",
    "Execution output",
    "Tool",
    "Tool output",
    "Tool result",
    "Tool response",
    "TOOL",
    "OBSERVATION",
    "STDOUT",
)
"""What stands before an output on its line; nothing says where the output ends and the model goes on."""
_LABELLED: Final = "|".join(
    rf"{label[0]}(?<=^{label[0]}){label[1:]}(?: \d+)?:"
    r".*?(?=\n(?:Thought|Action|Final|Answer|Assistant|Call)|\Z)"
    for label in _LABELS
)
_IN_TEXT: Final = re.compile(
    rf"<({_NAMES})>(?:(?!<\1>).)*?</\1>"
    r"|```(?:tool_|code_|exec_)?(?:output|result|response|observation|stdout|tool)s?\n.*?\n```"
    r"|<\|im_start\|>(?:tool|ipython|environment|observation)\n.*?<\|im_end\|>"
    r"|<\|start_header_id\|>(?:tool|ipython)<\|end_header_id\|>.*?<\|eot_id\|>"
    r"|\[TOOL_RESULTS\].*?\[/TOOL_RESULTS\]"
    r"|\[(?:[Tt]ool|TOOL|[Oo]bs|OBS|[Ee]nv|ENV|[Oo]utput|OUTPUT|[Rr]esult|RESULT)(?![^\]\n]*(?i:call))[^\]\n]{0,40}\]"
    r"(?<!TOOL_RESULTS\])(?<!TOOL_CALLS\]).*?(?=\n\[|\n(?:Thought|Action|Final|Answer)|\Z)"
    rf"|>(?<=^>)>> \{{[^\n]*\}}\n[^\n]*|{_LABELLED}",
    re.DOTALL | re.MULTILINE,
)
"""Outputs of tools in a response that is one text, by the marks of chat templates and of prompts. Each
begins with a letter that is written out, so that Python's re looks only where there is one.
"""
_OPENED: Final = re.compile(
    rf"^(?:>>> \{{|\[(?i:tool|obs|env|output|result)|(?:{'|'.join(_LABELS)})(?: \d+)?:)",
    re.MULTILINE,
)
"""Marks of outputs whose end has none."""
_BY_ROLES: Final = re.compile(
    rf"{_IN_TEXT.pattern}|u(?<=^u)ser\n.*?(?=\nassistant(?:\n|\Z)|\Z)", _IN_TEXT.flags
)
"""The same where of a template, whose special tokens were left out, the names of the roles are left."""
_END: Final = _AFTER + 40
"""Where the mark stands that closes an output; the longest has fewer than 40 characters."""
_TAGS: Final = re.compile(
    r"^<[a-z_]+>|</[a-z_]+>$|^```\w+\n|\n```$|^<\|im_start\|>\w+\n|<\|im_end\|>$"
    r"|^<\|start_header_id\|>\w+<\|end_header_id\|>\s*|<\|eot_id\|>$|^\[TOOL_RESULTS\]|\[/TOOL_RESULTS\]$"
    r"|^user\n|^>>> [^\n]*\n|^\[[^\]\n]{1,50}\]:?\s*"
    rf"|^(?:{'|'.join(_LABELS)})(?: \d+)?:\s*"
)
_OPEN_END: Final = re.compile(rf"(?:{'|'.join(_LABELS)})(?: \d+)?:|>>> |\[(?!TOOL_RESULTS)")
"""How an output begins whose end has no mark."""
_BEGINS: Final = re.compile(
    r"(?:\[[^\]\n]{1,60}\]\n|(?i:observation|output|result|tool output|tool result)s?:\s*"
    r"|<(?:output|result|observation)>\n)+"
)
_ENDS: Final = re.compile(r"(?:\n\([^()\n]{1,40}\)|\n</(?:output|result|observation)>)+$")
"""What a harness writes around each output: a line in brackets, a label, a closing remark."""
_NAMED: Final = re.compile(r'"(?:name|tool|tool_name|function)" ?: ?"([\w.:-]{1,60})"')
"""The tool of a call that is written as JSON."""
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
_MEASURED: Final = frozenset(
    ("elapsed_ms", "elapsed", "duration", "duration_ms", "time", "latency")
)
"""Keys that say nothing of what an output says: with no text beside them it is empty."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_TITLE: Final = re.compile(r"<title>\s*(.*?)\s*</title>", re.DOTALL | re.IGNORECASE)
_FRAME: Final = re.compile(r'^\s*File "([^"]+)", line \d+', re.MULTILINE)
_OWN_CODE: Final = re.compile(
    r"^<(?!frozen )|^/tmp/|^/testbed/|^/workspace/|^/root/|^/home/(?!.*(?:site|dist)-packages)"
    r"|(?:^|/)(?:script|solution|main|test[^/]*)\.py$"
)
_LIBRARY: Final = re.compile(r"(?:site|dist)-packages/|/lib/python3|^<frozen ")
_HOSTS_AND_NUMBERS: Final = re.compile(r"(?<![\w.:@-])(?:[a-z_.:@-])*+\d[\w.:@-]*", re.ASCII)
"""Numbers, ids, addresses, versions, and hosts with a number."""
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
        return masked(self.text)


def masked(text: str) -> str:
    """A text without its numbers, ids, hosts and paths; empty where no word is left. Of an output that
    is empty: a text that only such ones have.
    """
    if not text:
        return EMPTY
    if _STATUS.fullmatch(text):
        return text.lower()
    text = _HOSTS_AND_NUMBERS.sub("#", _PATHS.sub("/#", text.lower()))
    return text if _WORD.search(text) else ""


EMPTY: Final = "(nothing)"
_STATUS: Final = re.compile(r"\W*(?:[45]\d\d|(?:[^\W\d]+\W+){1,3}-?\d{1,3})\W*")
"""A text that is little more than a number, which then is what it says: an exit code, a status."""


def output_places(messages: Sequence[Mapping[str, Any]]) -> Sequence[int]:
    """Which messages are outputs of tools. Where none has the role of a tool, those of the user after
    the model's first turn are the environment's.
    """
    roles = [message.get("role") for message in messages]
    is_tool = [isinstance(role, str) and role in _TOOL_ROLES for role in roles]
    if not any(is_tool):
        first = roles.index("assistant") if "assistant" in roles else len(roles)
        is_tool = [role == "user" and place > first for place, role in enumerate(roles)]
    return [place for place, is_one in enumerate(is_tool) if is_one]


def last_output(messages: Sequence[Mapping[str, Any]], place: int) -> LastOutput | None:
    """The last output in a conversation; None where it is long, or where the model went on. place: of
    output_places the last one.
    """
    roles = [message.get("role") for message in messages[place:]]
    if roles.count("assistant") > _MOST_ANSWERS:
        return None
    text = short_output(message_text(messages[place]))
    return None if text is None else LastOutput(text, _tool_name(messages, place))


def may_have_outputs(responses: Sequence[str | None]) -> bool:
    """Whether one of some responses that are each one text may end with an output in tags."""
    texts = [*filter(None, responses)]
    # Most logs have no tags, which takes a fraction of a microsecond a text where all are asked at once.
    if max(map(len, texts), default=0) <= _END:
        ends = tails = "\n".join(texts)
    else:
        ends = "\n".join([text[-_END:] for text in texts])
        tails = "\n".join([text[-TAIL:] for text in texts])
    is_closed = "</" in ends or "```" in ends or "<|" in ends or "[/TOOL_RESULTS]" in ends
    return is_closed or _OPENED.search(tails) is not None or "user\n" in tails


def outputs_in(text: str) -> Iterator[re.Match[str]]:
    """The outputs in a text, with their tags."""
    return (_BY_ROLES if "user\n" in text else _IN_TEXT).finditer(text)


def without_tags(output: re.Match[str]) -> str:
    """What an output in a text says; where nothing marks its end, its first line, or all with a
    traceback: what follows may be the model's.
    """
    text = _TAGS.sub("", output[0]).strip()
    if _TRACEBACK in text or not _OPEN_END.match(output[0]):
        return text
    return text.partition("\n")[0]


def call_in(output: re.Match[str]) -> str:
    """The call that an output in a text is of, where it is marked with it; else empty."""
    return output[0].partition("\n")[0] if output[0].startswith(">>> ") else ""


def last_of(outputs: Sequence[re.Match[str]]) -> LastOutput | None:
    """The same as last_output, of outputs in the end of a text."""
    if not outputs or len(outputs[-1].string) - outputs[-1].end() > _AFTER:
        return None
    if _OPEN_END.match(outputs[-1][0]) and len(outputs[-1][0]) > _MOST + _AFTER:
        return None
    text = short_output(without_tags(outputs[-1]))
    called = call_in(outputs[-1]) or outputs[-1].string[: outputs[-1].start()]
    names = _NAMED.findall(called)
    tool = names[-1] if names else "search" if _SEARCHES.match(outputs[-1][0]) else None
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


def short_output(text: str) -> str | None:
    """The output in a line or a few, without what the harness writes around it; None where it is long
    and no traceback.
    """
    text = _without_frame(text.strip())
    if _TRACEBACK in text[-TAIL * 4 :]:
        return traceback_line(text)
    if text.startswith("<") and (title := _TITLE.search(text[:TAIL])):
        return f"<title>{title[1][:_CUT]}</title>"
    if len(text) > _MOST:
        return None
    fields = as_fields(parsed_text(text)) if text.startswith("{") else None
    if fields is not None:
        inner = [value.strip() for key in _KEYS if isinstance(value := fields.get(key), str)]
        if len(fields.keys() & _MEASURED) == len(fields) - len(inner):
            text = _without_frame("\n".join(filter(None, inner)))
        else:
            text = "\n".join(filter(None, inner)) or text
    return text[:_CUT]


def _without_frame(text: str) -> str:
    if begin := _BEGINS.match(text):
        text = text[begin.end() :]
    return _ENDS.sub("", text).strip() if text.endswith((")", ">")) else text.strip()


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
