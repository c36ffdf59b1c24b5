"""Two rollouts side by side: how far they agree, and where they part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np

from board.core.kl import FloatArray
from board.core.pieces import joined
from board.core.turns import at_character, token_starts

_WORDS: Final = re.compile(r"\S+\s*|\s+")
SCALE_PERCENTILES: Final = (1.0, 99.0)


@dataclass(frozen=True, slots=True)
class Divergence:
    """Index of the first token that differs on either side; None where a side ends or both agree."""

    left: int | None
    right: int | None


def first_difference(left: Sequence[object], right: Sequence[object]) -> Divergence:
    """Where two sequences of ids, or of texts where ids are not known, part after a common prefix."""
    agreed = zip(left, right, strict=False)
    prefix = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], agreed))
    return Divergence(
        prefix if prefix < len(left) else None, prefix if prefix < len(right) else None
    )


def first_difference_in_text(left: Sequence[str], right: Sequence[str]) -> Divergence:
    """Where the texts of two sequences of pieces part, as the pieces that hold the first other character.

    For sequences that were cut differently, such as tokens beside the words of a text.
    """
    texts = joined(left), joined(right)
    place = first_difference(*texts)
    sides = zip((left, right), (place.left, place.right), strict=True)
    left_at, right_at = (
        None if at is None else at_character(token_starts(pieces), at) for pieces, at in sides
    )
    return Divergence(left_at, right_at)


def words(text: str) -> list[str]:
    """A text cut after its blanks, to be shown where no tokens are known; joined they are the text."""
    return _WORDS.findall(text)


def shared_spans(
    sides: Sequence[Mapping[str, FloatArray]],
) -> dict[str, tuple[float, float]]:
    """1st and 99th percentile of each metric over several rollouts, so that one scale fits them all.

    sides: token metrics by name. NaN and infinities are left out; a metric without a number is too.
    Where the percentiles coincide, smallest and largest value.
    """
    names = dict.fromkeys(name for side in sides for name in side)
    spans: dict[str, tuple[float, float]] = {}
    for name in names:
        values = np.concatenate([side[name] for side in sides if name in side])
        values = values[np.isfinite(values)]
        if len(values):
            low, high = (float(q) for q in np.percentile(values, SCALE_PERCENTILES))
            spans[name] = (low, high) if low < high else (float(values.min()), float(values.max()))
    return spans
