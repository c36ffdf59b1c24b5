"""A code for every distinct token of a run, with the text it is shown by and its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.core.records import FloatArray
from board.core.tokens.pieces import Coding, detect_coding, display_pieces, joined
from board.core.tokens.token_kinds import kinds_of
from board.core.tokens.vocabulary import Vocabulary, id_texts

IntArray = npt.NDArray[np.int64]

_LARGEST_ID: Final = 1 << 22
"""Vocabularies are smaller; a table of them is 32 MB."""


class TokenCodes:
    """Gives every distinct token a code; ids and pieces may both occur in a run."""

    def __init__(self, vocabulary: Vocabulary | None) -> None:
        self._vocabulary = vocabulary
        self._pieces: dict[Coding, dict[str, int]] = {}
        self._codes: dict[int, int] = {}
        self._special: list[int] = []
        self._kinds = np.zeros(0, np.int8)
        self.shown: list[str] = []

    def of_pieces(self, pieces: Sequence[str], response: str | None) -> npt.NDArray[np.int32]:
        """[pieces] codes of the pieces of one response. response: its text, which tells the coding."""
        coding = detect_coding(pieces, response)
        known = self._pieces.setdefault(coding, {})
        codes = [*map(known.get, pieces)]
        if None in codes:
            for piece in dict.fromkeys(pieces):
                if piece not in known:
                    known[piece] = len(self.shown)
                    self.shown.append(display_pieces([piece], coding)[0])
            codes = [known[piece] for piece in pieces]
        return np.array(codes, np.int32)

    def of_ids(self, ids: FloatArray) -> npt.NDArray[np.int32]:
        """All ids at once: most occur many times, and each is decoded once."""
        known = np.isfinite(ids)
        if known.all():
            return self._of_whole(ids.astype(np.int64))
        codes = np.full(len(ids), -1, np.int32)
        codes[known] = self._of_whole(ids[known].astype(np.int64))
        return codes

    def _of_whole(self, ids: IntArray) -> npt.NDArray[np.int32]:
        if not len(ids) or (ids.min() >= 0 and ids.max() <= _LARGEST_ID):
            table = np.zeros(int(ids.max(initial=0)) + 1, np.int32)
            table[ids] = 1
            distinct = np.flatnonzero(table)
            table[distinct] = self._of_distinct(distinct)
            return table[ids]
        distinct, places = np.unique(ids, return_inverse=True)
        return self._of_distinct(distinct)[places]

    def _of_distinct(self, ids: IntArray) -> npt.NDArray[np.int32]:
        numbers: list[int] = ids.tolist()
        self._learn([number for number in numbers if number not in self._codes])
        return np.array([self._codes[number] for number in numbers], np.int32)

    def _learn(self, ids: list[int]) -> None:
        first = len(self.shown)
        self._codes |= {number: first + place for place, number in enumerate(ids)}
        if self._vocabulary:
            special = self._vocabulary.special_ids
            self._special += [self._codes[number] for number in ids if number in special]
            self.shown += self._vocabulary.alone(ids)
        else:
            self.shown += id_texts(np.array(ids, np.float64))

    def decoded(self, ids: npt.NDArray[Any]) -> str:
        """The text of a whole response; empty without a vocabulary."""
        return joined(self._vocabulary.texts(ids)) if self._vocabulary else ""

    def kinds(self) -> npt.NDArray[np.int8]:
        """[shown] codes; those known before are not judged again."""
        first = len(self._kinds)
        special = [place - first for place in self._special if place >= first]
        self._kinds = np.append(self._kinds, kinds_of(self.shown[first:], special))
        return self._kinds
