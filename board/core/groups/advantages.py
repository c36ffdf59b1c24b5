"""Are the advantages a log holds those that its rewards give? Recomputed by each convention in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import nextafter
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.groups.statistics import IntArray
from board.core.metrics.kl import FloatArray

BoolArray = npt.NDArray[np.bool_]
EPSILON: Final = 1e-4
"""Added to the standard deviation: TRL's value; verl has 1e-6, which no tolerance here can tell."""
RELATIVE: Final = 0.01
ABSOLUTE: Final = 2e-3
"""Recorded and recomputed advantages count as equal within ABSOLUTE + RELATIVE * |recomputed|: logs
carry 4 or 5 digits, and epsilons differ."""
_FITS: Final = 0.9
"""A convention fits a step when at least this share of its advantages is equal."""
_STEPS: Final = 200
"""Steps, evenly spread, by which the convention is told."""
_MOST: Final = 0.5
"""The convention of a run fits more than this share of its steps: a fault may lie in the others."""
_FIRST: Final = 10
"""Or as many steps at its beginning: a fault may last from then on."""


@dataclass(frozen=True, slots=True)
class Convention:
    """How an advantage is made of a group's rewards. formula: in r, mean, std of the group, size n."""

    name: str
    label: str
    formula: str
    source: str


CONVENTIONS: Final[Mapping[str, Convention]] = {
    c.name: c
    for c in (
        Convention(
            "grpo",
            "GRPO, mean and standard deviation of the group",
            "(r - mean) / (std + 1e-4), n - 1 in std's denominator",
            "DeepSeekMath, arXiv 2402.03300; TRL scale_rewards='group'; verl grpo",
        ),
        Convention(
            "dr_grpo",
            "Dr. GRPO, mean of the group only",
            "r - mean",
            "Dr. GRPO, arXiv 2503.20783; TRL scale_rewards='none'; prime-rl",
        ),
        Convention(
            "rloo",
            "RLOO, mean of the others",
            "(r - mean) * n / (n - 1) = r - mean of the group's other rewards",
            "Ahmadian et al. 2024, arXiv 2402.14740",
        ),
        Convention(
            "grpo_population",
            "GRPO, standard deviation over n",
            "(r - mean) / (std + 1e-4), n in std's denominator",
            "DeepSeekMath, arXiv 2402.03300, with numpy's default std",
        ),
        Convention(
            "batch_std",
            "Mean of the group, standard deviation of the step",
            "(r - mean) / (std of all rewards of the step + 1e-4)",
            "arXiv 2508.08221; TRL scale_rewards='batch'",
        ),
    )
}


@dataclass(frozen=True, slots=True)
class FitCounts:
    """How the advantages of each step with groups fit; arrays [steps].

    telling: advantages by which conventions can be told apart. hits: by convention how many of these
    it gives; differs: how many of all known ones it does not give; furthest: by how much the one that
    is furthest from what it gives is so, NaN where none is known.
    """

    steps: IntArray
    telling: IntArray
    hits: Mapping[str, IntArray]
    differs: Mapping[str, IntArray]
    furthest: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True)
class Told:
    """convention: that the run follows, None where none fits; closest: the one that fits best. shares:
    by convention, the share of steps that it fits. compared: advantages by which that was told.
    """

    convention: str | None
    closest: str
    shares: Mapping[str, float]
    compared: int


def told(counts: FitCounts) -> Told:
    """Which convention the recorded advantages follow.

    A convention fits a step when 9 of 10 of its telling advantages are equal, and the run when it fits
    more than half of the steps, or else the first 10. Of a long run 200 steps, evenly spread, tell the
    convention.
    """
    count = len(counts.steps)
    places = np.linspace(0, max(count - 1, 0), min(count, _STEPS)).round().astype(np.int64)
    telling = counts.telling[places]
    shares: dict[str, float] = {}
    known: dict[str, float] = {}
    for name, hits in counts.hits.items():
        fits = _steps_that_fit(hits[places], telling)
        shares[name] = float(fits.mean()) if len(fits) else float("nan")
        if len(fits):
            begins = len(fits) >= _FIRST and bool(fits[:_FIRST].all())
            known[name] = max(shares[name], nextafter(_MOST, 1.0) if begins else 0.0)
    closest = max(known, key=lambda name: known[name]) if known else next(iter(CONVENTIONS))
    follows = known.get(closest, 0.0) > _MOST
    return Told(closest if follows else None, closest, shares, int(telling.sum()))


def _steps_that_fit(hits: IntArray, telling: IntArray) -> BoolArray:
    """[steps with telling advantages], in their order, whether nearly all are equal."""
    there = telling > 0
    return hits[there] >= _FITS * telling[there]
