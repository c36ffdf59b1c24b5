"""How many prompts show a difference of a given size? By simulating the comparison that will be made.

Prompts and rollouts are drawn as a run has them: of two values, such as rewards of 0 and 1, each prompt
has a chance, and chances are Beta distributed; of other metrics, levels and rollouts are normal. Then
the intervals that *Compare* shows are computed, and counted where they leave 0 out on the right side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, inf
from statistics import NormalDist
from typing import Final, Literal

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.intervals import (
    Scale,
    Z,
    difference_of_estimates,
    interval_of_means,
)
from board.core.metrics.paired import LEAST_PROMPTS
from board.core.metrics.sample_size import Variances
from board.core.metrics.skewed_means import LEAST_UNBOUNDED, skewed_mean_interval

POWER: Final = 0.8
SEED: Final = 0
_MOST_SIMULATED: Final = 800
"""Prompts: the intervals of more are those of normal means."""
_DRAWS: Final = 400_000
_COMPARISONS: Final = (400, 2000)
"""At least and at most so many are simulated."""
_POOL: Final = 50_000
_NEAR: Final = (0.79, 0.82)
_ROUNDS: Final = 8
_Z_POWER: Final = NormalDist().inv_cdf(POWER)
Gain = Literal["by room", "alike"]
"""Of prompts that gain: in proportion to what is between their level and the better of two values; or all
as much, but for those that come to that value.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Two runs that are to be compared. variances, mean: of the first. difference: of the second's mean,
    not 0. share: of the prompts that gain it, the others gaining nothing. scale: the two values that
    all of the metric are; None where there are others, whose mean does not matter.
    """

    variances: Variances
    difference: float
    share: float = 1.0
    mean: float = 0.0
    scale: Scale | None = None


def least_share(mean: float, scale: Scale | None, difference: float) -> float:
    """The share of prompts of which fewer can't change a mean of two values by a difference; above 1
    where no share can, 0 of other metrics.
    """
    if scale is None:
        return 0.0
    room = abs(scale[1 if difference > 0 else 0] - mean)
    return abs(difference) / room if room > 0 else inf


@dataclass(frozen=True, slots=True)
class Prompts:
    """So many show the difference in POWER of all comparisons; power: of those simulated, the least and
    the most over the ways to gain, and one of normal means where there are too many to simulate.
    """

    count: int
    power: tuple[float, float]


def prompts_needed(plan: Plan, rollouts: int, *, is_paired: bool) -> Prompts:
    """How many prompts, with so many rollouts each in both runs, show the difference of a plan.

    is_paired: the same prompts in both, so that their difficulty falls out; what they gain does not,
    where it is another one for each. Never fewer than *Compare* has an interval of. Where the mean can't
    gain as much (see least_share) what is found is less.
    """
    gains: tuple[Gain, ...] = ("by room", "alike") if plan.scale and is_paired else ("alike",)
    pools = [_pool(plan, rollouts, gain, is_paired=is_paired) for gain in gains]
    first, second = pools[0]
    variance = float(np.var(second - first) if is_paired else np.var(first) + np.var(second))
    start = ceil((Z + _Z_POWER) ** 2 * variance / plan.difference**2 + Z**2 / 2)
    if start > _MOST_SIMULATED:
        return Prompts(start, (POWER, POWER))

    def powers(count: int) -> list[float]:
        return [_power(plan, rollouts, count, *pool, is_paired=is_paired) for pool in pools]

    least = LEAST_UNBOUNDED if is_paired and plan.scale is None else LEAST_PROMPTS
    count = _least_count(lambda count: powers(count)[0], max(start, least), least)
    both = powers(count)
    return Prompts(count, (min(both), max(both)))


def _least_count(power_of: Callable[[int], float], count: int, least: int) -> int:
    """The count of prompts that has POWER, about, at least so many; searched from a first one."""
    few, enough = least - 1, 0
    for _ in range(_ROUNDS):
        power = power_of(count)
        if _NEAR[0] <= power <= _NEAR[1]:
            return count
        few, enough = (count, enough) if power < POWER else (few, count)
        if enough == few + 1:
            break
        reached = Z + NormalDist().inv_cdf(min(max(power, 0.05), 0.99))
        likely = ceil(count * ((Z + _Z_POWER) / reached) ** 2)
        count = min(max(likely, few + 1), enough - 1 if enough else likely)
    return enough or count


def _pool(
    plan: Plan, rollouts: int, gain: Gain, *, is_paired: bool
) -> tuple[FloatArray, FloatArray]:
    """Means of so many rollouts of prompts in the first and in the second run, to draw from."""
    rng = np.random.default_rng(SEED)
    gains = rng.random(_POOL) < plan.share
    if plan.scale is None:
        levels = rng.normal(0, plan.variances.between**0.5, (2, _POOL))
        noise = rng.normal(0, (plan.variances.within / rollouts) ** 0.5, (2, _POOL))
        moved = levels[0 if is_paired else 1] + plan.difference / plan.share * gains
        first, second = levels[0] + noise[0], moved + noise[1]
        return first, second + plan.difference - (second - first).mean()
    low, width = plan.scale[0], plan.scale[1] - plan.scale[0]
    mean = (plan.mean - low) / width
    chances = _chances(mean, plan.variances.between / width**2, rng)
    others = chances if is_paired else rng.permutation(chances)
    is_up = plan.difference > 0
    rooms = np.where(gains, 1 - others if is_up else others, 0.0)
    moved = others + (1 if is_up else -1) * _gains(rooms, abs(plan.difference) / width, gain)
    first, second = (rng.binomial(rollouts, np.clip(p, 0, 1)) / rollouts for p in (chances, moved))
    # Of so few the mean difference is off by some percent, and all comparisons with it.
    second += moved.mean() - chances.mean() - (second - first).mean()
    return low + width * first, low + width * second


def _chances(mean: float, variance: float, rng: np.random.Generator) -> FloatArray:
    """[_POOL] Beta distributed, with this mean and variance."""
    independent = mean * (1 - mean)
    if variance <= 1e-9 * independent:
        return np.full(_POOL, mean)
    total = max(independent / variance - 1, 1e-3)
    return rng.beta(mean * total, (1 - mean) * total, _POOL)


def _gains(rooms: FloatArray, difference: float, gain: Gain) -> FloatArray:
    """[n] what each prompt gains, of rooms [n], so that the mean is the difference; at most all."""
    if gain == "by room":
        return rooms * min(difference / max(float(rooms.mean()), 1e-12), 1.0)
    ordered = np.sort(rooms)
    # The mean of min(room, most), for most at each of the rooms.
    below = np.append(0.0, np.cumsum(ordered)[:-1])
    means = (below + ordered * np.arange(len(ordered), 0, -1)) / len(ordered)
    most = np.interp(difference, np.append(0.0, means), np.append(0.0, ordered))
    return np.minimum(rooms, most)


def _power(
    plan: Plan,
    rollouts: int,
    count: int,
    first: FloatArray,
    second: FloatArray,
    *,
    is_paired: bool,
) -> float:
    rng = np.random.default_rng((SEED, count))
    comparisons = int(np.clip(_DRAWS // count, *_COMPARISONS))
    drawn = rng.integers(0, _POOL, (count, comparisons))
    if is_paired:
        low, high = skewed_mean_interval((second - first)[drawn])
    else:
        others = rng.integers(0, _POOL, (count, comparisons))
        sides = [
            _with_interval(plan, rollouts, values) for values in (first[drawn], second[others])
        ]
        _, low, high = difference_of_estimates(*sides)
    return float(((low > 0) if plan.difference > 0 else (high < 0)).mean())


def _with_interval(
    plan: Plan, rollouts: int, means: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The means over prompts of means [prompts, comparisons], with the intervals that *Compare* has."""
    count = len(means)
    mean, error = means.mean(axis=0), means.std(axis=0, ddof=1) / count**0.5
    groups, values = np.full(len(mean), float(count)), np.full(len(mean), float(count * rollouts))
    return mean, *interval_of_means(mean, error, groups, values, plan.scale)
