"""Simulations of what is compared between runs: when they diverged, seeds, and prompts of two runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.simulated import Row, covers, false_alarms, found
from board.core.arrays import FloatArray
from board.core.metrics.divergence import Divergence, divergence
from board.core.metrics.paired import false_discovery_rates, paired_difference
from board.core.metrics.sample_size import Variances, prompts_needed
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
            right = [
                d.earliest <= at <= d.latest
                for d in made
                if d.earliest is not None and d.latest is not None
            ]
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


_PAIRED: Final = "Compare: B - A on shared prompts"
_RATES: Final = "Compare: rate over environments"


def _deltas(
    kind: str, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Differences of prompts [runs, prompts], and their expected value."""
    if kind == "normal":
        return rng.normal(0, 1, shape), 0.0
    if kind == "heavy tails (t3)":
        return rng.standard_t(3, shape), 0.0
    if kind == "skewed (exponential)":
        return rng.exponential(1, shape), 1.0
    if kind == "skewed (lognormal)":
        return rng.lognormal(0, 1, shape), float(np.exp(0.5))
    if kind == "1 prompt in 10 gains":
        chance, gains = rng.beta(1, 1, shape), rng.random(shape) < 0.1
        better = np.where(gains, chance + 0.5 * (1 - chance), chance)
        return (rng.binomial(8, better) - rng.binomial(8, chance)) / 8, 0.1 * 0.25
    rollouts, chance = int(kind.split()[0]), rng.beta(1, 1, shape)
    return (rng.binomial(rollouts, chance) - rng.binomial(rollouts, chance)) / rollouts, 0.0


def prompts_of_two_runs(runs: int) -> Iterator[Row]:
    """Coverage of the paired difference; discoveries among ten equal environments."""
    kinds = (
        *("normal", "heavy tails (t3)", "skewed (exponential)", "skewed (lognormal)"),
        *("1 prompt in 10 gains", "1 rollout, 0 or 1", "8 rollouts, 0 or 1"),
    )
    for kind in kinds:
        for prompts in (6, 10, 20, 50, 200):
            rng = np.random.default_rng([13, len(kind), prompts])
            values, truth = _deltas(kind, (runs, prompts), rng)
            made = [paired_difference(row) for row in values]
            right = [
                one.low <= truth <= one.high
                for one in made
                if one.low is not None and one.high is not None
            ]
            row = covers(_PAIRED, f"{prompts} prompts, {kind}", right, is_conservative=True)
            # Nothing can be said of a tail that a sample does not have.
            yield replace(row, least=0.85) if "lognormal" in kind and prompts < 200 else row
    for kind in ("normal", "1 rollout, 0 or 1", "8 rollouts, 0 or 1"):
        for prompts in (6, 10, 30):
            rng = np.random.default_rng([14, len(kind), prompts])
            alarms: list[bool] = []
            for _ in range(runs):
                p = [paired_difference(row).p for row in _deltas(kind, (10, prompts), rng)[0]]
                alarms.append(bool((false_discovery_rates(np.array(p, float)) <= 0.05).any()))
            yield false_alarms(_RATES, f"10 environments of {prompts} prompts, {kind}", alarms)


def planned_differences(runs: int) -> Iterator[Row]:
    """The power of a comparison of as many prompts as `sample-size` names: all prompts gain, or some."""
    shown = "sample-size, same prompts"
    for beta in ((2.0, 2.0), (0.4, 0.4)):
        mean = beta[0] / sum(beta)
        between = mean * (1 - mean) / (sum(beta) + 1)
        variances = Variances(between, mean * (1 - mean) - between)
        for rollouts, difference in ((1, 0.05), (1, 0.1), (8, 0.05), (8, 0.1)):
            for share in (1.0, 0.5, 2 * difference):
                count = prompts_needed(
                    variances, difference, rollouts, is_paired=True, share=share, room=1 - mean
                )
                rng = np.random.default_rng([15, int(beta[0]), rollouts, int(100 * share)])
                finds: list[bool] = []
                for _ in range(runs):
                    chance, gains = rng.beta(*beta, count), rng.random(count) < share
                    better = chance + difference / share / (1 - mean) * (1 - chance) * gains
                    deltas = rng.binomial(rollouts, np.clip(better, 0, 1)) - rng.binomial(
                        rollouts, chance
                    )
                    made = paired_difference(deltas / rollouts)
                    finds.append(made.low is not None and made.low > 0)
                setting = (
                    f"chances Beta({beta[0]:g}, {beta[1]:g}), {rollouts} rollouts, difference "
                    f"{difference:g}, {share:.0%} of prompts gain: {count} prompts"
                )
                yield found(shown, setting, finds, 0.75)
