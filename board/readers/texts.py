"""Texts of many rows, of which a table needs the beginnings, the lengths and what tells them apart.

Putting a conversation together, or decoding a text, only to look at its first line costs as much as
parsing the row it stands in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import compress
from typing import Any, Final

from board.readers.messages import Message, conversation_text, message_text, response_text

_BEGINNING: Final = 512

Values = list[Any]
"""One value per row, as the log has it; None: the row has none."""


def cut_text(text: str, longest: int, sign: bytes) -> str | bytes:
    """The text, or where it is longer than that so much of it with the sign at its end, as UTF-8.

    Text with a sign that is not ASCII at its end would be encoded at several times the cost.
    """
    if len(text) <= longest:
        return text
    try:
        return text[: longest - 1].encode() + sign
    except UnicodeEncodeError:  # half of a sign: whoever makes the table says so
        return text[: longest - 1] + sign.decode()


def ends_of(text: str, size: int) -> bytes:
    """The first and the last bytes of the text as UTF-8, so many of each, or all of it twice."""
    first = text[:size].encode("utf-8", "surrogatepass")[:size]
    return first + text[-size:].encode("utf-8", "surrogatepass")[-size:]


class Texts(ABC):
    """A text for each row, or None."""

    @abstractmethod
    def whole(self) -> Values:
        """The texts."""

    @abstractmethod
    def kept(self, kept: Sequence[bool]) -> Texts:
        """Those of the rows that are kept."""

    def lengths(self) -> Values:
        """Their lengths in characters."""
        return [None if text is None else len(text) for text in self.whole()]

    def cut(self, longest: int, sign: bytes) -> Values:
        """Each as cut_text has it."""
        return [None if text is None else cut_text(text, longest, sign) for text in self.whole()]

    def ends(self, size: int) -> Values:
        """Of each what ends_of has."""
        return [None if text is None else ends_of(text, size) for text in self.whole()]


class PlainTexts(Texts):
    """Texts as they are."""

    def __init__(self, texts: Values) -> None:
        self._texts = texts

    def whole(self) -> Values:
        """As Texts."""
        return self._texts

    def kept(self, kept: Sequence[bool]) -> PlainTexts:
        """As Texts."""
        return PlainTexts(list(compress(self._texts, kept)))


class SpokenTexts(Texts):
    """Texts, or lists of chat messages, which are put together only as far as they are looked at.

    generated: a message alone is its text, as in `response_text`; else as in `conversation_text`.
    """

    def __init__(self, spoken: Values, *, generated: bool) -> None:
        self._spoken = spoken
        self._generated = generated

    def whole(self) -> Values:
        """As Texts."""
        text_of = response_text if self._generated else conversation_text
        return [one if one is None or type(one) is str else text_of(one) for one in self._spoken]

    def kept(self, kept: Sequence[bool]) -> SpokenTexts:
        """As Texts."""
        return SpokenTexts(list(compress(self._spoken, kept)), generated=self._generated)

    def lengths(self) -> Values:
        """As Texts."""
        return [None if one is None else one[1] for one in self._looked_at]

    def cut(self, longest: int, sign: bytes) -> Values:
        """As Texts."""
        if longest >= _BEGINNING:
            return super().cut(longest, sign)
        return [None if one is None else cut_text(one[0], longest, sign) for one in self._looked_at]

    @cached_property
    def _looked_at(self) -> list[tuple[str, int] | None]:
        """Of each text its beginning, of _BEGINNING characters or more, and its length."""
        return [self._looked(one) for one in self._spoken]

    def _looked(self, one: Any) -> tuple[str, int] | None:
        if one is None:
            return None
        if type(one) is str:
            return one, len(one)
        if not self._generated or len(one) > 1:
            return _beginning_and_length(one)
        text = message_text(one[0])
        return text, len(text)


def _beginning_and_length(messages: Sequence[Message]) -> tuple[str, int]:
    """Of what conversation_text makes of messages."""
    beginning, length, between = "", -2, ""
    for message in messages:
        role, text = message.get("role"), message_text(message)
        mark = "?" if role is None else str(role)
        length += len(mark) + len(text) + 5
        if len(beginning) < _BEGINNING:
            beginning += f"{between}[{mark}]\n{text[:_BEGINNING]}"
        between = "\n\n"
    return beginning, length
