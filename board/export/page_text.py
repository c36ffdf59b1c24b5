"""Text of a log as it may stand on a page: redacted, escaped, and with invisible signs made visible."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import accumulate
from typing import Any, Final, cast

from board.core.tokens.pieces import PLACEHOLDER, PLACEHOLDER_SIGN
from board.errors import ChoiceError

REDACTED: Final = "[redacted]"
"""What stands in place of a match."""
_MARK: Final = "\ufdd1"
"""Stands for REDACTED until the text is written: a code point that no text has and few patterns match."""
_REST: Final = "\ufdd2"
"""Stands for a token that lies within a match."""
_STRUCTURE: Final = ("role", "type", "id", "tool_call_id", "tool_use_id")
_SIGNS: Final = {_MARK: REDACTED, _REST: "▒", PLACEHOLDER: PLACEHOLDER_SIGN}
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3164\ud800-\udfff\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)
"""As in components/reader/js/text.js, and lone surrogates, which UTF-8 can't carry."""


class Redaction:
    """Replaces what a pattern matches. count: how many matches were replaced so far."""

    def __init__(self, pattern: re.Pattern[str] | None = None) -> None:
        self._pattern = pattern
        self.count = 0

    @classmethod
    def of(cls, written: str | None) -> Redaction:
        """Of a regular expression; None: nothing is replaced. Raises ChoiceError."""
        try:
            return cls(re.compile(written) if written else None)
        except re.error as error:
            raise ChoiceError(f"--redact {written!r} is no regular expression: {error}") from None

    def text(self, text: str) -> str:
        """The text with a mark in place of each match. Marks of an earlier call stay and do not count."""
        if self._pattern is None:
            return text
        return self._pattern.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        if not match[0].strip(_MARK + _REST):  # an empty match, or what was replaced before
            return match[0]
        self.count += 1
        return _MARK

    def value(self, value: Any) -> Any:
        """A value of JSON with its texts redacted but for names of keys, roles, types and ids, by which a
        message is understood.
        """
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            return {k: one if k in _STRUCTURE else self.value(one) for k, one in pairs}
        if isinstance(value, list | tuple):
            return [self.value(one) for one in cast("Sequence[Any]", value)]
        return value

    def tokens(self, tokens: Sequence[str]) -> list[str]:
        """Display texts of tokens, [R], with a mark on the first token of each match in their whole text,
        and another on tokens that lie within it.
        """
        if self._pattern is None:
            return [*tokens]
        texts = ["" if token == PLACEHOLDER else token for token in tokens]
        borders = [0, *accumulate(map(len, texts))]
        characters = [*"".join(texts)]
        for match in self._pattern.finditer("".join(texts)):
            begin, end = match.span()
            if begin < end:
                self.count += 1
                characters[begin:end] = [_MARK, *[""] * (end - begin - 1)]
        spans = zip(tokens, borders, borders[1:], strict=False)
        return [
            ("".join(characters[start:end]) or _REST) if start < end else token
            for token, start, end in spans
        ]


def visible(text: str) -> str:
    """The text with signs that are not seen as their code points: ⟨202E⟩."""
    if text.isascii() and text.isprintable():  # nearly every token
        return text
    return _INVISIBLE.sub(_named, text)


def _named(match: re.Match[str]) -> str:
    return _SIGNS.get(match[0]) or f"⟨{ord(match[0]):04X}⟩"


def html(text: str) -> str:
    """The text for any place of a page but a script or a style, of which there are none with texts."""
    return escape(visible(text))
