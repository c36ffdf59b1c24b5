"""Percentiles of token metrics, so that one colour scale fits several rollouts or a whole step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.core.arrays import FloatArray

SCALE_PERCENTILES: Final = (1.0, 99.0)


def shared_spans(sides: Sequence[Mapping[str, FloatArray]]) -> dict[str, tuple[float, float]]:
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

    def percentiles(self, low: float, high: float) -> tuple[float, float] | None:
        """Two percentiles, in percent of the numbers; smallest and largest where they coincide.

        None where no number was added.
        """
        upto = np.cumsum(self._counts, dtype=np.int64)
        if not upto[-1]:
            return None
        last_rank = int(upto[-1]) - 1
        ranks = [round(low / 100 * last_rank), round(high / 100 * last_rank)]
        bins = np.searchsorted(upto, ranks, side="right")
        first, last = (float(x) for x in np.clip(_values_of(bins), self._low, self._high))
        return (first, last) if first < last else (self._low, self._high)


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
