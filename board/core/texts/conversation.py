"""A rollout as turns of a conversation: who said what, thought what, called what and got what back."""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Literal, cast

from board.core.records import is_number
from board.core.texts.border import prompt_length
from board.core.texts.messages import (
    TOOL_ROLES,
    as_fields,
    as_parts,
    error_in,
    error_words,
    json_of,
    part_name,
    part_text,
    reasoning_of,
    tool_calls,
)
from board.core.texts.turns import signs_in, turns_of_texts

THINK_TAGS: Final = ("think", "thinking", "thought", "reasoning", "seed:think")
"""Names of the tags around reasoning, as <name> or [name], in any case."""
_CALLS: Final = ("tool_call", "function_call")
_RESULTS: Final = ("tool_response", "tool_result", "function_response")
# What some templates write in the place of tags: Kimi, gpt-oss.
_OTHER_BEGIN: Final = r"◁think▷|<\|channel\|>analysis(?:<\|message\|>)?"
_OTHER_END: Final = r"◁/think▷|<\|end\|>(?:<\|start\|>assistant<\|channel\|>final<\|message\|>)?"

TOO_DEEP: Final = "nested too deep to be shown"
Kind = Literal["text", "reasoning", "call", "result", "image"]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a turn.

    text: as recorded, without the tags around it; of a call empty. is_open: its end tag is missing.
    name, arguments, id: of a call; of a result where recorded. arguments: JSON parsed, or the text as it
    is where it is not JSON. error: of a result, why it is one; of a call, that it can't be read.
    seconds: of a result, None where not recorded.
    """

    kind: Kind
    text: str = ""
    name: str = ""
    arguments: Any = None
    id: str = ""
    error: str = ""
    seconds: float | None = None
    is_open: bool = False


def think_tags(written: str) -> tuple[str, ...]:
    """Names of tags from a list with commas; the usual ones where it names none."""
    names = tuple(name.strip(" <>/[]").lower() for name in written.split(","))
    return tuple(filter(None, names)) or THINK_TAGS


@lru_cache(maxsize=16)
def _marks(tags: tuple[str, ...]) -> re.Pattern[str]:
    think, calls, results = ("|".join(map(re.escape, of)) for of in (tags, _CALLS, _RESULTS))
    return re.compile(
        rf"(?P<think><(?:{think})>|\[(?:{think})\]|{_OTHER_BEGIN})"
        rf"|(?P<unthink></(?:{think})>|\[/(?:{think})\]|{_OTHER_END})"
        rf"|(?P<call><(?:{calls})>)|(?P<uncall></(?:{calls})>)"
        rf"|(?P<result><(?:{results})>)|(?P<unresult></(?:{results})>)",
        re.IGNORECASE,
    )


def blocks_of(text: str, tags: tuple[str, ...] = THINK_TAGS) -> list[Block]:
    """The blocks of a text in reading order; white space between them are left out.

    An end of reasoning without a begin: the template has opened it before the text. A tag within a
    block of another kind is text of that block, but a tool call ends reasoning that was left open.
    """
    marks = [*signs_in(text, _marks(tags))]
    last_end = max((one.start() for one in marks if one.lastgroup == "unthink"), default=-1)
    kind, at = "text", 0
    if marks and marks[0].lastgroup == "unthink" and not marks[0][0].startswith("<|end|>"):
        kind = "think" if text[: marks[0].start()].strip() else "text"
    blocks: list[Block] = []
    for mark in marks:
        name = cast("str", mark.lastgroup)
        opens = kind == "text" and name in ("think", "call", "result")
        if kind == "think" and name == "call":
            opens = mark.start() > last_end
        if opens or name == f"un{kind}":
            blocks += _block(kind, text[at : mark.start()], is_open=False)
            kind, at = name if opens else "text", mark.end()
    blocks += _block(kind, text[at:], is_open=kind != "text")
    return blocks


def _block(kind: str, text: str, *, is_open: bool) -> Iterator[Block]:
    if kind == "call":
        yield from _calls(text, is_open=is_open)
    elif kind != "text":
        yield Block("reasoning" if kind == "think" else "result", text.strip("\n"), is_open=is_open)
    elif text.strip():
        yield Block("text", text.strip("\n"))


def _calls(text: str, *, is_open: bool) -> Iterator[Block]:
    """The calls within one pair of tags; anything but a JSON object is left as it is and is an error."""
    for entry in as_parts(json_of(text)):
        fields = as_fields(entry)
        if fields is None:
            yield Block("call", arguments=text.strip(), error="not valid JSON", is_open=is_open)
            return
        inner = as_fields(fields.get("function")) or fields
        given = inner.get("arguments", inner.get("parameters", {}))
        name, identity = str(inner.get("name") or ""), str(fields.get("id") or "")
        arguments = arguments_of(given)
        yield Block("call", name=name, arguments=arguments, id=identity, is_open=is_open)


def arguments_text(arguments: Any) -> str:
    """Arguments of a call as one text: as written, or as JSON in one line."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    try:
        return json.dumps(arguments, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return TOO_DEEP


def arguments_of(value: Any) -> Any:
    """What JSON in a text says; anything else as it is."""
    with suppress(ValueError, RecursionError):
        return json.loads(value) if isinstance(value, str) else value
    return value


_SECONDS: Final = (
    *("duration", "duration_s", "duration_seconds", "seconds", "elapsed", "elapsed_s"),
    *("elapsed_seconds", "latency", "latency_s", "time_s", "tool_time"),
)
_MILLISECONDS: Final = ("duration_ms", "elapsed_ms", "latency_ms", "time_ms")
_DURATIONS: Final = frozenset((*_SECONDS, *_MILLISECONDS))
_TIMES: Final = ("timestamp", "created_at", "created", "time")
_LONGEST_SECONDS: Final = 7 * 86_400.0
_LARGEST: Final = 1e15
"""A larger number is not a time in any unit."""


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One turn. number: from 1, of the message; results of calls belong to the call and leave a gap.

    blocks: in reading order. results: rank of a block that is a call -> the result it got. given: whether
    it was there before the response. seconds: None where not recorded. at: when it was said, in seconds.
    """

    number: int
    role: str
    name: str = ""
    blocks: Sequence[Block] = ()
    results: Mapping[int, Block] = field(default_factory=dict[int, Block])
    given: bool = False
    seconds: float | None = None
    at: float | None = None

    @property
    def length(self) -> int:
        """Characters of the turn itself, arguments of calls included, without what tools answered."""
        return sum(len(block.text) + len(arguments_text(block.arguments)) for block in self.blocks)


def conversation_of(
    messages: Sequence[Mapping[str, Any]],
    texts: Mapping[str, str],
    tags: tuple[str, ...] = THINK_TAGS,
) -> list[ConversationTurn]:
    """The turns of a rollout: of its messages, else of its prompt and response.

    messages: as Record.messages. texts: as Record.texts. tags: names of the tags around reasoning.
    A duration is recorded under a key such as `duration` or `duration_ms`, else it is the time since
    the message before, where both have a timestamp.
    """
    border = prompt_length(messages, texts.get("prompt"), texts.get("response"))
    own_turns = list(_turns_of(messages, tags, border))
    if own_turns and (not own_turns[-1].given or "response" not in texts):
        return with_results(own_turns)
    # Messages that end before the response are the prompt, which may be there as a text too.
    known = own_turns if "prompt" not in texts else []
    own = {name: text for name, text in texts.items() if name == "response" or not known}
    new_turns = [replace(turn, number=turn.number + len(known)) for turn in _written(own, tags)]
    return with_results([*known, *new_turns])


def _written(texts: Mapping[str, str], tags: tuple[str, ...]) -> Iterator[ConversationTurn]:
    for number, (turn, text, given) in enumerate(turns_of_texts(texts), 1):
        blocks = blocks_of(text, tags)
        role = turn.role
        if role in TOOL_ROLES:
            blocks = [Block("result", text, name=turn.name)]
        elif role == "user" and blocks and all(block.kind == "result" for block in blocks):
            role = "tool"
        elif role not in ("assistant", "response"):
            blocks = [Block("text", text)]
        blocks = [
            replace(b, error=error_in({}, b.text)) if b.kind == "result" else b for b in blocks
        ]
        yield ConversationTurn(number, role, turn.name, blocks, given=given)


def _turns_of(
    messages: Sequence[Mapping[str, Any]], tags: tuple[str, ...], border: int
) -> Iterator[ConversationTurn]:
    before: float | None = None
    for number, message in enumerate(messages, 1):
        role = str(message.get("role") or "?")
        given = number <= border
        at, seconds = _time(message), _duration(message)
        if seconds is None and at is not None and before is not None:
            passed = at - before
            seconds = passed if 0 <= passed <= _LONGEST_SECONDS else None
        before = at
        name = str(message.get("name") or message.get("tool_name") or "")
        blocks = [*_blocks(message, role, tags)]
        if role in TOOL_ROLES:
            # The message of a tool is one result.
            text = "".join(f"[{b.text}]" if b.kind == "image" else b.text for b in blocks)
            if (said := error_words(message)) and said not in text:
                text = f"{text}\n[error] {said}".lstrip("\n")
            identity, error = str(message.get("tool_call_id") or ""), error_in(message, text)
            blocks = [Block("result", text, name, id=identity, error=error, seconds=seconds)]
        yield ConversationTurn(number, role, name, blocks, given=given, seconds=seconds, at=at)


def _blocks(message: Mapping[str, Any], role: str, tags: tuple[str, ...]) -> Iterator[Block]:
    if reasoning := reasoning_of(message):
        yield Block("reasoning", reasoning)
    for part in as_parts(message.get("content")):
        if part is not None:
            yield from _part_blocks(part, role, tags)
    for call in tool_calls(message):
        yield Block("call", name=call.name, arguments=arguments_of(call.arguments), id=call.id)


def _part_blocks(part: object, role: str, tags: tuple[str, ...]) -> Iterator[Block]:
    """A content that is a text, or one part of a content; calls and results as parts are Anthropic's."""
    fields = as_fields(part) or {}
    kind = fields.get("type")
    if kind == "tool_use":
        name, identity = str(fields.get("name") or ""), str(fields.get("id") or "")
        yield Block("call", name=name, arguments=fields.get("input"), id=identity)
    elif kind == "tool_result":
        text = _content_text(fields.get("content"))
        identity, error = str(fields.get("tool_use_id") or ""), error_in(fields, text)
        yield Block("result", text, id=identity, error=error, seconds=_duration(fields))
    elif (text := part_text(part)) is None:
        yield Block("image", part_name(part))
    elif kind in ("thinking", "reasoning"):
        yield Block("reasoning", text)
    elif role == "assistant":
        yield from blocks_of(text, tags)
    elif text:
        yield Block("text", text)


def _content_text(content: object) -> str:
    """A content as one text; other parts are named in brackets."""
    texts = ((part_text(part), part) for part in as_parts("" if content is None else content))
    return "".join(f"[{part_name(part)}]" if text is None else text for text, part in texts)


def with_results(turns: Sequence[ConversationTurn]) -> list[ConversationTurn]:
    """The turns with each result at its call: that of the same id, else the first one unanswered.

    A result that no call before it waits for stays a turn of its own, and so does what a user says
    beside results.
    """
    waiting = _WaitingCalls()
    results: dict[int, dict[int, Block]] = {}
    collected: list[ConversationTurn] = []
    for turn in turns:
        others: list[Block] = []
        for block in turn.blocks:
            place = waiting.answered_by(block) if block.kind == "result" else None
            if place is None:
                others.append(block)
            else:
                results.setdefault(place[0], {})[place[1]] = block
        if others or not turn.blocks:
            own = len(collected)
            for rank, one in enumerate(others):
                if one.kind == "call":
                    waiting.add((own, rank), one.id)
            collected.append(
                turn if len(others) == len(turn.blocks) else replace(turn, blocks=others)
            )
    for place, answers in results.items():
        collected[place] = replace(collected[place], results=answers)
    return collected


class _WaitingCalls:
    """Calls without a result yet, by turn and block. Each is looked at once, however many wait."""

    def __init__(self) -> None:
        self._all: deque[tuple[int, int]] = deque()
        self._by_id = defaultdict[str, deque[tuple[int, int]]](deque)
        self._answered: set[tuple[int, int]] = set()

    def add(self, place: tuple[int, int], identity: str) -> None:
        """A call; its identity is empty where none is recorded."""
        self._all.append(place)
        self._by_id[identity].append(place)

    def answered_by(self, result: Block) -> tuple[int, int] | None:
        """The call that a result answers, which waits no longer; None where there is none."""
        place = self._first(self._by_id[result.id] if result.id else self._all)
        if place is None:
            place = self._first(self._by_id[""])
        if place is not None:
            self._answered.add(place)
        return place

    def _first(self, places: deque[tuple[int, int]]) -> tuple[int, int] | None:
        while places and places[0] in self._answered:
            places.popleft()
        return places[0] if places else None


def _duration(message: Mapping[str, Any]) -> float | None:
    if _DURATIONS.isdisjoint(message):
        return None
    for keys, unit in ((_SECONDS, 1.0), (_MILLISECONDS, 1e-3)):
        for value in (_number(message.get(key)) for key in keys):
            if value is not None and value >= 0:
                return value * unit
    return None


def _number(value: object) -> float | None:
    return float(value) if is_number(value) and abs(value) < _LARGEST else None


def _time(message: Mapping[str, Any]) -> float | None:
    """When a message was said, in seconds since 1970; None where not recorded."""
    for value in map(message.get, _TIMES):
        if (seconds := _number(value)) is not None:  # or milliseconds, of a clock that has them
            return seconds / 1000 if seconds > 1e11 else seconds
        with suppress(ValueError):
            if isinstance(value, str):
                return datetime.fromisoformat(value).timestamp()
    return None
