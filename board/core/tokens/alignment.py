"""What two rollouts side by side share: words of a text, and one colour scale."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from board.core.metrics.kl import FloatArray

_WORDS: Final = re.compile(r"\S+\s*|\s+")
SCALE_PERCENTILES: Final = (1.0, 99.0)


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
