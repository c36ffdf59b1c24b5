"""Simulations of values that may have long tails, and of phrases whose texts are alike within groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from benchmarks.simulated import Row, covers, false_alarms, found
from board.core.arrays import FloatArray
from board.core.groups.contrasts import contrasts, sides
from board.core.metrics.paired import paired_difference
from board.core.metrics.skewed_means import (
    LEAST_UNBOUNDED,
    interval_by_clusters,
    interval_over_steps,
)
from board.core.texts.phrases import changed_phrases

_Draw = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]
_TAILS: Final[dict[str, tuple[_Draw, float]]] = {
    "normal": (lambda rng, shape: rng.normal(size=shape), 0.0),
    "heavy tails (t, 2 degrees)": (lambda rng, shape: rng.standard_t(2, shape), 0.0),
    "exponential": (lambda rng, shape: rng.exponential(size=shape), 1.0),
    "lognormal, sigma 1": (lambda rng, shape: rng.lognormal(0, 1, shape), float(np.exp(0.5))),
    "lognormal, sigma 1.5": (lambda rng, shape: rng.lognormal(0, 1.5, shape), float(np.exp(1.125))),
    "lognormal, sigma 2": (lambda rng, shape: rng.lognormal(0, 2, shape), float(np.exp(2))),
    "0, 0.5 or 1": (
        lambda rng, shape: rng.choice([0, 0.5, 1], p=[0.7, 0.1, 0.2], size=shape),
        0.25,
    ),
}
"""What draws values, and their mean."""


def tails_of_prompts(runs: int) -> Iterator[Row]:
    """Coverage of differences of prompts of any size, from the fewest that have an interval on."""
    for place, (name, (draw, truth)) in enumerate(_TAILS.items()):
        for prompts in (LEAST_UNBOUNDED, 50, 200):
            rng, right = np.random.default_rng([60, place, prompts]), list[bool]()
            for _ in range(2 * runs):
                one = paired_difference(draw(rng, (prompts,)))
                if one.low is not None and one.high is not None:
                    right.append(one.low <= truth <= one.high)
            shown = "Compare: B - A on shared prompts, long tails"
            yield covers(shown, f"{prompts} prompts, {name}", right, is_conservative=True)


def tails_of_winners(runs: int) -> Iterator[Row]:
    """Coverage of the difference of numbers with the longest tails, of one winner and seven losers."""
    draw, _ = _TAILS["lognormal, sigma 2"]
    for groups in (6, 20, 60, 160):
        rng, right = np.random.default_rng([61, groups]), list[bool]()
        won, codes = np.tile(np.arange(8) == 0, groups) * 1.0, np.arange(groups).repeat(8)
        while len(right) < 4 * runs:
            features = {str(i): row for i, row in enumerate(draw(rng, (40, 8 * groups)))}
            made = contrasts(sides(codes, won), "numbers", features)
            right += [one.low <= 0 <= one.high for one in made]
        setting = f"{groups} groups of 8, 1 of 8 wins, lognormal, sigma 2"
        shown = "Winners and losers: difference of numbers, long tails"
        yield Row(shown, setting, "no promise", 0, 1, float(np.mean(right)), len(right))


def tails_of_groups(runs: int) -> Iterator[Row]:
    """Coverage of the mean of an environment, and over the last ten steps, of values of any size."""
    for place, (name, (draw, truth)) in enumerate(_TAILS.items()):
        for groups in (LEAST_UNBOUNDED, 40, 150):
            rng = np.random.default_rng([62, place, groups])
            levels = draw(rng, (4 * runs, groups))
            means = levels + rng.normal(0, 0.3, levels.shape)
            terms = (means - means.mean(axis=1, keepdims=True)) / groups
            error = means.std(axis=1, ddof=1) / np.sqrt(groups)
            low, high = interval_by_clusters(
                means.mean(axis=1), error, (terms**3).sum(axis=1), np.full(len(means), groups)
            )
            setting = f"{groups} groups, {name}"
            right = [*((low <= truth) & (truth <= high))]
            shown = "Overview: mean of an environment, values of any size"
            yield covers(shown, setting, right, is_conservative=True)
        for groups in (4, 8, 32):
            rng, right = np.random.default_rng([63, place, groups]), list[bool]()
            for _ in range(8 * runs):
                values = draw(rng, (40, groups)) + rng.normal(0, 0.3, (40, groups))
                past = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(groups)
                many = np.full(10, float(groups))
                low, high = interval_over_steps(past[0][-10:], past[1][-10:], many, past)
                if np.isfinite(low):
                    right.append(low <= truth <= high)
            setting = f"10 of 40 steps of {groups} groups, {name}"
            if len(right) >= 4 * runs:
                shown = "Compare: ends, values of any size"
                yield covers(shown, setting, right, is_conservative=True)
            else:
                setting += f": shown in {len(right) / (8 * runs):.0%} of runs"
                shown = "Compare: ends, mostly without an interval"
                yield Row(shown, setting, "no promise", 0, 1, float(np.mean(right)), len(right))


def _texts(
    groups: int, size: int, alike: float, rng: np.random.Generator, planted: float = 0.0
) -> tuple[list[list[str]], list[list[int]]]:
    """Texts of 12 steps and the groups that they are of. alike: the share of a text's words that are of
    its group's prompt. planted: share of the texts of the last quarter that say one word more.
    """
    common = np.array([f"c{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(300)])
    weights = 1 / np.arange(1, len(common) + 1)
    texts: list[list[str]] = []
    for step in range(12):
        of_step: list[str] = []
        for _ in range(groups):
            topic = rng.choice(common, 12)
            for _ in range(size):
                usual = rng.choice(common, 30, p=weights / weights.sum())
                drawn = np.where(rng.random(30) < alike, rng.choice(topic, 30), usual)
                says = step >= 9 and rng.random() < planted
                of_step.append(" . ".join([*drawn, *(["planted"] if says else [])]))
        texts.append(of_step)
    return texts, [np.arange(groups).repeat(size).tolist() for _ in texts]


def phrases_over_steps(runs: int) -> Iterator[Row]:
    """Trainings in which a phrase is called rising or falling, where none is, and where one is."""
    shown = "Words: rising and falling phrases"
    for groups, size in ((24, 1), (4, 6), (2, 8)):
        for alike in (0.0, 0.4):
            rng = np.random.default_rng([64, groups, int(10 * alike)])
            made = (_texts(groups, size, alike, rng) for _ in range(runs))
            alarms = [bool(changed_phrases(*texts)) for texts in made]
            setting = f"{groups} groups of {size} a step, {alike:.0%} of words by prompt"
            yield false_alarms(shown, setting, alarms)
    rng = np.random.default_rng(65)
    made = (_texts(4, 6, 0.4, rng, 0.4) for _ in range(runs))
    finds = [any(one.phrase == "planted" for one in changed_phrases(*texts)) for texts in made]
    yield found(shown, "a word in 40 % of the last quarter's texts, 4 groups of 6 a step", finds)
