"""When did two runs diverge? A sequential test of their difference, step by step.

z_i is the difference at step i in standard errors, as a normal deviate. While the expected values of the
two runs do not differ, the z_i are independent with mean 0 and variance 1, and for each s

    E_s,t = sqrt(r / (r + n)) · exp(S² / (2 (r + n))),   S = z_s + ... + z_t,   n = t - s + 1

is a martingale that begins at 1 (the normal mixture: Robbins 1970, Statistical methods related to the law
of the iterated logarithm; Howard et al. 2021, arXiv 1810.08240). So is its mean over the steps s at which
they may have begun to differ, with weights 1 / (s (s + 1)). Ville's inequality: it ever reaches 1 / 0.05
in at most 5 % of pairs of runs that do not differ, however many steps are looked at; of m metrics any
ever reaches m / 0.05 in at most 5 % (Bonferroni).

What is tested is two runs, not two settings: the expected values of two seeds of one configuration go
apart, too, and are then found to differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.arrays import FloatArray, IntArray

RATE: Final = 0.05
"""False alarms: of pairs of runs that do not differ, at most this share."""
_MIXTURE: Final = 4.0
"""r: quickest for differences of half a standard error at each step."""
_MOST_EXPONENT: Final = 500.0
_INTERVAL: Final = 7.35
"""Twice the log-likelihood that a step may have less than the likeliest: -2 log(1 - sqrt(0.95)), the 95 %
bound for a small change (Hansen 2000, Sample splitting and threshold estimation, Econometrica 68)."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """step: the first at which the difference is beyond chance, None where there is none. since: the step
    since which they most likely differ, earliest and latest: its 95 % interval; difference: the mean
    difference from then to the end. steps: tested. paired: of these, by shared prompts. metrics: tested
    together, so that a false alarm on any of them is as rare as RATE.
    """

    step: int | None
    since: int | None
    earliest: int | None
    latest: int | None
    difference: float | None
    steps: int
    paired: int = 0
    metrics: int = 1


def normal_deviates(t: FloatArray, freedom: FloatArray) -> FloatArray:
    """Values of Student's t [n] as values of the normal distribution with the same probability, at most
    0.05 nearer to 0 than exact for 3 degrees of freedom or more (Wallace 1959). NaN below 1 degree.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        v = np.where(freedom >= 1, freedom, np.nan)
        return np.sign(t) * (8 * v + 1) / (8 * v + 3) * np.sqrt(v * np.log1p(t**2 / v))


def divergence(
    steps: IntArray,
    difference: FloatArray,
    error: FloatArray,
    freedom: FloatArray,
    *,
    metrics: int = 1,
) -> Divergence:
    """When the difference of two runs went beyond chance.

    steps: [S] ascending. difference: of the means at each; error: its standard error; freedom: of its
    error, in degrees. Steps where any is NaN, or the error is 0, say nothing. metrics: how many are
    tested together.

    Since when is told by the likelihood of a change at one step and none after it, of all steps to the
    last: a change that grows is dated to where it is half grown.
    """
    known = np.isfinite(difference) & (error > 0) & (freedom >= 1)
    steps, difference = steps[known], difference[known]
    z = normal_deviates(difference / error[known], freedom[known])
    totals, count = np.append(0.0, np.cumsum(z)), len(z)
    at = _first_beyond_chance(totals, metrics / RATE)
    if at is None:
        return Divergence(None, None, None, None, None, count, metrics=metrics)
    likelihoods = (totals[count] - totals[: at + 1]) ** 2 / (count - np.arange(at + 1))
    since = int(np.argmax(likelihoods))
    likely = np.flatnonzero(likelihoods >= likelihoods[since] - _INTERVAL)
    return Divergence(
        int(steps[at]),
        int(steps[since]),
        int(steps[likely[0]]),
        int(steps[likely[-1]]),
        float(difference[since:].mean()),
        count,
        metrics=metrics,
    )


def _first_beyond_chance(totals: FloatArray, bound: float) -> int | None:
    """The first step, from 0, at which the evidence reaches a bound. totals: [S + 1] sums of z."""
    starts = np.arange(1, len(totals))
    weights = 1 / (starts * (starts + 1))
    for t in starts.tolist():
        length = t - starts[:t] + 1
        sums = totals[t] - totals[:t]
        exponents = np.minimum(sums**2 / (2 * (_MIXTURE + length)), _MOST_EXPONENT)
        evidence = weights[:t] * np.sqrt(_MIXTURE / (_MIXTURE + length)) * np.exp(exponents)
        # Starts that are still to come have the value 1, and 1 / (t + 1) of the weight.
        if evidence.sum() + 1 / (t + 1) >= bound:
            return t - 1
    return None
