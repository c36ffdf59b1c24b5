"""A rollout as turns of a conversation: who said what, thought what, called what and got what back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from board.core.texts.message_parts import as_fields, part_name, part_text, reasoning_of, tool_calls
from board.core.texts.text_turns import turns_of_texts
from board.core.texts.tool_errors import TOOL_ROLES, error_in
from board.core.tokens.text_blocks import THINK_TAGS, Block, arguments_of, arguments_text, blocks_of

_SECONDS: Final = (
    *("duration", "duration_s", "duration_seconds", "seconds", "elapsed", "elapsed_s"),
    *("elapsed_seconds", "latency", "latency_s", "time_s", "tool_time"),
)
_MILLISECONDS: Final = ("duration_ms", "elapsed_ms", "latency_ms", "time_ms")
_TIMES: Final = ("timestamp", "created_at", "created", "time")
_LONGEST_SECONDS: Final = 7 * 86_400.0
_LARGEST: Final = 1e15
"""A larger number is no time in any unit."""


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One turn. number: from 1, of the message; results of calls stand with the call and leave a gap.

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
    own_turns = list(_turns_of(messages, tags))
    if own_turns and (not own_turns[-1].given or "response" not in texts):
        return with_results(own_turns)
    # Messages that end before the response are the prompt, which may stand there as a text too.
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
        blocks = [_judged(block) for block in blocks]
        yield ConversationTurn(number, role, turn.name, blocks, given=given)


def _judged(block: Block) -> Block:
    return replace(block, error=error_in({}, block.text)) if block.kind == "result" else block


def _turns_of(
    messages: Sequence[Mapping[str, Any]], tags: tuple[str, ...]
) -> Iterator[ConversationTurn]:
    given = True
    before: float | None = None
    for number, message in enumerate(messages, 1):
        role = str(message.get("role") or "?")
        given = given and role != "assistant"
        at = _time(message)
        seconds = _duration(message)
        if seconds is None and at is not None and before is not None:
            passed = at - before
            seconds = passed if 0 <= passed <= _LONGEST_SECONDS else None
        before = at
        name = str(message.get("name") or message.get("tool_name") or "")
        blocks = [*_blocks(message, role, tags)]
        if role in TOOL_ROLES:
            blocks = [_result(message, blocks, name, seconds)]
        yield ConversationTurn(number, role, name, blocks, given=given, seconds=seconds, at=at)


def _blocks(message: Mapping[str, Any], role: str, tags: tuple[str, ...]) -> Iterator[Block]:
    if reasoning := reasoning_of(message):
        yield Block("reasoning", reasoning)
    content = message.get("content")
    parts = cast("list[object]", content) if isinstance(content, list) else [content]
    for part in parts:
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
        text = content_text(fields.get("content"))
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


def content_text(content: object) -> str:
    """A content as one text; parts that are no text stand in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = cast("list[object]", content) if isinstance(content, list) else [content]
    texts = ((part_text(part), part) for part in parts)
    return "".join(f"[{part_name(part)}]" if text is None else text for text, part in texts)


def _result(
    message: Mapping[str, Any], blocks: Sequence[Block], name: str, seconds: float | None
) -> Block:
    """The message of a tool as one result."""
    parts = [f"[{block.text}]" if block.kind == "image" else block.text for block in blocks]
    text = "".join(parts)
    identity = str(message.get("tool_call_id") or "")
    return Block(
        "result", text, name=name, id=identity, error=error_in(message, text), seconds=seconds
    )


def with_results(turns: Sequence[ConversationTurn]) -> list[ConversationTurn]:
    """The turns with each result at its call: that of the same id, else the first one unanswered.

    A result that no call before it waits for stays a turn of its own, and so does what a user says
    beside results.
    """
    waiting: list[tuple[int, int]] = []
    results: dict[int, dict[int, Block]] = {}
    collected: list[ConversationTurn] = []
    for turn in turns:
        other_blocks: list[Block] = []
        for block in turn.blocks:
            place = _call_of(block, waiting, collected) if block.kind == "result" else None
            if place is None:
                other_blocks.append(block)
            else:
                waiting.remove(place)
                results.setdefault(place[0], {})[place[1]] = block
        if other_blocks or not turn.blocks:
            calls = [rank for rank, block in enumerate(other_blocks) if block.kind == "call"]
            waiting += [(len(collected), rank) for rank in calls]
            collected.append(replace(turn, blocks=other_blocks))
    return [replace(turn, results=results.get(place, {})) for place, turn in enumerate(collected)]


def _call_of(
    result: Block, waiting: Sequence[tuple[int, int]], turns: Sequence[ConversationTurn]
) -> tuple[int, int] | None:
    """Turn and block of the call that a result answers; None where there is none."""
    by_id = (
        place for place in waiting if result.id and turns[place[0]].blocks[place[1]].id == result.id
    )
    unnamed = (
        place for place in waiting if not result.id or not turns[place[0]].blocks[place[1]].id
    )
    return next(by_id, None) or next(unnamed, None)


def _duration(message: Mapping[str, Any]) -> float | None:
    for keys, unit in ((_SECONDS, 1.0), (_MILLISECONDS, 1e-3)):
        for key in keys:
            value = _number(message.get(key))
            if value is not None and value >= 0:
                return value * unit
    return None


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < _LARGEST else None


def _time(message: Mapping[str, Any]) -> float | None:
    """When a message was said, in seconds since 1970; None where not recorded."""
    for key in _TIMES:
        value = message.get(key)
        if (seconds := _number(value)) is not None:
            return (
                seconds / 1000 if seconds > 1e11 else seconds
            )  # milliseconds, of a clock that has them
        if isinstance(value, str):
            try:
                return datetime.fromisoformat(value).timestamp()
            except ValueError:
                continue
    return None
