"""Where in a rollout a word is said: the words around it, and the token it begins in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from board.analysis.patterns import Pattern
from board.analysis.rollout import OpenRollout
from board.analysis.utterances import Utterance, utterances
from board.core.texts.turns import at_character, token_starts
from board.core.tokens.pieces import joined
from board.query.open_run import Run

_CONTEXTS: Final = (120, 30, 10)
"""Characters before and after a hit by which it is looked for among the tokens' text."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The first place in a rollout where it is said. before, after: up to `around` characters; after
    begins with the words themselves. token: the response token it begins in; None where that is not
    known, and `unplaced` says why.
    """

    before: str
    after: str
    token: int | None
    unplaced: str = ""


def hit_in(run: Run, opened: OpenRollout, pattern: Pattern, by: str, around: int) -> Hit | None:
    """Where one of speech.SPEAKERS says it first; None where none does."""
    for stretch in utterances(opened.record, run.vocabulary, by) or ():
        at = pattern.first(stretch.text)
        if at >= 0:
            first = max(at - around, 0)
            before = ("…" if first else "") + stretch.text[first:at]
            end = at + around
            after = stretch.text[at:end] + ("…" if end < len(stretch.text) else "")
            unplaced = _unplaced(opened, stretch)
            token = None if unplaced else _token_of(opened, stretch, at)
            if token is None and not unplaced:
                unplaced = "These words do not occur exactly once in the text of the tokens."
            return Hit(before, after, token, unplaced)
    return None


def _unplaced(opened: OpenRollout, stretch: Utterance) -> str:
    """Why no token can be told; empty where one may be."""
    if stretch.is_given:
        return "This was said before the response, so no response token corresponds to it."
    if not opened.tokens:
        return "The log holds no tokens of this response."
    if opened.tokens_are_ids:
        return "The log holds token ids and no vocabulary: choose a tokenizer in the reader on Rollouts."
    return ""


def _token_of(opened: OpenRollout, stretch: Utterance, at: int) -> int | None:
    """The token of a character of a stretch: counted from where it begins, else by its context."""
    if stretch.first is not None:
        starts = token_starts(opened.tokens[stretch.first :])
        return stretch.first + at_character(starts, at)
    place = _aligned(joined(opened.tokens), stretch.text, at)
    return None if place is None else at_character(token_starts(opened.tokens), place)


def _aligned(whole: str, text: str, at: int) -> int | None:
    """The place in the tokens' text of a character of another text of the same words.

    By the whole other text where it stands there once, else by what is around the character: a message
    may be written another way than the tokens were, as tool calls are. None where nothing fits, or more
    than one place does.
    """
    blank = len(text) - len(text.lstrip())
    stretches = [(blank, len(text.rstrip()))]
    stretches += [(max(at - n, 0), min(at + n, len(text))) for n in _CONTEXTS]
    for first, end in stretches:
        found = whole.find(text[first:end])
        if found >= 0:
            is_only = whole.find(text[first:end], found + 1) < 0
            return found + at - first if is_only else None
    return None
