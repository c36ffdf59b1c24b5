"""Simulations whose distributions and parameters no method was tuned on.

The cautions of the methods (of correlation between steps, of skewness) were chosen on the other
simulations. Here are other families, with parameters drawn at random, so that the table of
docs/statistics.md says something of data that nobody has looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from benchmarks.simulated import Row, covers, false_alarms
from board.core.arrays import FloatArray
from board.core.groups.environments import EnvCurves, hidden
from board.core.metrics.autocorrelation import reach_of_mean
from board.core.metrics.paired import paired_difference
from board.core.metrics.recent import recent
from board.core.metrics.skewed_means import LEAST_UNBOUNDED

_SETS: Final = 6
"""Of parameters for each family."""
_BURN: Final = 300
_RANDOM: Final = 20261127


def _series(family: str, rng: np.random.Generator) -> tuple[str, Callable[[int, int], FloatArray]]:
    """A family with parameters drawn at random: their names, and what draws [curves, steps] of it."""
    innovations = {
        "normal": lambda shape: rng.normal(size=shape),
        "t with 4 degrees": lambda shape: rng.standard_t(4, shape),
        "exponential": lambda shape: rng.exponential(size=shape) - 1,
    }
    kind = str(rng.choice([*innovations]))
    draw = innovations[kind]
    if family == "moving average":
        weights = rng.uniform(0, 1, int(rng.integers(1, 7)))

        def values(curves: int, steps: int) -> FloatArray:
            noise = draw((curves, steps + len(weights)))
            total = noise[:, len(weights) :].copy()
            for lag, weight in enumerate(weights, 1):
                total += weight * noise[:, len(weights) - lag : -lag]
            return total

        return f"moving average of {len(weights) + 1} steps, {kind}", values
    if family == "autoregressive, order 2":
        first = rng.uniform(0.1, 1.1)
        second = rng.uniform(-0.4, 0.95 - first)

        def values(curves: int, steps: int) -> FloatArray:
            noise = draw((curves, steps + _BURN))
            for at in range(2, steps + _BURN):
                noise[:, at] += first * noise[:, at - 1] + second * noise[:, at - 2]
            return noise[:, _BURN:]

        return f"autoregressive {first:.2f}, {second:.2f}, {kind}", values
    share, memory = rng.uniform(0.1, 0.9), rng.uniform(0.5, 0.95)

    def values(curves: int, steps: int) -> FloatArray:
        level = rng.normal(size=(curves, steps + _BURN))
        for at in range(1, steps + _BURN):
            level[:, at] = memory * level[:, at - 1] + np.sqrt(1 - memory**2) * level[:, at]
        return np.sqrt(share) * level[:, _BURN:] + np.sqrt(1 - share) * draw((curves, steps))

    return f"{share:.0%} of the variance wanders by {memory:.2f}, the rest {kind}", values


_FAMILIES: Final = ("moving average", "autoregressive, order 2", "a level under noise")


def fresh_series(runs: int) -> Iterator[Row]:
    """What depends on how means wander: tiles, the banner of environments, ends of the trainer's."""
    for place, family in enumerate(_FAMILIES):
        for number in range(_SETS):
            rng = np.random.default_rng((_RANDOM, place, number))
            words, draw = _series(family, rng)
            steps, environments = int(rng.integers(20, 200)), int(rng.integers(3, 16))
            setting, at = f"{words}; {steps} steps", np.arange(steps)
            curves = draw(2 * runs, steps)
            alarms = [not recent(at, curve, steps - 1).is_noise for curve in curves]
            yield false_alarms("Overview: change of a tile, fresh families", setting, alarms)
            right: list[bool] = []
            for curve in draw(2 * runs, steps):
                reach = reach_of_mean(curve, 10, 10)
                assert reach is not None, "there are two stretches"
                right.append(abs(curve[-10:].mean()) <= reach)
            ends = "Compare: ends of the trainer's metrics, fresh families"
            yield covers(ends, setting, right, is_conservative=True)
            alarms = []
            for _ in range(runs):
                means = draw(environments, steps)
                names = [str(i) for i in range(environments)]
                every = EnvCurves(at, names, means, np.full(means.shape, 8), means.mean(axis=0))
                alarms.append(bool(hidden(every)))
            banner = "Overview: environments that the mean hides, fresh families"
            yield false_alarms(banner, f"{environments} environments; {setting}", alarms)


def _skewed(
    family: str, rng: np.random.Generator
) -> tuple[str, Callable[[int], FloatArray], float]:
    """A family with parameters drawn at random, what draws n of it, and its mean."""
    if family == "gamma":
        shape = float(rng.uniform(0.3, 4))
        return f"gamma, shape {shape:.2g}", lambda n: rng.gamma(shape, 1, n), shape
    if family == "Weibull":
        shape = float(rng.uniform(0.6, 2))
        mean = float(np.mean(np.random.default_rng(0).weibull(shape, 4_000_000)))
        return f"Weibull, shape {shape:.2g}", lambda n: rng.weibull(shape, n), mean
    if family == "shifted lognormal, either sign":
        sigma, sign = float(rng.uniform(0.2, 1.1)), float(rng.choice([-1, 1]))
        words = f"{sign:+.0f} times lognormal, sigma {sigma:.2g}"
        return (
            words,
            lambda n: sign * rng.lognormal(0, sigma, n),
            sign * float(np.exp(sigma**2 / 2)),
        )
    if family == "two kinds of prompts":
        share, gain = float(rng.uniform(0.1, 0.5)), float(rng.uniform(1, 6))
        draw = lambda n: rng.normal(0, 1, n) + gain * (rng.random(n) < share)  # noqa: E731
        return f"{share:.0%} of prompts gain {gain:.1f} deviations", draw, share * gain
    rollouts, spread = int(rng.integers(1, 17)), float(rng.uniform(0.2, 3))
    better = float(rng.uniform(0, 0.5))

    def rates(n: int) -> FloatArray:
        chance = rng.beta(spread, 2 * spread, n)
        raised = chance + better * (1 - chance)
        return (rng.binomial(rollouts, raised) - rng.binomial(rollouts, chance)) / rollouts

    return (
        f"solve rates of {rollouts} rollouts, up by {better:.0%} of the rest",
        rates,
        better * 2 / 3,
    )


def rare_values(runs: int) -> Iterator[Row]:
    """Values that few prompts have, and that hold much of the mean: what no interval can do."""
    shown = "Compare: B - A on shared prompts, a rare value holds much of the mean"
    for share, size in ((0.02, 10.0), (0.005, 20.0)):
        for prompts in (LEAST_UNBOUNDED, 50, 200, 1000):
            rng = np.random.default_rng((_RANDOM, 40, prompts, int(size)))
            right: list[bool] = []
            for _ in range(2 * runs):
                has, is_rare = rng.random((2, prompts))
                values = (has < 0.4) * 1.0 + size * (is_rare < share)
                one = paired_difference(values)
                if one.low is not None and one.high is not None:
                    right.append(one.low <= 0.4 + size * share <= one.high)
            setting = f"{prompts} prompts, 40 % gain 1, {share:.1%} gain {size:g} more"
            yield Row(shown, setting, "no promise", 0, 1, float(np.mean(right)), len(right))


def fresh_prompts(runs: int) -> Iterator[Row]:
    """The paired difference of prompts of which few gain, or that gain in other ways than was tried."""
    families = (
        *("gamma", "Weibull", "shifted lognormal, either sign"),
        *("two kinds of prompts", "solve rates"),
    )
    for place, family in enumerate(families):
        for number in range(2 * _SETS):
            rng = np.random.default_rng((_RANDOM, 10 + place, number))
            words, draw, truth = _skewed(family, rng)
            most = 1.0 if family == "solve rates" else np.inf
            least = 6 if most == 1 else LEAST_UNBOUNDED
            prompts = int(np.exp(rng.uniform(np.log(least), np.log(150))))
            made = [paired_difference(draw(prompts), most) for _ in range(2 * runs)]
            right = [
                one.low <= truth <= one.high
                for one in made
                if one.low is not None and one.high is not None
            ]
            shown = "Compare: B - A on shared prompts, fresh families"
            yield covers(shown, f"{prompts} prompts, {words}", right, is_conservative=True)
