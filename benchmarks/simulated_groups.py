"""Simulations of what is compared within groups: winners and losers, phrases and rewards, prompts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from benchmarks.simulated import Row, covers, false_alarms, found
from board.core.arrays import FloatArray, IntArray
from board.core.groups.contrasts import (
    Contrast,
    contrasts,
    sides,
    with_rates,
    within_difference,
)
from board.core.metrics.exact_test import fisher_p, least_fisher_p
from board.core.metrics.paired import false_discovery_rates

RATE: Final = 0.05
_AT_ONCE: Final = 10
"""Runs with the same rewards."""
_WINNERS: Final = "Winners and losers: rate"
_INTERVAL: Final = "Winners and losers: difference"
_REWARDS: Final = ("1 of 8 wins", "7 of 8 win", "right 1 in 10", "right 1 in 2")


def _rewards(kind: str, sizes: IntArray, rng: np.random.Generator) -> FloatArray:
    """Rewards of groups of these sizes, one group after the other."""
    if kind in _REWARDS[:2]:
        rewards = [np.arange(size) == 0 for size in sizes.tolist()]
        return np.concatenate(rewards) != (kind == _REWARDS[1]) + 0.0
    chance = {"right 1 in 10": 0.1, "right 1 in 2": 0.5}[kind]
    return (rng.random(int(sizes.sum())) < chance).astype(np.float64)


def _said(count: int, rollouts: int, rng: np.random.Generator) -> dict[str, IntArray]:
    """Phrases as common as Zipf's law has it, between 1 % and 60 % of the rollouts."""
    shares = np.clip(2.0 / np.arange(1, count + 1), 0.01, 0.6)
    return {
        f"phrase {i}": np.flatnonzero(rng.random(rollouts) < share)
        for i, share in enumerate(shares.tolist())
    }


def _phrases(
    kind: str, sizes: IntArray, rng: np.random.Generator, planted: float = 0.0, phrases: int = 840
) -> list[Contrast]:
    """planted: the share of winners that say one phrase more, "planted"."""
    rewards = _rewards(kind, sizes, rng)
    features = _said(phrases, len(rewards), rng)
    if planted:
        chance = np.where(rewards > 0, planted, 0.002)
        features["planted"] = np.flatnonzero(rng.random(len(rewards)) < chance)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    return with_rates(contrasts(sides(groups, rewards), "words", features))


def winners_and_losers(runs: int) -> Iterator[Row]:
    """Discoveries where rewards do not depend on the texts, and of a phrase that winners do say."""
    shapes = {
        "160 groups of 8": np.full(160, 8),
        "12 groups of 8": np.full(12, 8),
        "80 groups of 2 to 16": np.tile([2, 4, 8, 16], 20),
    }
    for shape, sizes in shapes.items():
        for kind in _REWARDS:
            rng = np.random.default_rng([1, len(sizes), len(kind)])
            alarms = [
                any(one.rate <= RATE for one in _phrases(kind, sizes, rng)) for _ in range(runs)
            ]
            yield false_alarms(_WINNERS, f"phrases, {shape}, {kind}", alarms, RATE)
    for kind in ("1 of 8 wins", "right 1 in 10", "right 1 in 2"):
        rng = np.random.default_rng([2, len(kind)])
        finds = [
            any(
                one.feature == "planted" and one.rate <= RATE
                for one in _phrases(kind, np.full(160, 8), rng, 0.1)
            )
            for _ in range(runs)
        ]
        setting = f"a phrase in 10 % of winners and 0.2 % of losers, 160 groups of 8, {kind}"
        yield found(_WINNERS, setting, finds)


def numbers_of_winners(runs: int) -> Iterator[Row]:
    """The same of numbers: heavy tails, ties, and half of the values missing."""
    draws = {
        "normal": lambda rng, n: rng.normal(size=n),
        "lognormal, sigma 2": lambda rng, n: rng.lognormal(0, 2, n),
        "counts, mostly 0": lambda rng, n: rng.poisson(0.1, n).astype(np.float64),
        "half missing": lambda rng, n: np.where(rng.random(n) < 0.5, np.nan, rng.normal(size=n)),
    }
    for kind in _REWARDS[:3]:
        for name, draw in draws.items():
            rng = np.random.default_rng([3, len(kind), len(name)])
            alarms: list[bool] = []
            while len(alarms) < runs:
                rewards, codes = _rewards(kind, np.full(40, 8), rng), np.repeat(np.arange(40), 8)
                # Runs of twelve numbers: with the same rewards they are independent of one another.
                features = {f"n{i}": draw(rng, len(rewards)) for i in range(12 * _AT_ONCE)}
                made = contrasts(sides(codes, rewards), "numbers", features)
                for first in range(0, len(made), 12):
                    rated = with_rates(made[first : first + 12])
                    alarms.append(any(one.rate <= RATE for one in rated))
            yield false_alarms(_WINNERS, f"numbers, {name}, 40 groups of 8, {kind}", alarms, RATE)


def intervals_of_numbers(runs: int) -> Iterator[Row]:
    """Coverage of the difference of numbers between winners and losers, whose groups have levels."""
    draws = {
        "normal": lambda rng, shape: rng.normal(size=shape),
        "exponential": lambda rng, shape: rng.exponential(size=shape),
        "lognormal, sigma 1": lambda rng, shape: rng.lognormal(0, 1, shape),
        "counts, mostly 0": lambda rng, shape: rng.poisson(0.3, shape).astype(np.float64),
    }
    for groups in (6, 20, 160):
        for kind in ("1 of 8 wins", "right 1 in 2"):
            for name, draw in draws.items():
                rng = np.random.default_rng([8, groups, len(kind), len(name)])
                right: list[bool] = []
                while len(right) < runs:
                    rewards = _rewards(kind, np.full(groups, 8), rng)
                    codes = np.repeat(np.arange(groups), 8)
                    values = draw(rng, (20, len(rewards))) + rng.normal(size=groups).repeat(8)
                    features = {str(i): row for i, row in enumerate(values)}
                    made = contrasts(sides(codes, rewards), "numbers", features)
                    right += [one.low <= 0 <= one.high for one in made if np.isfinite(one.low)]
                setting = f"{groups} groups of 8, {kind}, {name}"
                yield covers(f"{_INTERVAL} of numbers", setting, right, is_conservative=True)


def intervals_of_contrasts(runs: int) -> Iterator[Row]:
    """Coverage of the difference between winners and losers, of shares that vary between groups."""
    for groups in (6, 20, 160):
        for rate, planted in ((0.02, 0.0), (0.02, 0.1), (0.3, 0.1), (0.5, 0.0)):
            for kind in ("1 of 8 wins", "right 1 in 2"):
                rng = np.random.default_rng([4, groups, int(100 * rate), len(kind)])
                right: list[bool] = []
                while len(right) < runs:
                    rewards = _rewards(kind, np.full(groups, 8), rng)
                    # Features of one run are draws of their own.
                    chance = rng.beta(rate, 1 - rate, (50, groups)).repeat(8, axis=1)
                    chance += planted * (1 - chance) * (rewards > 0)
                    said = rng.random(chance.shape) < chance
                    features = {str(i): np.flatnonzero(row) for i, row in enumerate(said)}
                    codes = np.repeat(np.arange(groups), 8)
                    truth = planted * (1 - rate)
                    made = contrasts(sides(codes, rewards), "words", features)
                    right += [bool(one.low <= truth <= one.high) for one in made]
                setting = (
                    f"{groups} groups of 8, {kind}, said by {rate:.0%} and {planted:.0%} more of "
                    "winners, alike within groups"
                )
                is_few = groups * rate < 4
                yield covers(_INTERVAL, setting, right, is_conservative=is_few)


def rewards_of_phrases(runs: int) -> Iterator[Row]:
    """Coverage of what a phrase goes with, in reward: rare phrases, rare rewards, groups that are alike.

    Samples without an interval are drawn again.
    """
    for groups in (20, 100, 600):
        for said, right, effect in (
            (0.02, 0.05, 0.2),
            (0.2, 0.05, 0.0),
            (0.2, 0.5, 0.2),
            (0.5, 0.02, 0.0),
        ):
            rng = np.random.default_rng([5, groups, int(100 * said), int(100 * right)])
            truth, covered = effect * (1 - right), list[bool]()
            for _ in range(20 * runs):
                chance = rng.beta(2 * right, 2 * (1 - right), (groups, 1))
                hit = rng.random((groups, 8)) < rng.beta(2 * said, 2 * (1 - said), (groups, 1))
                rewards = rng.random((groups, 8)) < chance + effect * (1 - chance) * hit
                hits, misses = hit.sum(axis=1), (~hit).sum(axis=1)
                both = (hits > 0) & (misses > 0)
                hits, misses = hits[both], misses[both]
                gaps = (rewards & hit)[both].sum(axis=1) / hits
                gaps -= (rewards & ~hit)[both].sum(axis=1) / misses
                of = within_difference(gaps, hits * misses / 8)
                if np.isfinite(of.low):
                    covered.append(of.low <= truth <= of.high)
                if len(covered) == runs:
                    break
            setting = (
                f"{groups} groups of 8, said by {said:.0%}, {right:.0%} right, effect {effect:g}"
            )
            if len(covered) >= runs / 2:
                yield covers(
                    "Words: reward with minus without",
                    setting,
                    covered,
                    is_conservative=right < 0.1,
                )


def prompts_of_a_run(runs: int) -> Iterator[Row]:
    """Prompts that are called regressed or newly solved, where none changed and where some did."""
    shown = "Prompts: regressed, newly solved"
    for tries in (2, 8, 32):
        for chances in ((1.0, 1.0), (0.2, 1.8)):
            rng = np.random.default_rng([6, tries, int(10 * chances[0])])
            alarms: list[bool] = []
            for _ in range(runs):
                chance = rng.beta(*chances, 400)
                halves = [rng.binomial(tries, chance) for _ in range(2)]
                alarms.append(bool((_rates(halves[0], halves[1], tries) <= RATE).any()))
            mean = chances[0] / sum(chances)
            yield false_alarms(
                shown, f"400 prompts, {tries} rollouts a half, {mean:.0%} right", alarms
            )
    rng, finds = np.random.default_rng(7), list[bool]()
    for _ in range(runs):
        chance = rng.beta(1, 1, 400)
        chance[:20] = 0.9
        earlier, later = (
            rng.binomial(32, chance),
            rng.binomial(32, np.r_[np.full(20, 0.2), chance[20:]]),
        )
        finds.append(bool((_rates(earlier, later, 32)[:20] <= RATE).mean() > 0.8))
    yield found(shown, "20 of 400 prompts fall from 90 % to 20 % right, 32 rollouts a half", finds)


def _rates(earlier: IntArray, later: IntArray, tries: int) -> FloatArray:
    total = np.full(len(earlier), tries)
    halves = (earlier, total, later, total)
    p = np.where(least_fisher_p(*halves) <= RATE, fisher_p(*halves), np.nan)
    return false_discovery_rates(p)
