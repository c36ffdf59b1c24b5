"""Every curve by environment, and the environment that the mean over all of them hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from board.core.groups.statistics import IntArray
from board.core.metrics.kl import FloatArray


@dataclass(frozen=True, slots=True)
class EnvCurves:
    """Means of a number of rollouts. steps: [S]. names: of environments, [E]; means, counts: [E, S],
    NaN and 0 where an environment has no value at a step. overall: [S] over all rollouts.

    The curve over all environments is a field of its own, so that an environment may be called "all".
    """

    steps: IntArray
    names: Sequence[str]
    means: FloatArray
    counts: IntArray
    overall: FloatArray


def curves_from(
    steps: IntArray, envs: IntArray, names: Sequence[str], sums: FloatArray, counts: IntArray
) -> EnvCurves:
    """Means of what was summed by step and environment, [n] each; counts: values in each sum.

    envs: places in names, -1 for rollouts without one, which count in `overall` alone.
    """
    unique, of_step = np.unique(steps, return_inverse=True)
    size = (len(names), len(unique))
    is_named = envs >= 0
    cells = envs[is_named] * size[1] + of_step[is_named]
    totals = np.bincount(cells, weights=sums[is_named], minlength=size[0] * size[1]).reshape(size)
    known = np.bincount(cells, weights=counts[is_named], minlength=size[0] * size[1]).reshape(size)
    every = np.bincount(of_step, weights=counts, minlength=size[1])
    whole = np.bincount(of_step, weights=sums, minlength=size[1])
    return EnvCurves(
        unique,
        names,
        np.divide(totals, known, out=np.full(size, np.nan), where=known > 0),
        known.astype(np.int64),
        np.divide(whole, every, out=np.full(size[1], np.nan), where=every > 0),
    )
