"""Texts of many rows, of which a table needs the beginnings and the lengths.

Putting a conversation together, or decoding a text, only to look at its first line costs as much as
parsing the row it stands in.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, compress
from typing import Any, Final, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from board.readers.messages import Message, conversation_text, message_text, response_text

PREVIEW_CHARS: Final = 240
"""So much of a text is in the table."""
CUT_SIGN: Final = "…"
CUT: Final = CUT_SIGN.encode()
BEGINNING: Final = 256
_LOOKED_AT: Final = 8
"""So many texts tell whether equal ones follow each other, as the prompts of a group do."""

Values = list[Any]
"""One value per row, as the log has it; None: the row has none."""


def array_of_numbers(numbers: Sequence[Any], kind: Literal["d", "q"]) -> npt.NDArray[Any]:
    """Numbers as an array of floats (d) or of whole numbers (q), which is not to be written to.

    Raises struct.error where any is none.
    """
    # In a third of the time that numpy takes for lists.
    return np.frombuffer(struct.pack(f"{len(numbers)}{kind}", *numbers), kind)


class Words(list[Any]):
    """Values of which is known that each is a text or None.

    lengths: [rows] in characters; None where any of them is None.
    """

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64] | None:
        """As said above; it is also the quickest way to tell whether a None is among them."""
        try:
            return array_of_numbers([*map(len, self)], "q")
        except TypeError:
            return None

    @property
    def has_lengths(self) -> bool:
        """Whether the lengths were asked for before, and are free."""
        return "lengths" in vars(self)


class Numbers(list[Any]):
    """Values of which is known that each is a finite number, but no flag, or None.

    floats: [rows] the same, NaN for None.
    """

    def __init__(self, values: Iterable[Any], floats: npt.NDArray[np.float64]) -> None:
        super().__init__(values)
        self.floats = floats

    def kept(self, kept: Sequence[bool]) -> Numbers:
        """Those of the rows that are kept."""
        return type(self)(compress(self, kept), self.floats[np.array(kept)])


class Flags(Numbers):
    """Values of which is known that each is true, false or None; floats: 1, 0 and NaN."""


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


class Texts(ABC):
    """A text for each row, or None."""

    @abstractmethod
    def whole(self) -> Values:
        """The texts."""

    @abstractmethod
    def kept(self, kept: Sequence[bool]) -> Texts:
        """Those of the rows that are kept."""

    def lengths(self) -> Values | npt.NDArray[np.int64]:
        """Their lengths in characters; as an array where there are all."""
        return [None if text is None else len(text) for text in self.whole()]

    def cut(self, longest: int, sign: bytes) -> Values:
        """Each as cut_text has it."""
        return [None if text is None else cut_text(text, longest, sign) for text in self.whole()]

    def previews(self) -> Any:
        """Each as it is in the table: as Values, or a pyarrow Array of strings; texts may be as UTF-8."""
        return self.cut(PREVIEW_CHARS, CUT)

    def begun(self) -> BegunTexts:
        """What a table needs of them, without the rest."""
        return BegunTexts(self.previews(), self.lengths())


class PlainTexts(Texts):
    """Texts as they are."""

    def __init__(self, texts: Values) -> None:
        self._texts = texts

    def whole(self) -> Values:
        """As Texts."""
        return self._texts

    def kept(self, kept: Sequence[bool]) -> PlainTexts:
        """As Texts."""
        texts = compress(self._texts, kept)
        return PlainTexts(Words(texts) if isinstance(self._texts, Words) else list(texts))

    def lengths(self) -> Values | npt.NDArray[np.int64]:
        """As Texts."""
        texts = self._texts
        known = texts.lengths if isinstance(texts, Words) else None
        return super().lengths() if known is None else known

    def previews(self) -> Any:
        """As Texts."""
        texts, longest = self._texts, PREVIEW_CHARS
        if not isinstance(texts, Words) or texts.lengths is None:
            return super().previews()
        if texts.lengths.max(initial=0) <= longest:
            return texts
        if len(set(texts[:_LOOKED_AT])) > _LOOKED_AT // 2:
            # What was parsed has no half of a sign, which could not be encoded.
            shown = [t if len(t) <= longest else t[: longest - 1].encode() + CUT for t in texts]
            return Words(shown)
        found: list[str | bytes] = []
        last, shown = "", ""
        for text in texts:
            if text != last:
                last, shown = text, cut_text(text, PREVIEW_CHARS, CUT)
            found.append(shown)
        return Words(found)


class BegunTexts(Texts):
    """The previews and lengths of texts that are gone, as a table needs them."""

    def __init__(self, previews: Values, lengths: Values | npt.NDArray[np.int64]) -> None:
        self._previews = previews
        self._lengths = lengths

    @classmethod
    def joined(cls, parts: Sequence[BegunTexts]) -> BegunTexts:
        """Those of several blocks, one after the other."""
        if len(parts) == 1:
            return parts[0]
        previews, lengths = (
            [part.previews() for part in parts],
            [part.lengths() for part in parts],
        )
        are_words = all(isinstance(values, Words) for values in previews)
        return cls(
            (Words if are_words else list)(chain.from_iterable(previews)),
            list(chain.from_iterable(lengths)),
        )

    def whole(self) -> Values:
        """Raises TypeError: whoever needs the texts must not have them cut."""
        raise TypeError("only the start of these texts was logged")

    def kept(self, kept: Sequence[bool]) -> BegunTexts:
        """As Texts."""
        previews, lengths = (compress(v, kept) for v in (self._previews, self._lengths))
        return BegunTexts(list(previews), list(lengths))

    def lengths(self) -> Values | npt.NDArray[np.int64]:
        """As Texts."""
        return self._lengths

    def previews(self) -> Values:
        """As Texts."""
        return self._previews

    def begun(self) -> BegunTexts:
        """As Texts."""
        return self

    def filled(self, others: BegunTexts) -> BegunTexts:
        """These, and where there is none the others."""
        pairs = (self._previews, others.previews()), (self._lengths, others.lengths())
        previews, lengths = (
            [other if own is None else own for own, other in zip(*pair, strict=True)]
            for pair in pairs
        )
        return BegunTexts(previews, lengths)


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
        if longest >= BEGINNING:
            return super().cut(longest, sign)
        return [None if one is None else cut_text(one[0], longest, sign) for one in self._looked_at]

    @cached_property
    def _looked_at(self) -> list[tuple[str, int, bool] | None]:
        """Of each text what _looked says."""
        kind = LongText(self._generated)
        return [None if one is None else _looked(one, kind) for one in self._spoken]


class LongText(NamedTuple):
    """What a key of a log says. generated: as of SpokenTexts. may_be_empty: a list of no messages is a
    text without a word; else it is no text.
    """

    generated: bool
    may_be_empty: bool = False


def begun_texts(values: Values, kind: LongText) -> tuple[BegunTexts, list[int]]:
    """What a table needs of texts and lists of chat messages, and which rows hold anything else."""
    if set(map(type, values)) <= {str, type(None)}:
        return PlainTexts(values).begun(), []
    previews: Values = [None] * len(values)
    lengths: Values = [None] * len(values)
    odd: list[int] = []
    last = preview = length = None
    for row, one in enumerate(values):
        if one is None:
            continue
        if one != last:  # nearly all rollouts of a prompt follow each other
            try:
                beginning, length, is_plain = _looked(one, kind)
            except (TypeError, LookupError, AttributeError, RecursionError):
                odd.append(row)
                last = None
                continue
            preview = cut_text(beginning, PREVIEW_CHARS, CUT)
            last = one if is_plain else None
        previews[row], lengths[row] = preview, length
    return BegunTexts(previews, lengths), odd


def _looked(one: Any, kind: LongText) -> tuple[str, int, bool]:
    """The beginning and length of a text, and whether what equals it in Python is the same text.

    Raises what Python does of what is neither text nor chat messages.
    """
    if type(one) is str:
        return one, len(one), True
    generated, may_be_empty = kind
    if not one and may_be_empty and type(one) is list:
        return "", 0, True
    messages = cast("Sequence[Message]", one)
    if generated and len(messages) == 1 and "role" in messages[0]:
        (message,) = messages
        content = message.get("content")
        text = content if len(message) == 2 and type(content) is str else message_text(message)
        return text, len(text), False
    return _beginning_and_length(messages)


def _beginning_and_length(messages: Sequence[Message]) -> tuple[str, int, bool]:
    """Of what conversation_text makes of messages."""
    beginning, length, between, is_plain = "", -2, "", True
    for message in messages:
        role, text = message["role"], message.get("content")
        if len(message) != 2 or type(text) is not str or type(role) is not str:
            text, is_plain = message_text(message), False
            role = "?" if role is None else str(role)
        length += len(role) + len(text) + 5
        if len(beginning) < BEGINNING:
            beginning += f"{between}[{role}]\n{text[:BEGINNING]}"
        between = "\n\n"
    if not between:
        raise LookupError
    return beginning, length, is_plain
