"""Contrast of colours, as WCAG 2.2 defines it."""

from collections.abc import Sequence

import numpy as np


def channels(colour: str) -> np.ndarray:
    """Of "#rrggbb": [3], from 0 to 255."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], float)


def linear(srgb: Sequence[float] | np.ndarray) -> np.ndarray:
    """Linear RGB of channels from 0 to 255."""
    shares = np.asarray(srgb, float) / 255
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def contrast(one: Sequence[float] | np.ndarray, other: Sequence[float] | np.ndarray) -> float:
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(weights @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)
