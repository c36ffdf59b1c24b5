"""The first and last bytes of many texts at once, as words of eight bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt


def ends_at(
    codes: npt.NDArray[np.uint8],
    starts: npt.NDArray[Any],
    sizes: npt.NDArray[Any],
    first: int,
    last: int,
) -> npt.NDArray[np.uint64]:
    """[texts, (first + last) / 8] of each text its first bytes and its last ones.

    starts, sizes: where the texts stand in the codes, in bytes, [texts]. A text that is shorter than
    first or last stands there whole, filled up with zeros.
    """
    lasts = np.maximum(starts + sizes - last, starts)
    return np.hstack([_pieces(codes, starts, sizes, first), _pieces(codes, lasts, sizes, last)])


def _pieces(
    codes: npt.NDArray[np.uint8], starts: npt.NDArray[Any], sizes: npt.NDArray[Any], size: int
) -> npt.NDArray[np.uint64]:
    """[texts, size / 8] so many bytes of each text, or fewer and zeros."""
    if len(codes) < size:
        codes = np.concatenate((codes, np.zeros(size, np.uint8)))
    beyond = len(codes) - size
    # As bytes of that size at every place: sliding_window_view makes a dozen calls for the same.
    windows = np.ndarray((beyond + 1,), f"V{size}", codes, strides=(1,))
    words = windows[np.minimum(starts, beyond)].view("<u8").reshape(len(starts), size // 8)
    if len(sizes) and sizes.min() < size:
        words &= _kept(size)[np.minimum(sizes, size)]
    for row in np.flatnonzero((starts > beyond) & (sizes > 0)).tolist():
        text = codes[int(starts[row]) :][: int(sizes[row])].tobytes()
        words[row] = np.frombuffer(text.ljust(size, b"\0"), "<u8")
    return words


@lru_cache(maxsize=8)
def _kept(size: int) -> npt.NDArray[np.uint64]:
    """[size + 1, size / 8] by how many bytes are kept: ones where they stand, zeros behind them."""
    kept = np.arange(size) < np.arange(size + 1)[:, None]
    return (kept * np.uint8(255)).view("<u8")
