"""Texts of many rows: whole, their beginnings, and their lengths."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import compress
from typing import Any, Final, Literal, cast

import numpy as np
import numpy.typing as npt

from board.formats.messages import Message, conversation_text, message_texts, response_text

PREVIEW_CHARS: Final = 240
"""So much of a text is in the table."""
CUT_SIGN: Final = "…"
CUT: Final = CUT_SIGN.encode()
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


def cut_text(text: str) -> str | bytes:
    """The text, or where it is longer than a preview its beginning with CUT_SIGN at its end, as UTF-8.

    Text with a sign that is not ASCII at its end would be encoded at several times the cost.
    """
    if len(text) <= PREVIEW_CHARS:
        return text
    try:
        return text[: PREVIEW_CHARS - 1].encode() + CUT
    except UnicodeEncodeError:  # half of a sign: whoever makes the table says so
        return text[: PREVIEW_CHARS - 1] + CUT_SIGN


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

    def previews(self) -> Any:
        """Each as it is in the table: as Values, or a pyarrow Array of strings; texts may be as UTF-8."""
        return [None if text is None else cut_text(text) for text in self.whole()]

    def cut_texts(self) -> Any:
        """The whole texts of which previews have a beginning, and None for each other, as Values or a
        pyarrow Array of strings; None where no preview is cut.
        """
        whole = [t if t is not None and len(t) > PREVIEW_CHARS else None for t in self.whole()]
        return Words(whole) if whole.count(None) < len(whole) else None


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
                last, shown = text, cut_text(text)
            found.append(shown)
        return Words(found)

    def cut_texts(self) -> Any:
        """As Texts."""
        texts = self._texts
        known = texts.lengths if isinstance(texts, Words) else None
        if known is None or known.min(initial=0) <= PREVIEW_CHARS < known.max(initial=0):
            return super().cut_texts()
        return texts if known.max(initial=0) > PREVIEW_CHARS else None


class SpokenTexts(Texts):
    """Texts, or lists of chat messages.

    generated: a message alone is its text, as in `response_text`; else as in `conversation_text`.
    """

    def __init__(self, spoken: Values, *, generated: bool) -> None:
        self.spoken = spoken
        self._generated = generated

    def whole(self) -> Values:
        """As Texts."""
        return self._whole

    def kept(self, kept: Sequence[bool]) -> SpokenTexts:
        """As Texts."""
        return SpokenTexts(list(compress(self.spoken, kept)), generated=self._generated)

    @cached_property
    def message_texts(self) -> Values:
        """[rows] the text of each message; None for a row that is no list of messages."""
        return [
            message_texts(cast("list[Message]", one)) if isinstance(one, list) else None
            for one in self.spoken
        ]

    @cached_property
    def _whole(self) -> Values:
        text_of = response_text if self._generated else conversation_text
        pairs = zip(self.spoken, self.message_texts, strict=True)
        return [one if texts is None else text_of(one, texts) for one, texts in pairs]
