"""The shape of a call of a tool: what is left of it without what the prompt says.

Rollouts of one prompt ask a tool for the same in other words: `who wrote Germinal`, `Germinal author`.
What they take from the prompt is a mark in the shape; what they add, a mistake among it, is kept.
"""

from __future__ import annotations

import re
from typing import Final

_TERM: Final = re.compile(r"[^\W_]+")
_MARK: Final = "§"
_MARKS: Final = re.compile(r"§(?:[\s_.,:;+/?!'\"-]*§)+")
_MOST: Final = 600
"""Characters of a call that are looked at."""
_MOST_OF_PROMPT: Final = 20_000
_LONG: Final = 4
"""Characters of a term that counts as the prompt's where it is a piece of a longer one."""
_QUOTED: Final = (re.compile(r"'([^'\n]{8,200})'"), re.compile(r'"([^"\n]{8,200}?)\\?"'))
"""Texts within a call, also where it is JSON."""
_HERE: Final = re.compile(r"\blocalhost\b|\b127\.0\.0\.1\b")


def call_shape(call: str, prompt: str) -> str:
    """The call with a mark for each run of terms that the prompt has."""
    prompt = prompt[:_MOST_OF_PROMPT].lower()
    terms = {*_TERM.findall(prompt)}

    def mark(match: re.Match[str]) -> str:
        term = match[0]
        # A piece of a number or an id is another one.
        is_long = (len(term) >= _LONG and term.isalpha()) or not term.isascii()
        return _MARK if term in terms or (is_long and term in prompt) else term

    return _MARKS.sub(_MARK, _TERM.sub(mark, call[:_MOST].lower()))


def is_echo(call: str, output: str) -> bool:
    """Whether an output is of the call's doing: it says what a text within the call says, or is about the
    machine itself, which the call asked something of.
    """
    if _HERE.search(output) and _HERE.search(call):
        return True
    quoted = (match[1] for pattern in _QUOTED for match in pattern.finditer(call))
    return any(" " in text and text in output for text in quoted)
