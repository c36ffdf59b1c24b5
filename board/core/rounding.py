"""Means that are zero but for the rounding of a sum."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.kl import FloatArray

LEAST: Final = 1e-12
"""Smaller means are what is left of terms that cancel, as advantages of a group do: -3.47e-17, say."""


def without_residue(values: FloatArray) -> FloatArray:
    """values, any shape, with 0 where they are smaller than `LEAST`; NaN stays NaN."""
    return np.where(np.abs(values) < LEAST, 0.0, values)
