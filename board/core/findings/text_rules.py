"""Texts gone wrong: loops, characters that are not text, another script, the same text again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from board.core.findings.digest import Digest
from board.core.findings.facts import Facts
from board.core.findings.finding import Evidence, Limits, Match, Target
from board.core.metrics.shares import of_many, percent

_LONGEST_PIECE: Final = 40


def repetition(facts: Facts, limits: Limits) -> Iterator[Match]:
    """A good part of the rollouts repeat a few tokens until half the response is made of them."""
    looping = [
        [
            Evidence(digest.step, x.index, x.position, x.piece[:_LONGEST_PIECE], float(x.tokens))
            for x in sorted(digest.loops, key=lambda x: -x.tokens)
            if x.share >= limits["share"] and x.tokens >= limits["tokens"]
        ]
        for digest in facts.digests
    ]
    text = (
        "A short repeating pattern fills at least half of the response in {share} rollouts read of step "
        "{step}. Does the model still learn to stop, and is length rewarded?"
    )
    yield from _affected(facts, limits, looping, text)


def garbled(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Rollouts with characters that are not text."""
    broken = [[e for e in d.broken if (e.value or 0) >= limits["share"]] for d in facts.digests]
    text = (
        "U+FFFD or control characters are in {share} rollouts read of step {step}. Did the policy "
        "break, or was text cut inside a character when it was logged?"
    )
    yield from _affected(facts, limits, broken, text)


def _affected(
    facts: Facts, limits: Limits, affected: Sequence[list[Evidence]], text: str
) -> Iterator[Match]:
    """Periods in which enough of the rollouts that were read are affected. affected: of each digest,
    the worst first. text: with the places {share} and {step}.
    """
    counts = np.array([len(own) for own in affected], np.int64)
    shares = counts / np.maximum([digest.read for digest in facts.digests], 1)
    for period, digest, share in facts.read_periods(shares >= limits["rollouts"], shares):
        worst = tuple(affected[period.worst][:3])
        severity = "severe" if share >= limits["severe"] else "warning"
        words = text.format(share=of_many(counts[period.worst], digest.read), step=digest.step)
        target = Target("rollout", digest.step, worst[0].index, worst[0].token)
        rollouts, bound = int(counts[period.first : period.last + 1].sum()), limits["rollouts"]
        yield Match(severity, words, period.steps, share, bound, target, worst, rollouts=rollouts)


def duplicates(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Responses to one prompt are equal more often than their own probabilities allow."""
    excess = np.array([_excess(digest, limits) for digest in facts.digests])
    for period, digest, ratio in facts.read_periods(excess > 1, excess):
        pairs = digest.pairs
        known = pairs.expected == pairs.expected
        allowed = (
            f"where their probabilities predict {pairs.expected:.1f}"
            if known
            else "and no probabilities are recorded to predict how many to expect"
        )
        text = (
            f"{pairs.equal} of {pairs.pairs} pairs of responses to the same prompt are identical at step "
            f"{digest.step}, {allowed}. Do sampling workers share a seed or a cache, or was one "
            "rollout logged in place of another?"
        )
        severity = "severe" if known and period.count >= limits["severe_steps"] else "warning"
        target = Target("groups", digest.step, pairs.examples[0].index, metric="reward")
        value, bound = float(pairs.equal), pairs.equal / ratio
        yield Match(severity, text, period.steps, value, bound, target, pairs.examples[:3])


def _excess(digest: Digest, limits: Limits) -> float:
    """Equal pairs over how many are allowed; above 1 is too many."""
    pairs = digest.pairs
    if not pairs.pairs:
        return 0.0
    if pairs.expected != pairs.expected:
        if pairs.pairs < limits["pairs"]:
            return 0.0
        return pairs.equal / pairs.pairs / limits["share"]
    noise = limits["deviations"] * np.sqrt(max(pairs.expected, 1.0))
    return pairs.equal / max(limits["times"] * pairs.expected, pairs.expected + noise)


def same_everywhere(facts: Facts, limits: Limits) -> Iterator[Match]:
    """One response, word for word, to different prompts."""
    shares = np.zeros(len(facts.digests))
    for place, digest in enumerate(facts.digests):
        tokens = next((example.value or 0 for example in digest.common_examples), 0)
        if tokens >= limits["tokens"] and digest.common_prompts >= limits["prompts"]:
            shares[place] = digest.common
    for period, digest, value in facts.read_periods(shares >= limits["share"], shares):
        text = (
            f"{percent(value)} of the rollouts read of step {digest.step} give the same response to "
            "different prompts. Has the policy collapsed, or does the sampler ignore the prompt?"
        )
        some = digest.common_examples
        target = Target("rollout", digest.step, some[0].index)
        yield Match("severe", text, period.steps, value, limits["share"], target, some)
