"""The policy leaves its reference, or the engine that samples leaves the policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from board.core.arrays import BoolArray, FloatArray
from board.core.findings.facts import Facts
from board.core.findings.finding import Evidence, Limits, Match, Severity, Target, rounded
from board.core.findings.trailing import Period, periods
from board.core.metrics.shares import percent
from board.core.tokens.contributions import TokenShare

_MOST_SPIKES: Final = 5
_LEAST_OF_FIRST: Final = 0.1
"""A token that contributes less than this part of what the first one does is not shown as evidence."""
_EBB: Final = 4
_LEAST_NOISE: Final = 0.05
"""Part of the median, and of the least k3 that is a spike, that is noise in any case."""
_MAD_TO_STD: Final = 1.4826
"""Scales the median absolute deviation to the standard deviation of a normal distribution."""


def kl_spike(facts: Facts, limits: Limits) -> Iterator[Match]:
    """k3 far above the median of the steps before. Several in a row are severe, one alone is a lead:
    k3 has heavy tails, and one token sampled against all odds makes a spike.
    """
    k3 = facts.curve("k3_mean")
    if k3 is None:
        return
    fires, bound, jump = spikes(k3, limits)
    ranked = sorted(periods(facts.steps, fires, jump), key=lambda s: (-s.count, -jump[s.worst]))
    highest = max(ranked, key=lambda s: jump[s.worst], default=None)
    listed = [one for one in ranked[:_MOST_SPIKES] if one is not highest]
    prominence = {one: _prominence(one, jump, limits) for one in (highest, *listed) if one}
    for period in prominence:
        step, value, limit = period.step, float(k3[period.worst]), float(bound[period.worst])
        read = [token for d in facts.digests if d.step == step for token in d.tokens[:3]]
        tokens = [t for t in read if t.contribution >= _LEAST_OF_FIRST * read[0].contribution]
        text = (
            f"The mean k3 of step {step} is {rounded(value)} nats, above the limit of {rounded(limit)} "
            f"set by the steps before. {_largest(tokens)}"
            "Which tokens contribute: a few very unlikely ones, one type of token, or all of them?"
        )
        severity, target = _by_length(period.count, limits), Target("tokens", step, metric="k3")
        evidence = _tokens(tokens, step) or facts.top(step, "k3_mean")
        # The largest jump is the one that is named, however long the others last.
        excess = max(prominence.values()) if period is highest else prominence[period]
        excess = excess / _length(period) ** 0.5 * (1 + 1e-9 * (period is highest))
        yield Match(severity, text, period.steps, value, limit, target, evidence, excess=excess)


def _length(period: Period) -> int:
    return period.last - period.first + 1


def _prominence(period: Period, jump: FloatArray, limits: Limits) -> float:
    """As the strength of a Finding: how far beyond the noise that is allowed, and how long."""
    return float(jump[period.worst]) / (limits["deviations"] or 1.0) * _length(period) ** 0.5


def _largest(tokens: Sequence[TokenShare]) -> str:
    """How much the first of these tokens contributes; empty where none was read."""
    if not tokens:
        return ""
    first = tokens[0]
    return (
        f"Token {first.position} of rollout {first.index} alone contributes {percent(first.share)} of "
        "the k3 that was read. "
    )


class Spikes(NamedTuple):
    """Of values [S]: whether each is a spike, above which bound it would be one, and how far it is above
    the median of the steps before, in their noise; NaN where they are too few.
    """

    fires: BoolArray
    bounds: FloatArray
    jumps: FloatArray


def spikes(values: FloatArray, limits: Limits) -> Spikes:
    """Which values [S] are spikes, by the steps before each.

    What is far larger than all before it does not count for later ones: values are compared with the
    calm before. NaN is left out. Where there is a spike, a step that jumps even further out of the noise
    is one too: late in a run the same jump is a smaller multiple of the median.
    """
    steps, least = int(limits["steps"]), int(limits["least_steps"])
    calm: list[float] = []
    bounds, jumps, by_noise = (np.full(len(values), np.nan) for _ in range(3))
    for place, value in enumerate(values.tolist()):
        window, largest = calm[-steps:], np.inf
        if len(window) >= least:
            middle = median(window)
            deviation = _MAD_TO_STD * median([abs(one - middle) for one in window])
            largest = limits["larger"] * max(window)  # slow growth is not a spike
            limit = middle + limits["deviations"] * deviation
            bounds[place] = max(limits["times"] * middle, limit, largest, limits["least"])
            noise = max(deviation, _LEAST_NOISE * middle, _LEAST_NOISE * limits["least"])
            jumps[place] = (value - middle) / noise
            by_noise[place] = max(limit, max(window), limits["least"])
        if value <= largest:
            calm.append(value)
    fires = values > bounds
    if fires.any():
        further = (jumps > jumps[fires].max()) & (values > by_noise) & ~fires
        bounds = np.where(further, by_noise, bounds)
        fires |= further
    return Spikes(fires, bounds, jumps)


def _by_length(count: int, limits: Limits) -> Severity:
    if count >= limits["severe_steps"]:
        return "severe"
    return "warning" if count > 1 else "lead"


def _tokens(shares: Iterable[TokenShare], step: int) -> tuple[Evidence, ...]:
    return tuple(Evidence(step, t.index, t.position, t.piece, t.value) for t in shares)


def mismatch(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Sampler and trainer give tokens other probabilities, with the same weights where that is known.

    A run without old_logprobs whose trainer makes several updates of a batch has staleness in it too.
    """
    values = _of_engine(facts, "multiplicative")
    ess, largest = _of_engine(facts, "ess"), _of_engine(facts, "d_largest")
    # One step alone may be one token that was sampled against all odds.
    is_far = (values > limits["severe"]) | (ess < limits["ess"])
    for period, digest, value in facts.read_periods(values > limits["warning"], values):
        severe = is_far[period.first : period.last + 1].sum() >= limits["severe_steps"]
        second, first = digest.engine_pair
        text = (
            f"At step {digest.step} the mean of exp|{second} - {first}| is {rounded(value, 5)} and "
            f"{percent(ess[period.worst])} of the tokens remain effective after reweighting; the "
            f"largest difference of one token is {rounded(largest[period.worst], 2)} nats. Do precision, "
            "temperature, tokenization or weights differ, or is it a single token?"
        )
        severity = "severe" if severe else "warning" if period.count > 1 else "lead"
        target, worst = Target("mismatch", digest.step, metric="mismatch_kl"), digest.engine_worst
        bound = limits["warning"]
        excess = (value - 1) / (bound - 1) if bound > 1 else None  # 1: no mismatch at all
        yield Match(severity, text, period.steps, value, bound, target, worst, excess=excess)


def _of_engine(facts: Facts, name: str) -> np.ndarray:
    """[digests] a number of the engines' mismatch; NaN where it is not recorded."""
    return np.array([getattr(d.engine, name) if d.engine else np.nan for d in facts.digests])
