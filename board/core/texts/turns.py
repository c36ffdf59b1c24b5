"""Who speaks where: parts of text or tokens that belong to one role.

Three sources, best first: segments that the log records, chat messages whose contents are found in the
text, and the markers that chat templates put between turns.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from board.core.texts.messages import CalledNames, tool_calls
from board.core.tokens.pieces import PLACEHOLDER, joined


@dataclass(frozen=True, slots=True)
class Turn:
    """Units start..end-1 (characters of a text, or tokens) are of `role`; `name` for a tool."""

    start: int
    end: int
    role: str
    name: str = ""


# What begins a turn, with the role in group 1: ChatML (Qwen, Yi), Llama 3, Llama 4, Gemma, gpt-oss,
# GLM, Phi and Zephyr, DeepSeek, Mistral.
_OPENINGS: Final = (
    r"<\|im_start\|>([A-Za-z_]+)(?: name=([\w.-]+))?\n?",
    r"<\|start_header_id\|>([A-Za-z_]+)<\|end_header_id\|>\n{0,2}",
    r"<\|header_start\|>([A-Za-z_]+)<\|header_end\|>\n{0,2}",
    r"<start_of_turn>([A-Za-z_]+)\n?",
    r"<\|start\|>([A-Za-z_]+)(?:\.([\w.-]+))?",
    r"<\|(system|user|assistant|observation|tool)\|>\n?",
    r"<｜(User|Assistant|tool▁outputs▁begin)｜>",
    r"\[(INST|TOOL_RESULTS)\]",
)
_SIGNS: Final = (
    *("<|im_start|>", "<|start_header_id|>", "<|header_start|>", "<start_of_turn>", "<|start|>"),
    *("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>", "<|tool|>"),
    *("<｜User", "<｜Assistant", "<｜tool", "<ï½ľUser", "<ï½ľAssistant", "<ï½ľtool"),
    *("[INST]", "[TOOL_RESULTS]"),
)
"""One of them is in every text that _OPENING matches, also where it is written in byte-level pieces."""
_OPENING: Final = re.compile("|".join(f"(?:{one})" for one in _OPENINGS))
_CLOSING: Final = re.compile(
    r"<\|im_end\|>\n?|<\|eot_id\|>|<\|eom_id\|>|<\|eot\|>|<end_of_turn>\n?|<\|end\|>|<\|return\|>"
    r"|<\|call\|>|<｜end▁of▁sentence｜>|<｜tool▁outputs▁end｜>|\[/INST\]|\[/TOOL_RESULTS\]"
)
_BRACKET: Final = re.compile(r"[<\[◁]")
_SPECIAL: Final = re.compile(r"<[^<>]*>|\[[A-Z_]+\]")
_ROLES: Final[Mapping[str, str]] = {
    "model": "assistant",
    "ipython": "tool",
    "observation": "tool",
    "tool▁outputs▁begin": "tool",
    "inst": "user",
    "tool_results": "tool",
    "functions": "tool",
    "developer": "system",
}


def may_hold_turns(text: str) -> bool:
    """Whether the text, or pieces of tokens put together, may have a marker that begins a turn."""
    may_be = "<" in text or "[" in text  # not in most responses; a fifth of the time
    return may_be and any(sign in text for sign in _SIGNS)


def from_markers(text: str, starts: Iterable[int] | None = None) -> list[Turn]:
    """Turns by chat-template markers, over characters; none where the text has no marker.

    starts: places where a token begins; a marker that is not one token was spelled out by a model and
    is not one. A turn runs from its marker to the next one and includes its end mark;
    text after an end mark without a new marker is the assistant's, whom templates let speak last.
    """
    openings = [*signs_in(text, _OPENING)]
    if starts is not None:
        borders = {*starts, len(text)}
        specials = (_SPECIAL.match(text, one.start()) for one in openings)
        pairs = zip(openings, specials, strict=True)
        openings = [one for one, own in pairs if own and {*own.span()} <= borders]
    turns: list[Turn] = []
    for opening, end in zip(openings, _ends(openings, text), strict=True):
        word, *names = (word for word in opening.groups() if word)
        role = _ROLES.get(word.lower(), word.lower())
        closing = _CLOSING.search(text, opening.end(), end)
        own_end = min(closing.end(), end) if closing else end
        turns.append(Turn(opening.start(), own_end, role, *names))
        if own_end < end:
            turns.append(Turn(own_end, end, "assistant"))
    return turns


def _ends(signs: Sequence[re.Match[str]], text: str) -> list[int]:
    """Where the turn of each sign ends: at the next one."""
    return [*(following.start() for following in signs[1:]), len(text)][: len(signs)]


def signs_in(text: str, pattern: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """What pattern.finditer gives, for a pattern whose matches begin with one of `<[◁`: many times as
    fast on long texts, where most places need no look.
    """
    end = 0
    for place in _BRACKET.finditer(text):
        result = pattern.match(text, place.start()) if place.start() >= end else None
        if result:
            end = result.end()
            yield result


def without_markers(text: str, *, closing: bool) -> str:
    """The text of a turn without the marker it begins with and, for `closing`, the one it ends with."""
    opening = _OPENING.match(text)
    text = text[opening.end() :] if opening else text
    ends = [*_CLOSING.finditer(text)] if closing else []
    return text[: ends[-1].start()] if ends and not text[ends[-1].end() :].strip() else text


def from_messages(text: str, messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Turns by looking for each message's content in the text, in order, over characters.

    Contents that are empty, no text or not found are passed over: nothing is guessed.
    """
    turns: list[Turn] = []
    position = 0
    for message in messages:
        content = message.get("content")
        words = content.strip() if isinstance(content, str) else ""
        at = text.find(words, position) if words else -1
        if at >= 0:
            position = at + len(words)
            role, name = str(message.get("role", "")), str(message.get("name") or "")
            turns.append(Turn(at, position, role, name))
    return turns


def with_tool_names(turns: Sequence[Turn], messages: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """Turns of tools that have no name, named by the messages of tools in the same order.

    Nothing is guessed: where there are not as many of them, turns stay as they are. A message names its
    tool itself, or by the id of the call that it answers.
    """
    called, names = CalledNames(), list[str]()
    for message in messages:
        called.add(tool_calls(message))
        if message.get("role") == "tool":
            answered = called.answered_by(str(message.get("tool_call_id")))
            names.append(str(message.get("name") or message.get("tool_name") or answered))
    if len(names) != sum(turn.role == "tool" for turn in turns):
        return [*turns]
    tools = iter(names)
    named = ((turn, next(tools) if turn.role == "tool" else "") for turn in turns)
    return [replace(turn, name=turn.name or name) for turn, name in named]


def over_tokens(turns: Sequence[Turn], tokens: Sequence[str]) -> list[Turn]:
    """Turns over characters of the joined tokens as turns over tokens, without overlap.

    A token on a border belongs to the turn that its first character is in; turns that hold no token's
    first character are left out.
    """
    *firsts, length = _borders(tokens)
    result: list[Turn] = []
    position = 0
    for turn in sorted(turns, key=lambda turn: turn.start):
        # Tokens of no characters go with the text that follows them.
        start = max(position, bisect_left(firsts, turn.start))
        end = max(start, bisect_left(firsts, turn.end))
        if turn.end >= length:
            end = len(tokens)
        if end > start:
            result.append(Turn(start, end, turn.role, turn.name))
            position = end
    return result


def token_starts(tokens: Sequence[str]) -> list[int]:
    """[R] place of each token's first character in the joined text."""
    return _borders(tokens)[:-1]


def _borders(tokens: Sequence[str]) -> list[int]:
    """[R + 1] where each token begins in the joined text, and its length."""
    return [0, *accumulate(0 if token == PLACEHOLDER else len(token) for token in tokens)]


def of_tokens(
    tokens: Sequence[str],
    segments: Sequence[Mapping[str, Any]] = (),
    messages: Sequence[Mapping[str, Any]] = (),
) -> list[Turn]:
    """Turns over a response's tokens: of the recorded segments, else of its markers, else of messages.

    segments that leave 0..R or overlap an earlier one are passed over. A single turn that spans all
    tokens and is the assistant's says nothing and is left out.
    """
    if recorded := _recorded(segments, len(tokens)):
        return recorded
    text = joined(tokens)
    turns = from_markers(text, token_starts(tokens))
    if turns and turns[0].start > 0:
        turns.insert(0, Turn(0, turns[0].start, "assistant"))
    turns = turns or from_messages(text, messages)
    result = over_tokens(turns, tokens)
    return [] if [turn.role for turn in result] == ["assistant"] else result


def _recorded(segments: Sequence[Mapping[str, Any]], length: int) -> list[Turn]:
    turns: list[Turn] = []
    end = 0
    for entry in segments:
        start, stop = entry.get("start"), entry.get("end")
        if isinstance(start, int) and isinstance(stop, int) and end <= start < stop <= length:
            role, name = str(entry.get("role", "")), str(entry.get("name") or "")
            turns.append(Turn(start, stop, role, name))
            end = stop
    return turns


def at_character(starts: Sequence[int], place: int) -> int:
    """Index of the token that holds the character at `place`; -1 without any token."""
    return bisect_right(starts, place) - 1


_HEADING: Final = re.compile(r"(?:\A|\n\n)\[([a-z_]{1,20})\]\n")
_ROLE_LINE: Final = re.compile(r"^(system|user|assistant|tool)$\n?", re.MULTILINE)
_FIRST_ROLES: Final = ("system\n", "user\n")


def turns_of_texts(
    texts: Mapping[str, str], *, headings: bool = True
) -> Iterator[tuple[Turn, str, bool]]:
    """Turns of a rollout's prompt and response with their text, and whether each was given.

    By markers of chat templates; by headings such as `[user]`, unless headings is False; or, where the
    prompt begins with a line `system` or `user`, by such lines: what is left of ChatML when special
    tokens are not decoded. In a prompt and a response without any of these the two have the roles
    "prompt" and "response".
    The end marks that the model wrote itself stay in its text.
    """
    prompt, response = texts.get("prompt", ""), texts.get("response", "")
    by_lines = prompt.startswith(_FIRST_ROLES)
    for turn in _turns(prompt, "prompt", by_lines=by_lines, headings=headings):
        text = without_markers(prompt[turn.start : turn.end], closing=True)
        if text.strip():
            yield turn, text.strip("\n"), True
    turns = _turns(response, "response", by_lines=by_lines, headings=headings)
    for turn in turns:
        role = "assistant" if turn.role == "response" and len(turns) > 1 else turn.role
        text = without_markers(response[turn.start : turn.end], closing=False)
        if text.strip() or len(turns) == 1:
            yield Turn(turn.start, turn.end, role, turn.name), text, False
    if response == "" and "response" in texts:
        yield Turn(0, 0, "response"), "", False


def _turns(text: str, role: str, *, by_lines: bool, headings: bool) -> list[Turn]:
    """Turns that cover the text; what comes before the first sign of one is of `role`."""
    turns = from_markers(text)
    first = turns[0].start if turns else len(text)
    has_headings = headings and not turns and "[" in text
    signs = [*_HEADING.finditer(text)] if has_headings else []
    if not turns and not signs and by_lines:
        signs = [*_ROLE_LINE.finditer(text)]
    if signs:
        ends = _ends(signs, text)
        turns = [Turn(one.end(), end, one[1]) for one, end in zip(signs, ends, strict=True)]
        first = signs[0].start()
    return [*([Turn(0, first, role)] if first else []), *turns]


def without_gaps(turns: Iterable[Turn], length: int, role: str, marker: int = 0) -> list[Turn]:
    """Turns over all of `length` units. A gap of at most `marker` before a turn belongs to it, as its
    marker; any other is a turn of this role.
    """
    covered: list[Turn] = []
    position = 0
    for turn in turns:
        is_marker = turn.start - position <= marker
        if not is_marker:
            covered.append(Turn(position, turn.start, role))
        covered.append(replace(turn, start=position) if is_marker else turn)
        position = turn.end
    if position < length:
        covered.append(Turn(position, length, role))
    return covered
