"""Who said what in a rollout, by the recorded segments of its tokens where there are any."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from board.analysis.rollout import prompt_tokens, response_tokens
from board.core.records import Record
from board.core.texts.turns import from_markers, of_tokens
from board.core.tokens.pieces import joined
from board.formats.messages import message_text
from board.index.whole_texts import whole_text
from board.query.open_run import Run

SPEAKERS: Final = (
    *("response", "prompt", "reasoning", "answer"),
    *("assistant", "user", "tool", "system"),
)
"""Whose words can be asked for; roles of segments, markers and messages are the last four."""

_THINKING: Final = frozenset(("reasoning", "thinking", "think", "thought", "analysis"))
_MARKS: Final = re.compile(
    r"(?P<begin><(?:think|thinking|thought|reasoning)>|\[THINK\]|\[reasoning\])"
    r"|(?P<end></(?:think|thinking|thought|reasoning)>|\[/THINK\]|\[/reasoning\])"
)


@dataclass(frozen=True, slots=True)
class Said:
    """One stretch of words. first: the response token it begins with; None where that is not told.
    is_given: whether it was said before the response.
    """

    text: str
    first: int | None = None
    is_given: bool = False


def said(run: Run, record: Record, by: str) -> list[Said] | None:
    """What one of SPEAKERS said; empty where nothing, None where the log does not tell.

    Roles are those of recorded segments over the response's tokens, else of its chat-template markers,
    else of messages. Reasoning is what segments of such a role hold, else what stands between thinking
    tags; the answer is the rest of the response, of the assistant's part where roles are told.
    """
    if by in ("response", "prompt"):
        text = record.texts.get(by) or _pieces(run, record, by)
        if (
            not text and by not in record.texts
        ):  # the response of messages holds what tools said too
            text = whole_text(record, run.vocabulary, by) or ""
        # A response that is recorded and empty says nothing; one that is not recorded tells nothing.
        return [Said(text, is_given=by == "prompt")] if text or by in record.texts else None
    if by in ("reasoning", "answer"):
        return _thought(run, record, by)
    spoken = _segments(run, record)
    if spoken:
        return [*_before(run, record, by), *(one for role, one in spoken if role == by)]
    if record.messages:
        given = sum(1 for _ in takewhile(_is_given, record.messages))
        return [
            Said(message_text(message), is_given=place < given)
            for place, message in enumerate(record.messages)
            if message.get("role") == by
        ]
    return None


def _pieces(run: Run, record: Record, by: str) -> str:
    if by == "response":
        return joined(response_tokens(run.vocabulary, record)[0])
    return joined(prompt_tokens(run.vocabulary, record) or ())


def _segments(run: Run, record: Record) -> list[tuple[str, Said]]:
    """Role and words of each stretch of the response's tokens; empty where roles are not told."""
    tokens, _ = response_tokens(run.vocabulary, record)
    return [
        (_role(turn.role, turn.name), Said(joined(tokens[turn.start : turn.end]), turn.start))
        for turn in of_tokens(tokens, record.segments)
    ]


def _role(role: str, name: str) -> str:
    return "reasoning" if {role.lower(), name.lower()} & _THINKING else role


def _before(run: Run, record: Record, by: str) -> Iterator[Said]:
    """What a role said in the prompt, by its markers, else by the messages before the first answer."""
    prompt = record.texts.get("prompt", "")
    turns = from_markers(prompt)
    if turns:
        yield from (Said(prompt[t.start : t.end], is_given=True) for t in turns if t.role == by)
    else:
        given = takewhile(_is_given, record.messages)
        yield from (Said(message_text(m), is_given=True) for m in given if m.get("role") == by)


def _is_given(message: Mapping[str, Any]) -> bool:
    return message.get("role") != "assistant"


def _thought(run: Run, record: Record, by: str) -> list[Said] | None:
    spoken = _segments(run, record)
    if any(role == "reasoning" for role, _ in spoken):
        wanted = "reasoning" if by == "reasoning" else "assistant"
        return [one for role, one in spoken if role == wanted]
    own = [one for role, one in spoken if role == "assistant"] or _by_assistant(run, record) or []
    if not own:
        return None
    parts = [(kind, text) for one in own for kind, text in _parted(one.text)]
    if by == "reasoning" and not any(kind == "reasoning" for kind, _ in parts):
        return None
    return [Said(text) for kind, text in parts if kind == by]


def _by_assistant(run: Run, record: Record) -> list[Said] | None:
    """The response; of a log of messages alone, those of the assistant."""
    is_text = "response" in record.texts or bool(_pieces(run, record, "response"))
    return said(run, record, "response" if is_text else "assistant")


def _parted(text: str) -> Sequence[tuple[str, str]]:
    """The text cut at thinking tags. An end without a begin: the template has opened it before."""
    marks = [*_MARKS.finditer(text)]
    inside = bool(marks) and marks[0].group("end") is not None
    found: list[tuple[str, str]] = []
    at = 0
    for mark in marks:
        found.append(("reasoning" if inside else "answer", text[at : mark.start()]))
        inside, at = mark.group("begin") is not None, mark.end()
    found.append(("reasoning" if inside else "answer", text[at:]))
    return [(kind, part) for kind, part in found if part.strip() or kind == "reasoning"]
