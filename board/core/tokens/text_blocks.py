"""A text of a model cut at the tags it writes: reasoning, tool calls and results of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, cast

from board.core.texts.message_parts import as_fields
from board.core.texts.turns import signs_in

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
    """A stretch of a turn.

    text: as recorded, without the tags around it; of a call empty. is_open: its end tag is missing.
    name, arguments, id: of a call; of a result where recorded. arguments: JSON parsed, or the text as it
    stands where it is no JSON. error: of a result, why it is one; of a call, that it can't be read.
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
    def names(of: Sequence[str]) -> str:
        return "|".join(re.escape(name) for name in of)

    think, calls, results = names(tags), names(_CALLS), names(_RESULTS)
    return re.compile(
        rf"(?P<think><(?:{think})>|\[(?:{think})\]|{_OTHER_BEGIN})"
        rf"|(?P<unthink></(?:{think})>|\[/(?:{think})\]|{_OTHER_END})"
        rf"|(?P<call><(?:{calls})>)|(?P<uncall></(?:{calls})>)"
        rf"|(?P<result><(?:{results})>)|(?P<unresult></(?:{results})>)",
        re.IGNORECASE,
    )


def blocks_of(text: str, tags: tuple[str, ...] = THINK_TAGS) -> list[Block]:
    """The blocks of a text in reading order; stretches of white space between them are left out.

    An end of reasoning without a begin: the template has opened it before the text. A tag within a
    block of another kind is text of that block, but a tool call ends reasoning that was left open.
    """
    marks = [*signs_in(text, _marks(tags))]
    kind = "think" if marks and _ends_what_the_template_began(marks[0]) else "text"
    blocks: list[Block] = []
    at = 0
    for mark in marks:
        name = cast("str", mark.lastgroup)
        if kind == "text" and name in ("think", "call", "result"):
            following = name
        elif name == f"un{kind}" or (
            kind == "think" and name == "call" and _is_last_think(mark, tags)
        ):
            following = "text" if name != "call" else "call"
        else:
            continue
        blocks += _block(kind, text[at : mark.start()], is_open=False)
        kind, at = following, mark.end()
    blocks += _block(kind, text[at:], is_open=kind != "text")
    return blocks


def _ends_what_the_template_began(mark: re.Match[str]) -> bool:
    text_before = mark.string[: mark.start()].strip()
    return mark.lastgroup == "unthink" and bool(text_before) and not mark[0].startswith("<|end|>")


def _is_last_think(mark: re.Match[str], tags: tuple[str, ...]) -> bool:
    """Whether no end of reasoning follows."""
    later = signs_in(mark.string[mark.end() :], _marks(tags))
    return all(one.lastgroup != "unthink" for one in later)


def _block(kind: str, text: str, *, is_open: bool) -> Iterator[Block]:
    if kind == "call":
        yield from _calls(text, is_open=is_open)
    elif kind == "result":
        yield Block("result", text.strip("\n"), is_open=is_open)
    elif kind == "think":
        yield Block("reasoning", text.strip("\n"), is_open=is_open)
    elif text.strip():
        yield Block("text", text.strip("\n"))


def _calls(text: str, *, is_open: bool) -> Iterator[Block]:
    """The calls within one pair of tags; what is no JSON object stands as it is and is an error."""
    try:
        parsed: object = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    entries = cast("list[object]", parsed) if isinstance(parsed, list) else [parsed]
    for entry in entries:
        fields = as_fields(entry)
        if fields is None:
            yield Block("call", arguments=text.strip(), error="not valid JSON", is_open=is_open)
            return
        inner = as_fields(fields.get("function")) or fields
        given = inner.get("arguments", inner.get("parameters", {}))
        yield Block(
            "call",
            name=str(inner.get("name") or ""),
            arguments=arguments_of(given),
            id=str(fields.get("id") or ""),
            is_open=is_open,
        )


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
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
