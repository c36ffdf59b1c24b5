"""Percentiles of token metrics, so that one colour scale fits several rollouts or a whole step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import FloatArray

_FEWEST_FOR_PERCENTILES: Final = 100
"""Of fewer values the 99th percentile is the largest but one or two: no bound of the ordinary."""


@dataclass(frozen=True, slots=True)
class Span:
    """Of the values of a metric the range of their colours, low to high, and the smallest and largest.

    The range is 1st to 99th percentile, or all of it where the values are few or those coincide. over:
    words for whose values they are, "of both".
    """

    low: float
    high: float
    least: float
    most: float
    over: str = ""

    @property
    def words(self) -> str:
        """What the range is."""
        is_all = (self.low, self.high) == (self.least, self.most)
        return f"{'min–max' if is_all else 'p1–p99'} {self.over}".strip()


def span_of(ordered: FloatArray) -> Span:
    """The span of finite values [n], at least one, ascending. `robustRange` of the reader's scale.js is
    the same rule.
    """
    last = len(ordered) - 1
    least, most = float(ordered[0]), float(ordered[-1])
    low, high = float(ordered[int(np.ceil(0.01 * last))]), float(ordered[int(0.99 * last)])
    is_many = len(ordered) >= _FEWEST_FOR_PERCENTILES and low < high
    return Span(low, high, least, most) if is_many else Span(least, most, least, most)


def shared_spans(sides: Sequence[Mapping[str, FloatArray]], over: str) -> dict[str, Span]:
    """The span of each metric over several rollouts, so that one scale fits them all.

    sides: token metrics by name. NaN and infinities are left out; a metric without a number is too.
    """
    names = dict.fromkeys(name for side in sides for name in side)
    spans: dict[str, Span] = {}
    for name in names:
        values = np.concatenate([side[name] for side in sides if name in side])
        values = np.sort(values[np.isfinite(values)])
        if len(values):
            spans[name] = replace(span_of(values), over=over)
    return spans


_DROPPED_BITS: Final = 14
_BINS: Final = 1 << (32 - _DROPPED_BITS)
_SIGN: Final = np.uint32(1 << 31)
_LARGEST: Final = float(np.finfo(np.float32).max)


class Histogram:
    """Counts numbers by the upper 18 bits of their float32, which sort like the numbers.

    A percentile is within 2^-9 (0.2 %) of the exact one, and exact for numbers of few binary digits
    such as 0, 1 or -0.5. Takes 1 MB, however many numbers are added.
    """

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.uint32] = np.zeros(_BINS, np.uint32)
        self._low, self._high = np.inf, -np.inf

    def add(self, values: FloatArray) -> None:
        """Counts [n] numbers; NaN and infinities are left out."""
        finite = values[np.isfinite(values)]
        if not len(finite):
            return
        self._low = min(self._low, float(finite.min()))
        self._high = max(self._high, float(finite.max()))
        np.add.at(self._counts, _bins_of(finite), 1)

    def span(self) -> Span | None:
        """The span of the numbers, as `span_of` has it; None where no number was added."""
        upto = np.cumsum(self._counts, dtype=np.int64)
        if not upto[-1]:
            return None
        last_rank = int(upto[-1]) - 1
        ranks = [int(np.ceil(0.01 * last_rank)), int(0.99 * last_rank)]
        bins = np.searchsorted(upto, ranks, side="right")
        low, high = (float(x) for x in np.clip(_values_of(bins), self._low, self._high))
        is_many = upto[-1] >= _FEWEST_FOR_PERCENTILES and low < high
        ends = (low, high) if is_many else (self._low, self._high)
        return Span(*ends, self._low, self._high)


def _bins_of(values: FloatArray) -> npt.NDArray[np.uint32]:
    """Bits of a float32 sort like the number once those of a negative one are turned over."""
    bits = np.clip(values, -_LARGEST, _LARGEST).astype(np.float32).view(np.uint32)
    cut = bits >> np.uint32(_DROPPED_BITS) << np.uint32(_DROPPED_BITS)
    ordered = np.where(cut & _SIGN, ~cut, cut | _SIGN)
    return ordered >> np.uint32(_DROPPED_BITS)


def _values_of(bins: npt.NDArray[np.integer[Any]]) -> FloatArray:
    """The number of a bin that is nearest to zero."""
    ordered = bins.astype(np.uint32) << np.uint32(_DROPPED_BITS)
    low_bits = np.uint32((1 << _DROPPED_BITS) - 1)
    bits = np.where(ordered & _SIGN, ordered ^ _SIGN, ~(ordered | low_bits))
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)
