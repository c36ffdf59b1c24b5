"""Prompt and response, logged as two texts, as turns: by what chat templates leave in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from board.core.texts.turns import Turn, from_markers, without_markers

_HEADING: Final = re.compile(r"(?:\A|\n\n)\[([a-z_]{1,20})\]\n")
_ROLE_LINE: Final = re.compile(r"^(system|user|assistant|tool)$\n?", re.MULTILINE)
_FIRST_ROLES: Final = ("system\n", "user\n")


def turns_of_texts(texts: Mapping[str, str]) -> Iterator[tuple[Turn, str, bool]]:
    """Turns of a rollout's prompt and response with their text, and whether each was given.

    By markers of chat templates; by headings such as `[user]`; or, where the prompt begins with a line
    `system` or `user`, by such lines: what is left of ChatML when special tokens are not decoded. In
    a prompt and a response without any of these the two have the roles "prompt" and "response".
    The end marks that the model wrote itself stay in its text.
    """
    prompt, response = texts.get("prompt", ""), texts.get("response", "")
    by_lines = prompt.startswith(_FIRST_ROLES)
    for turn in _turns(prompt, "prompt", by_lines=by_lines):
        text = without_markers(prompt[turn.start : turn.end], closing=True)
        if text.strip():
            yield turn, text.strip("\n"), True
    turns = _turns(response, "response", by_lines=by_lines)
    for turn in turns:
        role = "assistant" if turn.role == "response" and len(turns) > 1 else turn.role
        text = without_markers(response[turn.start : turn.end], closing=False)
        if text.strip() or len(turns) == 1:
            yield Turn(turn.start, turn.end, role, turn.name), text, False
    if response == "" and "response" in texts:
        yield Turn(0, 0, "response"), "", False


def _turns(text: str, role: str, *, by_lines: bool) -> list[Turn]:
    """Turns that cover the text; what stands before the first sign of one is of `role`."""
    turns = from_markers(text)
    first = turns[0].start if turns else len(text)
    signs = [] if turns or "[" not in text else [*_HEADING.finditer(text)]
    if not turns and not signs and by_lines:
        signs = [*_ROLE_LINE.finditer(text)]
    if signs:
        ends = [*(following.start() for following in signs[1:]), len(text)]
        turns = [Turn(one.end(), end, one[1]) for one, end in zip(signs, ends, strict=True)]
        first = signs[0].start()
    return [*([Turn(0, first, role)] if first else []), *turns]
