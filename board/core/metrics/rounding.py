"""Means that are zero but for the rounding of a sum."""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.metrics.kl import FloatArray

LEAST: Final = 1e-12
"""Smaller means are what is left of terms that cancel, as advantages of a group do: -3.47e-17, say."""


RELATIVE_TO_STD: Final = 1e-7
"""The same in single precision, of the standard deviation of the terms."""


def without_residue(values: FloatArray, stds: FloatArray | float = 0.0) -> FloatArray:
    """values, any shape, with 0 where they are smaller than `LEAST` or `RELATIVE_TO_STD` of the standard
    deviation of what each is the mean of; NaN stays NaN.
    """
    least = np.fmax(LEAST, RELATIVE_TO_STD * np.asarray(stds))
    return np.where(np.abs(values) < least, 0.0, values)
