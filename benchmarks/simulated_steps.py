"""Simulations of what is shown of steps: bands, shares, pass@k, tasks, labels, and changes over steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from benchmarks.simulated import Row, covers, false_alarms, found
from board.core.arrays import FloatArray
from board.core.groups.environments import EnvCurves, hidden
from board.core.groups.solve_rates import pass_at_k_by_step
from board.core.groups.statistics import Groups
from board.core.labels.shares import Stratum, agreement, label_shares
from board.core.metrics.autocorrelation import reach_of_mean
from board.core.metrics.intervals import (
    Estimated,
    difference_of_estimates,
    independent_share,
    interval_of_means,
    share_interval,
)
from board.core.metrics.recent import recent
from board.core.metrics.skewed_means import LEAST_UNBOUNDED, interval_by_moments
from board.core.metrics.step_means import interval_of_step_means

_SIZES: Final = {
    "2 groups of 8": [8] * 2,
    "4 groups of 8": [8] * 4,
    "8 groups of 8": [8] * 8,
    "32 groups of 8": [8] * 32,
    "4 groups of 64": [64] * 4,
    "8 rollouts without groups": [1] * 8,
    "groups of 1, 1, 2, 2, 4, 8, 16, 16": [1, 1, 2, 2, 4, 8, 16, 16],
}
_STEPS: Final = 50
_LEAST_GROUPS: Final = 4
"""Of fewer nothing is promised of rewards of any value."""


def _interval(values: FloatArray, sizes: list[int]) -> tuple[FloatArray, FloatArray]:
    """Of rollouts [steps, rollouts], one group after the other, as query.steps and charts have it."""
    starts, n = np.cumsum([0, *sizes[:-1]]), float(sum(sizes))
    even = n**2 / float((np.array(sizes) ** 2).sum())
    mean = values.mean(axis=1)
    sums = np.add.reduceat(values - mean[:, None], starts, axis=1)
    error = np.sqrt(even / (even - 1) * (sums**2).sum(axis=1)) / n
    steps = len(values)
    of_steps = {
        "mean": mean,
        "se": error,
        "std": values.std(axis=1, ddof=1),
        "even": np.full(steps, even),
        "n": np.full(steps, n),
        "q00": values.min(axis=1),
        "q100": values.max(axis=1),
    }
    return interval_of_step_means(of_steps.__getitem__, is_share=False)


def _rewards(kind: str, sizes: list[int], rng: np.random.Generator) -> tuple[FloatArray, float]:
    """Rewards of _STEPS steps [steps, rollouts], whose groups have levels, and their expected value."""
    shape = (_STEPS, sum(sizes))

    def levels(draw: Callable[[tuple[int, int]], FloatArray]) -> FloatArray:
        return draw((_STEPS, len(sizes))).repeat(sizes, axis=1)

    if kind == "normal":
        return levels(lambda s: rng.normal(size=s)) + rng.normal(size=shape), 0.0
    if kind == "heavy tails (t3)":
        return levels(lambda s: rng.normal(size=s)) + rng.standard_t(3, shape), 0.0
    if kind == "1 % outliers of -20":
        noise = rng.normal(size=shape) - 20 * (rng.random(shape) < 0.01)
        return levels(lambda s: rng.normal(size=s)) + noise, -0.2
    if kind == "lengths (gamma)":
        return levels(lambda s: rng.gamma(2, 1, s)) * rng.gamma(4, 0.25, shape), 2.0
    if kind == "three values, 0, 0.5 and 1":
        chance = levels(lambda s: rng.beta(1, 1, s))
        return rng.binomial(2, chance) / 2, 0.5
    sigma = float(kind.split()[-1].rstrip(")"))
    spread = levels(lambda s: rng.lognormal(0, sigma, s))
    return spread * rng.lognormal(0, 0.5, shape), float(np.exp(sigma**2 / 2 + 0.125))


_KINDS: Final = (
    *("normal", "heavy tails (t3)", "1 % outliers of -20", "lengths (gamma)"),
    *(
        "lengths (lognormal, sigma 0.5)",
        "lengths (lognormal, sigma 1)",
        "lengths (lognormal, sigma 2)",
        "three values, 0, 0.5 and 1",
    ),
)


def bands(runs: int) -> Iterator[Row]:
    """Coverage of the band of a mean, of rewards of any value and of two, in groups that are alike."""
    shown = "Overview and exports: 95 % of the mean"
    for name, sizes in _SIZES.items():
        for kind in _KINDS:
            rng = np.random.default_rng([20, len(sizes), sum(sizes), len(kind)])
            right: list[bool] = []
            times = max(runs // 10, 4)
            for _ in range(times):
                values, truth = _rewards(kind, sizes, rng)
                low, high = _interval(values, sizes)
                right += [*((low <= truth) & (high >= truth))[np.isfinite(low)]]
            if len(sizes) >= _LEAST_GROUPS:
                setting, part = f"{name}, {kind}, {_STEPS} steps", len(right) / times / _STEPS
                if part > 0.5:
                    yield covers(shown, setting, right, is_conservative=True)
                elif right:
                    mostly, setting = f"{shown}, mostly without one", f"{setting}: {part:.0%} shown"
                    share = float(np.mean(right))
                    yield Row(mostly, setting, "no promise", 0, 1, share, len(right))
        for share, alike in ((0.005, 1.0), (0.02, 1.0), (0.1, 1.0), (0.5, 0.2), (0.5, 1000.0)):
            rng = np.random.default_rng([20, len(sizes), int(1000 * share), int(alike)])
            right = []
            for _ in range(max(runs // 25, 3)):
                ends = share * alike, (1 - share) * alike
                chance = rng.beta(*ends, (_STEPS, len(sizes))).repeat(sizes, axis=1)
                values = (rng.random(chance.shape) < chance).astype(np.float64)
                low, high = _interval(values, sizes)
                shown_at = np.isfinite(low)
                right += [*((low <= share) & (high >= share))[shown_at]]
            how = "alike" if alike < 10 else "independent"
            setting = f"{name}, 0 or 1, {share:.1%} right, {how} within groups, {_STEPS} steps"
            yield covers(shown, setting, right, is_conservative=True)


def single_shares(runs: int) -> Iterator[Row]:
    """Coverage of single shares: an environment's mean, a task, labels, and pass@k of a step."""
    for groups, size in ((4, 8), (8, 8), (40, 8), (4, 64)):
        for share in (0.1, 0.5):
            rng = np.random.default_rng([21, groups, size, int(10 * share)])
            right: list[bool] = []
            for _ in range(4 * runs):
                chance = rng.beta(share, 1 - share, (1, groups)).repeat(size, axis=1)
                values = (rng.random(chance.shape) < chance).astype(np.float64)
                _, low, high = _of_all(values[0], groups)
                right.append(bool(low[0] <= share <= high[0]))
            yield covers(
                "Overview: mean of an environment; Compare: ends",
                f"{groups} groups of {size}, 0 or 1, {share:.0%} right, alike within groups",
                right,
                is_conservative=True,
            )
    for count in (4, 8, 20, 100):
        for share in (0.02, 0.1, 0.5):
            rng = np.random.default_rng([22, count, int(100 * share)])
            solved = rng.binomial(count, share, 4 * runs) / count
            low, high = share_interval(
                solved, np.full(4 * runs, np.nan), np.full(4 * runs, float(count))
            )
            assert independent_share(float(solved[0]), count) == (low[0], high[0])
            right = [*((low <= share) & (share <= high))]
            setting = f"{count} rollouts, {share:.0%}"
            yield covers(
                "Tasks, label shares, agreement: share", setting, right, is_conservative=True
            )
    for k in (1, 4, 8):
        for groups in (4, 32):
            rng = np.random.default_rng([23, k, groups])
            truth = float(np.mean(1 - (1 - rng.beta(0.5, 1.5, 200_000)) ** k))
            solved = rng.binomial(8, rng.beta(0.5, 1.5, (4 * runs, groups))).astype(np.float64)
            tries = np.full(solved.size, 8)
            steps = np.arange(len(solved)).repeat(groups)
            none = np.zeros(solved.size)
            codes = none.astype(np.int64)
            every = Groups(
                steps, codes, tries, tries, solved.reshape(-1), tries, codes.astype(np.int8), none
            )
            of_steps = pass_at_k_by_step(every, k)
            right = [*((of_steps.low <= truth) & (truth <= of_steps.high))]
            yield covers(
                "Groups: pass@k", f"pass@{k}, {groups} groups of 8", right, is_conservative=True
            )


def _of_all(values: FloatArray, groups: int) -> Estimated:
    """The mean of 0 and 1 [rollouts], of groups of one size, one after the other, with its interval."""
    sums = (values - values.mean()).reshape(groups, -1).sum(axis=1)
    error = np.sqrt(groups / (groups - 1) * (sums**2).sum()) / len(values)
    mean, error, many, count = (
        np.array([float(one)]) for one in (values.mean(), error, groups, len(values))
    )
    return mean, *interval_of_means(mean, error, many, count, (0.0, 1.0))


def differences_of_ends(runs: int) -> Iterator[Row]:
    """Coverage of the difference of two runs' shares, of other prompts."""
    for groups in (4, 8, 40):
        for share, gain in ((0.02, 0.0), (0.1, 0.2), (0.5, 0.0)):
            rng = np.random.default_rng([30, groups, int(100 * share)])
            right: list[bool] = []
            for _ in range(4 * runs):
                chance = rng.beta(share, 1 - share, (2, groups)).repeat(8, axis=1)
                chance[1] += gain * (1 - chance[1])
                sides = [_of_all((rng.random(8 * groups) < p) * 1.0, groups) for p in chance]
                _, low, high = difference_of_estimates(*sides)
                right.append(bool(low[0] <= gain * (1 - share) <= high[0]))
            setting = f"{groups} groups of 8, {share:.0%} right, {gain:.0%} of the rest more in B"
            yield covers("Compare: difference of ends", setting, right, is_conservative=True)


def means_of_tasks(runs: int) -> Iterator[Row]:
    """Coverage of the mean of a task's rewards of any value, from the fewest that have an interval on."""
    for count in (LEAST_UNBOUNDED, 64):
        for kind in (*("normal", "exponential", "0, 0.5 and 1"), *("sigma 1", "sigma 2")):
            rng = np.random.default_rng([31, count, len(kind), int(kind == "sigma 2")])
            shape, truth = (8 * runs, count), 0.0
            if kind == "normal":
                values = rng.normal(size=shape)
            elif kind == "exponential":
                values, truth = rng.exponential(size=shape), 1.0
            elif kind == "0, 0.5 and 1":
                values, truth = rng.choice([0, 0.5, 1], p=[0.6, 0.1, 0.3], size=shape), 0.35
            else:
                sigma = float(kind.split()[1])
                values, truth = rng.lognormal(0, sigma, shape), float(np.exp(sigma**2 / 2))
            mean, deviation = values.mean(axis=1), values.std(axis=1, ddof=1)
            third = ((values - mean[:, None]) ** 3).mean(axis=1) / values.std(axis=1) ** 3
            skewness = third * np.sqrt(count * (count - 1)) / (count - 2)
            many = np.full(len(mean), float(count))
            low, high = interval_by_moments(mean, deviation, skewness, many)
            right = [*((low <= truth) & (truth <= high))]
            setting = f"{count} rollouts, {kind.replace('sigma', 'lognormal, sigma')}"
            yield covers("Tasks: mean of other rewards", setting, right, is_conservative=True)


def _wandering(curves: int, steps: int, correlation: float, rng: np.random.Generator) -> FloatArray:
    values = rng.normal(0, 1, (curves, steps))
    values[:, 0] /= np.sqrt(1 - correlation**2)
    for i in range(1, steps):
        values[:, i] += correlation * values[:, i - 1]
    return values


def changes(runs: int) -> Iterator[Row]:
    """False changes of tiles and of the banner of environments, where means wander over the steps."""
    tile, banner = "Overview: change of a tile", "Overview: environments that the mean hides"
    for steps in (20, 60, 200):
        for correlation in (0.0, 0.3, 0.6, 0.9):
            rng = np.random.default_rng([24, steps, int(10 * correlation)])
            curves, at = _wandering(2 * runs, steps, correlation, rng), np.arange(steps)
            alarms = [not recent(at, curve, steps - 1).is_noise for curve in curves]
            yield false_alarms(tile, f"{steps} steps, correlation {correlation:g}", alarms)
    rng = np.random.default_rng(25)
    jumps = _wandering(runs, 60, 0.0, rng) + 2.0 * (np.arange(60) >= 50)
    finds = [not recent(np.arange(60), curve, 59).is_noise for curve in jumps]
    yield found(tile, "60 steps, a jump by 2 standard deviations of a step", finds)
    for environments in (2, 10, 20):
        for steps in (10, 20, 60):
            for correlation in (0.0, 0.5, 0.9):
                rng = np.random.default_rng([26, environments, steps, int(10 * correlation)])
                alarms = []
                for _ in range(runs // 2):
                    means = _wandering(environments, steps, correlation, rng)
                    counts, names = np.full(means.shape, 8), [str(i) for i in range(environments)]
                    drawn = EnvCurves(np.arange(steps), names, means, counts, means.mean(axis=0))
                    alarms.append(bool(hidden(drawn)))
                setting = f"{environments} environments, {steps} steps, correlation {correlation:g}"
                yield false_alarms(banner, setting, alarms)


def labels(runs: int) -> Iterator[Row]:
    """Coverage of the shares of labels in a stratified sample, half labelled too, and of kappa."""
    for strata, each, share in ((4, 5, 0.1), (10, 4, 0.3), (20, 8, 0.05)):
        for labelled in (1.0, 0.5):
            rng = np.random.default_rng([27, strata, int(100 * share), int(10 * labelled)])
            right: list[bool] = []
            for _ in range(4 * runs):
                sizes = rng.integers(50, 2000, strata)
                # Each stratum is a population of its own, of which a sample is drawn.
                has = [
                    int(rng.binomial(n, min(rng.beta(2 * share, 2 - 2 * share), 1))) for n in sizes
                ]
                counts = (
                    rng.binomial(each, labelled, strata) if labelled < 1 else np.full(strata, each)
                )
                drawn = [
                    Stratum(int(n), ["x"] * k + ["y"] * (int(m) - k))
                    for n, h, m in zip(sizes, has, counts, strict=True)
                    for k in [int(rng.hypergeometric(h, n - h, m)) if m else 0]
                ]
                used = [place for place, m in enumerate(counts) if m]
                truth = sum(has[place] for place in used) / sum(sizes[place] for place in used)
                of_x = next(one for one in label_shares(drawn, ["x"]) if one.label == "x")
                right.append(bool(of_x.low <= truth <= of_x.high))
            setting = f"{strata} strata of {each}, {labelled:.0%} labelled, share {share:.0%}"
            yield covers("Labels: share of a label", setting, right, is_conservative=True)
    for count in (10, 20, 50):
        for kappa, common in ((0.6, 0.5), (0.6, 0.8), (0.0, 0.5), (0.9, 0.7)):
            rng = np.random.default_rng([28, count, int(10 * kappa), int(10 * common)])
            right = []
            for _ in range(4 * runs):
                first = rng.random(count) < common
                second = np.where(rng.random(count) < kappa, first, rng.random(count) < common)
                pairs = [*zip(first.astype(str).tolist(), second.astype(str).tolist(), strict=True)]
                of_pairs = agreement("a", "b", pairs)
                if of_pairs.kappa_low == of_pairs.kappa_low:
                    right.append(of_pairs.kappa_low <= kappa <= of_pairs.kappa_high)
            setting = f"{count} rollouts, kappa {kappa:g}, one label in {common:.0%}"
            yield covers("Labels: kappa", setting, right, is_conservative=True)


def ends(runs: int) -> Iterator[Row]:
    """Coverage of the mean over the last ten steps, by the steps alone, where they wander."""
    for steps in (20, 60):
        for correlation in (0.0, 0.5, 0.9):
            rng = np.random.default_rng([29, steps, int(10 * correlation)])
            right: list[bool] = []
            for curve in _wandering(2 * runs, steps, correlation, rng):
                reach = reach_of_mean(curve, 10, 10)
                assert reach is not None, "there are two stretches"
                right.append(abs(curve[-10:].mean()) <= reach)
            setting = f"{steps} steps, correlation {correlation:g}"
            yield covers(
                "Compare: ends of the trainer's metrics", setting, right, is_conservative=True
            )
