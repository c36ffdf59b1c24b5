"""Simulations of groups and strata of unequal sizes, of 2 to 64 rollouts, with rare and skewed values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks.simulated import Row, covers, false_alarms
from board.core.arrays import FloatArray, IntArray
from board.core.groups.contrasts import contrasts, sides, with_rates, within_difference
from board.core.labels.shares import Stratum, agreement, label_shares
from board.core.metrics.intervals import interval_of_means
from board.core.metrics.seeds import (
    difference_of_runs,
    interquartile_interval,
    interquartile_mean,
    of_each_run,
)

_SIZES: Final = (2, 4, 8, 16, 64)
_UNEVEN: Final = "groups of 2 to 64"


def _rewards(kind: str, size: int, rng: np.random.Generator) -> FloatArray:
    level = rng.normal()
    if kind == "lognormal":
        return rng.lognormal(0, 1, size) * np.exp(0.5 * level)
    if kind == "0, 0.5 or 1":
        return rng.choice([0, 0.5, 1], p=[0.7, 0.1, 0.2], size=size)
    return level + rng.standard_t(3, size)


def words(runs: int) -> Iterator[Row]:
    """Coverage of what a phrase goes with, in groups of unequal sizes."""
    for kind in ("lognormal", "0, 0.5 or 1", "of either sign, heavy tails"):
        for groups, said in ((30, 0.1), (200, 0.05)):
            rng = np.random.default_rng([50, len(kind), groups])
            right: list[bool] = []
            for _ in range(4 * runs):
                gaps, weights = list[float](), list[float]()
                for size in rng.choice(_SIZES, groups).tolist():
                    hit, rewards = rng.random(size) < said, _rewards(kind, size, rng)
                    if 0 < hit.sum() < size:
                        gaps.append(float(rewards[hit].mean() - rewards[~hit].mean()))
                        weights.append(hit.sum() * (size - hit.sum()) / size)
                of = within_difference(np.array(gaps), np.array(weights))
                if np.isfinite(of.low):
                    right.append(of.low <= 0 <= of.high)
            setting = f"{groups} {_UNEVEN}, {kind}, said by {said:.0%}"
            shown = "Words: reward with minus without"
            yield covers(shown, setting, right, is_conservative=True)


def winners(runs: int) -> Iterator[Row]:
    """Coverage of differences between winners and losers, and discoveries, in groups of unequal sizes."""
    for groups in (20, 100):
        for said in (0.005, 0.1, 0.5):
            rng = np.random.default_rng([51, groups, int(1000 * said)])
            right: list[bool] = []
            alarms: list[bool] = []
            for _ in range(runs):
                sizes = rng.choice(_SIZES, groups)
                codes, rewards = _wins(sizes, rng)
                chance = rng.beta(2 * said, 2 * (1 - said), groups).repeat(sizes)
                features = {
                    str(i): np.flatnonzero(rng.random(len(codes)) < chance) for i in range(40)
                }
                made = with_rates(contrasts(sides(codes, rewards), "words", features))
                right += [one.low <= 0 <= one.high for one in made]
                alarms.append(any(one.rate <= 0.05 for one in made))
            setting = f"{groups} {_UNEVEN}, said by {said:.1%}"
            yield covers(
                "Winners and losers: difference", setting, right, is_conservative=said < 0.1
            )
            yield false_alarms("Winners and losers: rate", f"phrases, {setting}", alarms)


def _wins(sizes: IntArray, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """Codes of groups and rewards of 0 or 1, of prompts that are mostly solved or mostly not."""
    codes = np.repeat(np.arange(len(sizes)), sizes)
    chance = rng.beta(0.5, 1.5, len(sizes)).repeat(sizes)
    return codes, (rng.random(len(codes)) < chance).astype(np.float64)


def environments(runs: int) -> Iterator[Row]:
    """Coverage of the mean of an environment whose groups are of unequal sizes, down to 0.5 % right."""
    for sizes in ([2, 4, 8, 16, 32, 64], [2] * 30 + [64]):
        for share in (0.005, 0.1, 0.97):
            rng = np.random.default_rng([52, len(sizes), int(1000 * share)])
            right: list[bool] = []
            starts, count = np.cumsum([0, *sizes[:-1]]), float(sum(sizes))
            even = count**2 / sum(size * size for size in sizes)
            for _ in range(4 * runs):
                chance = rng.beta(share, 1 - share, len(sizes)).repeat(sizes)
                values = (rng.random(len(chance)) < chance).astype(np.float64)
                sums = np.add.reduceat(values - values.mean(), starts)
                error = np.sqrt(even / (even - 1) * (sums**2).sum()) / count
                mean, of_mean, groups, many = (
                    np.array([float(x)]) for x in (values.mean(), error, even, count)
                )
                low, high = interval_of_means(mean, of_mean, groups, many, (0.0, 1.0))
                right.append(bool(low[0] <= share <= high[0]))
            setting = f"{len(sizes)} {_UNEVEN}, {share:.1%} right, alike within groups"
            shown = "Overview: mean of an environment; Compare: ends"
            yield covers(shown, setting, right, is_conservative=True)


def labels(runs: int) -> Iterator[Row]:
    """Coverage of shares in strata of 30 to 20,000 rollouts, and of kappa of three and of rare labels."""
    for strata, each, share in ((4, 10, 0.005), (4, 5, 0.5), (30, 2, 0.3), (10, 20, 0.02)):
        rng, right = np.random.default_rng([53, strata, each]), list[bool]()
        for _ in range(4 * runs):
            sizes = np.exp(rng.uniform(np.log(30), np.log(20_000), strata)).astype(int).tolist()
            has = [int(rng.binomial(n, share)) for n in sizes]
            hits = [
                int(rng.hypergeometric(h, n - h, each)) for n, h in zip(sizes, has, strict=True)
            ]
            drawn = [
                Stratum(n, ["x"] * k + ["y"] * (each - k)) for n, k in zip(sizes, hits, strict=True)
            ]
            of_x = next(one for one in label_shares(drawn, ["x"]) if one.label == "x")
            right.append(bool(of_x.low <= sum(has) / sum(sizes) <= of_x.high))
        setting = f"{strata} strata of {each} out of 30 to 20,000, share {share:.1%}"
        yield covers("Labels: share of a label", setting, right, is_conservative=True)
    for count in (10, 50):
        for kappa, shares in (
            (0.5, [0.8, 0.15, 0.05]),
            (0.8, [0.4, 0.3, 0.3]),
            (0.2, [0.95, 0.05]),
        ):
            rng, right = np.random.default_rng([54, count, int(10 * kappa)]), list[bool]()
            for _ in range(6 * runs):
                first, again = (rng.choice(len(shares), count, p=shares) for _ in range(2))
                second = np.where(rng.random(count) < kappa, first, again)
                pairs = [*zip(map(str, first), map(str, second), strict=True)]
                of = agreement("a", "b", pairs)
                if of.kappa_low == of.kappa_low:
                    right.append(of.kappa_low <= kappa <= of.kappa_high)
            setting = f"{count} rollouts, kappa {kappa:g}, labels of {shares}"
            yield covers("Labels: kappa", setting, right, is_conservative=True)


def skewed_seeds(runs: int) -> Iterator[Row]:
    """Coverage over seeds of which few are much better than most, on prompts that are easy or hard."""
    for count in (5, 10):
        rng = np.random.default_rng([55, count])
        iqm: list[bool] = []
        gap: list[bool] = []
        for _ in range(4 * runs):
            effects = rng.exponential(0.05, (2 * count + 300, 1))
            chance = np.clip(rng.beta(0.3, 0.6, (1, 60)) + effects, 0, 1)
            first, other, many = np.split(rng.binomial(4, chance) / 4, [count, 2 * count])
            low, high = interquartile_interval(first)
            iqm.append(low <= interquartile_mean(many) <= high)
            _, low, high = difference_of_runs(of_each_run(first), of_each_run(other))
            gap.append(low <= 0 <= high)
        setting = f"{count} seeds, skewed effects, prompts easy or hard"
        shown = "Compare, runs grouped by settings: "
        yield covers(f"{shown}interquartile mean", setting, iqm)
        yield covers(f"{shown}minus the first group", setting, gap)
