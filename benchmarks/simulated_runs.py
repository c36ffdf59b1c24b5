"""Simulations of what is compared between runs: when they diverged, seeds, and prompts of two runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from benchmarks.simulated import Row, covers, false_alarms, found
from board.core.arrays import FloatArray
from board.core.metrics.divergence import Divergence, divergence
from board.core.metrics.intervals import difference_of_estimates, interval_of_means
from board.core.metrics.paired import false_discovery_rates, paired_difference
from board.core.metrics.planned import Plan, least_share, prompts_needed
from board.core.metrics.sample_size import Variances, share_of_gains
from board.core.metrics.seeds import (
    difference_of_runs,
    interquartile_interval,
    interquartile_mean,
    of_each_run,
    over_seeds,
    performance_profile,
    profile_interval,
)
from board.core.metrics.skewed_means import LEAST_UNBOUNDED

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


def wandering_seeds(runs: int) -> Iterator[Row]:
    """How often two seeds of one configuration are beyond chance, whose expected means wander: true of
    the two runs, and nothing that their settings explain. And the same of groups of three seeds each.
    """
    steps = 100
    for correlation in (0.5, 0.9):
        for deviation in (0.25, 0.5, 1.0):
            rng = np.random.default_rng([17, int(10 * correlation), int(100 * deviation)])
            apart: list[bool] = []
            settings: list[bool] = []
            for _ in range(runs):
                # In errors of a step; each of the six runs wanders on its own.
                noise = rng.normal(0, np.sqrt(1 - correlation**2), (6, steps + 100))
                for at in range(1, steps + 100):
                    noise[:, at] += correlation * noise[:, at - 1]
                means = deviation * noise[:, 100:] + rng.normal(0, 1, (6, steps))
                error = np.full(steps, np.sqrt(2))
                of_two = divergence(
                    np.arange(steps), means[1] - means[0], error, np.full(steps, 1e6)
                )
                apart.append(of_two.step is not None)
                ends = means[:, -10:].mean(axis=1)
                _, low, high = difference_of_runs(ends[:3], ends[3:])
                settings.append(not low <= 0 <= high)
            setting = (
                f"means wander by {deviation:g} errors of a step, correlation {correlation:g}, "
                f"{steps} steps"
            )
            yield Row(_SEEDS_APART, setting, "no promise", 0, 1, float(np.mean(apart)), runs)
            yield false_alarms(f"{_SEEDS}: minus the first group, of seeds", setting, settings)


_SEEDS_APART: Final = "Compare: beyond chance from, of two seeds of one configuration"
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
        most = 1.0 if kind[0].isdigit() else np.inf
        for prompts in (6, 10, 20, 50, 200):
            rng = np.random.default_rng([13, len(kind), prompts])
            values, truth = _deltas(kind, (runs, prompts), rng)
            if prompts < LEAST_UNBOUNDED and most > 1:
                continue
            made = [paired_difference(row, most) for row in values]
            right = [
                one.low <= truth <= one.high
                for one in made
                if one.low is not None and one.high is not None
            ]
            yield covers(_PAIRED, f"{prompts} prompts, {kind}", right, is_conservative=True)
    for kind in ("normal", "1 rollout, 0 or 1", "8 rollouts, 0 or 1"):
        for prompts in (6, 10, 30):
            rng = np.random.default_rng([14, len(kind), prompts])
            alarms: list[bool] = []
            for _ in range(runs):
                p = [paired_difference(row).p for row in _deltas(kind, (10, prompts), rng)[0]]
                alarms.append(bool((false_discovery_rates(np.array(p, float)) <= 0.05).any()))
            yield false_alarms(_RATES, f"10 environments of {prompts} prompts, {kind}", alarms)


def rates_over_runs(runs: int) -> Iterator[Row]:
    """Discoveries among ten runs that are each compared with the same first one and do not differ."""
    for rollouts in (1, 8):
        for prompts in (6, 30, 100):
            rng = np.random.default_rng([18, rollouts, prompts])
            alarms: list[bool] = []
            for _ in range(runs):
                rates = rng.binomial(rollouts, rng.beta(1, 1, prompts), (11, prompts)) / rollouts
                p = np.array([paired_difference(other - rates[0]).p for other in rates[1:]], float)
                alarms.append(bool((false_discovery_rates(p) <= 0.05).any()))
            setting = f"10 runs against one, {prompts} prompts, {rollouts} rollouts, 0 or 1"
            yield false_alarms("Compare: rate over runs", setting, alarms)


def planned_by_a_log(runs: int) -> Iterator[Row]:
    """The power of as many prompts as `sample-size` names, by a share of gains that a log gives."""
    difference, variances = 0.1, Variances(0.05, 0.2)
    for prompts in (50, 200):
        for share in (0.3, 1.0):
            rng = np.random.default_rng([19, prompts, int(10 * share)])
            finds: list[bool] = []
            for _ in range(runs):
                estimate = share_of_gains(_gains(prompts, difference, share, rng), 2 * 0.2 / 8)
                if estimate is not None:
                    plan = Plan(variances, difference, max(estimate, 0.02), 0.5, (0.0, 1.0))
                    of_share = max(least_share(0.5, (0.0, 1.0), difference), plan.share)
                    plan = replace(plan, share=of_share)
                    count = prompts_needed(plan, 8, is_paired=True).count
                    made = paired_difference(_gains(count, difference, share, rng), 1.0)
                    finds.append(made.low is not None and made.low > 0)
            setting = f"{prompts} prompts in both halves of the log, {share:.0%} of them gain"
            shown = "sample-size, share of prompts by the log"
            yield Row(shown, setting, "no promise", 0, 1, float(np.mean(finds)), len(finds))


def _gains(count: int, difference: float, share: float, rng: np.random.Generator) -> FloatArray:
    """Of prompts with chances Beta(2, 2), of 8 rollouts each, what they gain."""
    chance, gains = rng.beta(2, 2, count), rng.random(count) < share
    better = np.clip(chance + 2 * difference / share * (1 - chance) * gains, 0, 1)
    return (rng.binomial(8, better) - rng.binomial(8, chance)) / 8


def planned_differences(runs: int) -> Iterator[Row]:
    """The power of a comparison of as many prompts as `sample-size` names: all prompts gain, or some."""
    for beta in ((2.0, 2.0), (0.4, 0.4), (1.0, 9.0)):
        mean = beta[0] / sum(beta)
        between = mean * (1 - mean) / (sum(beta) + 1)
        variances = Variances(between, mean * (1 - mean) - between)
        for rollouts, difference in ((1, 0.05), (1, 0.1), (8, 0.05), (8, 0.1)):
            for share in (1.0, 0.5, 2 * difference):
                plan = Plan(variances, difference, share, mean, (0.0, 1.0))
                count = prompts_needed(plan, rollouts, is_paired=True).count
                rng = np.random.default_rng([15, int(beta[0]), rollouts, int(100 * share)])
                finds: list[bool] = []
                for _ in range(runs):
                    chance, gains = rng.beta(*beta, count), rng.random(count) < share
                    better = chance + difference / share / (1 - mean) * (1 - chance) * gains
                    deltas = rng.binomial(rollouts, np.clip(better, 0, 1)) - rng.binomial(
                        rollouts, chance
                    )
                    made = paired_difference(deltas / rollouts, 1.0)
                    finds.append(made.low is not None and made.low > 0)
                setting = (
                    f"chances Beta({beta[0]:g}, {beta[1]:g}), {rollouts} rollouts, difference "
                    f"{difference:g}, {share:.0%} of prompts gain: {count} prompts"
                )
                yield found("sample-size, same prompts", setting, finds, 0.77, 0.86)
            plan = Plan(variances, difference, 1.0, mean, (0.0, 1.0))
            count = prompts_needed(plan, rollouts, is_paired=False).count
            rng = np.random.default_rng([16, int(beta[0]), rollouts, int(100 * difference)])
            finds = []
            for _ in range(runs):
                chances = rng.beta(*beta, (2, count))
                chances[1] += difference / (1 - mean) * (1 - chances[1])
                sides = [_estimate(rng.binomial(rollouts, p) / rollouts, rollouts) for p in chances]
                finds.append(bool(difference_of_estimates(*sides)[1][0] > 0))
            setting = (
                f"chances Beta({beta[0]:g}, {beta[1]:g}), {rollouts} rollouts, difference "
                f"{difference:g}: {count} prompts"
            )
            yield found("sample-size, other prompts", setting, finds, 0.77, 0.86)


def _estimate(means: FloatArray, rollouts: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The mean of solve rates of prompts with its interval, as *Compare: ends* has it."""
    count, mean = len(means), np.array([means.mean()])
    error, many = np.array([means.std(ddof=1) / np.sqrt(count)]), np.array([float(count)])
    return mean, *interval_of_means(mean, error, many, rollouts * many, (0.0, 1.0))
