"""Simulations of what is compared between runs: when they diverged, seeds, and prompts of two runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks.simulated import Row, covers, false_alarms, found
from board.core.arrays import FloatArray
from board.core.metrics.divergence import Divergence, divergence
from board.core.metrics.seeds import (
    difference_of_runs,
    interquartile_interval,
    interquartile_mean,
    of_each_run,
    over_seeds,
    performance_profile,
    profile_interval,
)

_DIVERGED: Final = "Compare: beyond chance from"
_SINCE: Final = "Compare: since"
_METRICS: Final = 10


def _of_groups(
    kind: str, groups: int, rng: np.random.Generator, *, paired: bool, steps: int = 60
) -> Divergence:
    """Two runs that do not differ. kind: of rewards."""

    def chances() -> FloatArray:
        if kind == "lognormal":
            return rng.lognormal(0, 1, (steps, groups))
        rare = (0.1, 1.9) if kind == "right 1 in 20" else (1.0, 1.0)
        return rng.beta(*rare, (steps, groups))

    def means(expected: FloatArray) -> FloatArray:
        if kind == "lognormal":
            return expected * rng.lognormal(0, 1, expected.shape)
        return rng.binomial(8, expected) / 8

    first = chances()
    a, b = means(first), means(first if paired else chances())
    if paired:
        error = (b - a).std(axis=1, ddof=1) / np.sqrt(groups)
        freedom = np.full(steps, groups - 1.0)
    else:
        variances = np.stack([x.var(axis=1, ddof=1) / groups for x in (a, b)])
        error = np.sqrt(variances.sum(axis=0))
        with np.errstate(invalid="ignore", divide="ignore"):
            freedom = (groups - 1) * error**4 / (variances**2).sum(axis=0)
    return divergence(np.arange(steps), (b - a).mean(axis=1), error, freedom)


def divergences(runs: int) -> Iterator[Row]:
    """False alarms of two runs that do not differ; where a change is found, and its interval of steps."""
    for paired in (False, True):
        for groups in (3, 8):
            for kind in ("right 1 in 20", "right 1 in 2", "lognormal"):
                rng = np.random.default_rng([10, groups, len(kind), paired])
                alarms = [
                    _of_groups(kind, groups, rng, paired=paired).step is not None
                    for _ in range(runs)
                ]
                prompts = "the same prompts" if paired else "other prompts"
                yield false_alarms(_DIVERGED, f"{groups} groups a step, {kind}, {prompts}", alarms)
    for steps, at in ((100, 30), (200, 100)):
        for effect in (0.5, 1, 2):
            rng = np.random.default_rng([11, steps, int(10 * effect)])
            made = [
                divergence(
                    np.arange(steps),
                    rng.normal(0, 1, steps) + effect * (np.arange(steps) >= at),
                    np.ones(steps),
                    np.full(steps, 1e6),
                    metrics=_METRICS,
                )
                for _ in range(runs)
            ]
            setting = f"a change by {effect:g} errors of a step at {at} of {steps}"
            if effect >= 1:
                yield found(
                    _DIVERGED, f"{setting}, {_METRICS} metrics", [d.step is not None for d in made]
                )
            dated = [d for d in made if d.earliest is not None and d.latest is not None]
            right = [d.earliest <= at <= d.latest for d in dated]
            if right:
                yield covers(_SINCE, f"{setting}, where it is found", right, is_conservative=True)


_SEEDS: Final = "Compare, runs grouped by settings"


def seeds(runs: int) -> Iterator[Row]:
    """Coverage over seeds that are better or worse on all prompts. tau: standard deviation of a seed's
    effect on the solve rate of 100 prompts with 8 rollouts each.
    """
    for count in (3, 5, 10):
        for tau in (0.0, 0.02, 0.05):
            rng = np.random.default_rng([12, count, int(100 * tau)])
            covered: dict[str, list[bool]] = {"iqm": [], "profile": [], "gap": [], "mean": []}
            thresholds = np.array([0.3, 0.6, 0.97])
            for _ in range(runs):
                chance = np.clip(rng.beta(2, 2, 100), 0.1, 0.9)
                moved = np.clip(chance + rng.normal(0, tau, (400 + 2 * count, 1)), 0, 1)
                drawn = rng.binomial(8, moved) / 8
                scores, others, many = np.split(drawn, [count, 2 * count])
                truth = interquartile_mean(many)
                low, high = interquartile_interval(scores)
                covered["iqm"].append(low <= truth <= high)
                bounds = profile_interval(scores, thresholds)
                shares = performance_profile(many, thresholds)
                covered["profile"] += [*((bounds[0] <= shares) & (shares <= bounds[1]))]
                _, low, high = difference_of_runs(of_each_run(scores), of_each_run(others))
                covered["gap"].append(low <= 0 <= high)
                _, low, high = over_seeds(scores.mean(axis=1)[:, None])
                covered["mean"].append(low[0] <= many.mean() <= high[0])
            setting = f"{count} seeds, tau {tau:g}"
            yield covers(f"{_SEEDS}: interquartile mean", setting, covered["iqm"])
            yield covers(f"{_SEEDS}: profile", setting, covered["profile"], is_conservative=True)
            yield covers(f"{_SEEDS}: minus the first group", setting, covered["gap"])
            yield covers(f"{_SEEDS}: band over runs", setting, covered["mean"])
