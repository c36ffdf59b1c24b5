"""Token ids -> text, from the vocabulary that the exporter wrote beside the log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from board.core.arrays import FloatArray
from board.core.texts.turns import may_hold_turns
from board.core.tokens.pieces import UNKNOWN_PIECE, Coding, display_alone, display_pieces

_HIGHEST_ID: Final = 10_000_000
"""Whole numbers up to here are exact."""


@dataclass(frozen=True)
class Vocabulary:
    """pieces: raw tokenizer pieces by id, None where the id has none. coding: how they are written."""

    pieces: Sequence[str | None]
    coding: Coding
    special_ids: frozenset[int] = frozenset()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Vocabulary:
        """From the content of vocab.json, in one of its three forms.

        {"pieces": [...], "coding": ..., "special_ids": [...]}, as the exporter writes it; {id: piece};
        and {piece: id}, as tokenizers are saved. The coding may be left out. Raises ValueError.
        """
        recorded = cast("dict[str, Any] | list[Any] | None", data.get("pieces"))
        if not isinstance(recorded, list | dict):
            known = _by_id(data)
            return cls(known, coding_of_pieces(known))
        pieces: list[Any] = _by_id(recorded) if isinstance(recorded, dict) else recorded
        if not _holds_only(pieces, {str, type(None)}):
            raise ValueError("pieces is not a list of texts and nulls, one per token id")
        special: Any = data.get("special_ids") or []
        known = cast("list[str | None]", pieces)
        coding = data.get("coding") or coding_of_pieces(known)
        if coding not in ("byte_level", "metaspace", "text"):
            raise ValueError(f"coding is {coding!r}, not byte_level, metaspace or text")
        if not _holds_only(special, {int}):
            raise ValueError("special_ids is not a list of token ids")
        return cls(known, coding, frozenset(cast("list[int]", special)))

    @cached_property
    def turn_ids(self) -> list[int]:
        """Ids of tokens that may begin a turn of a chat template."""
        known = ((number, piece) for number, piece in enumerate(self.pieces) if piece)
        beginnings = ("<", "[")
        return [n for n, piece in known if piece.startswith(beginnings) and may_hold_turns(piece)]

    def texts(self, ids: FloatArray) -> list[str]:
        """Display text of each id [n]; an id without a piece is shown as ⟨id⟩, null as ⟨?⟩."""
        numbers = [int(i) if math.isfinite(i) else -1 for i in ids.tolist()]
        raw = [self._piece(i) for i in numbers]
        texts = display_pieces(raw, self.coding)
        for place, (number, piece) in enumerate(zip(numbers, raw, strict=True)):
            if piece is None and number >= 0:
                texts[place] = f"⟨{number}⟩"
        return texts

    def alone(self, ids: Sequence[int]) -> list[str]:
        """Display text of each id by itself: one that holds a part of a character shows U+FFFD."""
        raw = [self._piece(i) for i in ids]
        displayed = iter(display_alone([piece for piece in raw if piece is not None], self.coding))
        pairs = zip(ids, raw, strict=True)
        return [f"⟨{i}⟩" if piece is None else next(displayed) for i, piece in pairs]

    def _piece(self, token_id: int) -> str | None:
        return self.pieces[token_id] if 0 <= token_id < len(self.pieces) else None


def id_texts(ids: FloatArray) -> list[str]:
    """What is shown for ids [n] when no vocabulary is known: the ids themselves."""
    numbers: list[float] = ids.tolist()
    # A text of its own for each of a million tokens would take seven times the memory.
    texts = {i: f"⟨{int(i)}⟩" if math.isfinite(i) else UNKNOWN_PIECE for i in {*numbers}}
    return [texts[i] for i in numbers]


def _by_id(data: Mapping[str, Any]) -> list[str | None]:
    """Pieces by id, of {id: piece} or {piece: id}; null for an id between that has none."""
    values = {*map(type, data.values())}
    if values == {int}:
        entries = [(number, piece) for piece, number in data.items()]
    elif values and values <= {str, type(None)} and all(map(_is_id, data)):
        entries = [(int(number), piece) for number, piece in data.items()]
    else:
        raise ValueError('neither "pieces", a list, nor {id: piece}, nor {piece: id}')
    highest = max(number for number, _ in entries)
    if min(number for number, _ in entries) < 0 or highest > _HIGHEST_ID:
        raise ValueError(f"a token id is not within 0 to {_HIGHEST_ID:,}")
    known = dict(entries)
    return [known.get(number) for number in range(highest + 1)]


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def coding_of_pieces(pieces: Sequence[str | None]) -> Coding:
    """By the sign for a space at the beginning of pieces: of SentencePiece, or of byte-level BPE."""
    known = [piece for piece in pieces if piece]
    if any(piece.startswith("\u2581") for piece in known):
        return "metaspace"
    return "byte_level" if any(piece.startswith("\u0120") for piece in known) else "text"


def _holds_only(value: object, types: set[type]) -> bool:
    return isinstance(value, list) and set(map(type, cast("list[object]", value))) <= types
