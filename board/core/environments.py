"""Every curve by environment, and the environment that the mean over all of them hides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from board.core.groups import IntArray
from board.core.kl import FloatArray


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


def env_curves(
    steps: IntArray, envs: IntArray, names: Sequence[str], values: FloatArray
) -> EnvCurves:
    """Means by step and environment. steps, envs, values: [rollouts]; envs: places in names, -1 for
    rollouts without one, which count in `overall` alone; NaN among the values is left out.
    """
    unique, of_step = np.unique(steps, return_inverse=True)
    size = (len(names), len(unique))
    known = np.isfinite(values)
    held = known & (envs >= 0)
    cells = envs[held] * size[1] + of_step[held]
    totals = np.bincount(cells, weights=values[held], minlength=size[0] * size[1]).reshape(size)
    counts = np.bincount(cells, minlength=size[0] * size[1]).reshape(size)
    every = np.bincount(of_step[known], minlength=size[1])
    sums = np.bincount(of_step[known], weights=values[known], minlength=size[1])
    return EnvCurves(
        unique,
        names,
        np.divide(totals, counts, out=np.full(size, np.nan), where=counts > 0),
        counts.astype(np.int64),
        np.divide(sums, every, out=np.full(size[1], np.nan), where=every > 0),
    )
