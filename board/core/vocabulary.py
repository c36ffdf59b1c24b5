"""Token ids -> text, from the vocabulary that the exporter wrote beside the log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from board.core.pieces import UNKNOWN_PIECE, Coding, display_alone, display_pieces
from board.core.records import FloatArray

_WHOLE: Final = 2.0**53
"""Whole numbers up to here are told apart."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """pieces: raw tokenizer pieces by id, None where the id has none. coding: how they are written."""

    pieces: Sequence[str | None]
    coding: Coding
    special_ids: frozenset[int] = frozenset()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Vocabulary:
        """From the content of vocab.json. Raises ValueError when it is not of that form."""
        pieces, coding = data.get("pieces"), data.get("coding")
        special: Any = data.get("special_ids") or []
        if not _holds_only(pieces, {str, type(None)}):
            raise ValueError("pieces is no list of texts and nulls, one per token id")
        if coding not in ("byte_level", "metaspace", "text"):
            raise ValueError(f"coding is {coding!r}, not byte_level, metaspace or text")
        if not _holds_only(special, {int}):
            raise ValueError("special_ids is no list of token ids")
        return cls(cast("list[str | None]", pieces), coding, frozenset(cast("list[int]", special)))

    def texts(self, ids: FloatArray) -> list[str]:
        """Display text of each id [n]; an id without a piece is shown as ⟨id⟩, null as ⟨?⟩."""
        numbers = [int(i) if math.isfinite(i) else -1 for i in ids.tolist()]
        raw = [self._piece(i) for i in numbers]
        shown = display_pieces(raw, self.coding)
        return [
            (f"⟨{i}⟩" if i >= 0 else UNKNOWN_PIECE) if piece is None else text
            for i, piece, text in zip(numbers, raw, shown, strict=True)
        ]

    def alone(self, ids: Sequence[int]) -> list[str]:
        """Display text of each id by itself: one that holds a part of a character shows U+FFFD."""
        raw = [self._piece(i) for i in ids]
        shown = iter(display_alone([piece for piece in raw if piece is not None], self.coding))
        return [
            f"⟨{i}⟩" if piece is None else next(shown) for i, piece in zip(ids, raw, strict=True)
        ]

    def _piece(self, token_id: int) -> str | None:
        return self.pieces[token_id] if 0 <= token_id < len(self.pieces) else None


def id_texts(ids: FloatArray) -> list[str]:
    """What is shown for ids [n] when no vocabulary is known: the ids themselves."""
    if (np.abs(ids) < _WHOLE).all():  # False of NaN
        told = "⟩ ⟨".join(map(str, ids.astype(np.int64).tolist()))
        return f"⟨{told}⟩".split(" ") if len(ids) else []
    return [f"⟨{int(i)}⟩" if math.isfinite(i) else UNKNOWN_PIECE for i in ids.tolist()]


def _holds_only(value: object, types: set[type]) -> bool:
    return isinstance(value, list) and set(map(type, cast("list[object]", value))) <= types
