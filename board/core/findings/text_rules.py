"""Texts gone wrong: loops, characters that are no text, another script, the same text again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from board.core.findings.digest import Digest, Loop
from board.core.findings.facts import Facts
from board.core.findings.finding import Evidence, Finding, Severity, Target
from board.core.findings.thresholds import Limits
from board.core.findings.trailing import stretches
from board.core.metrics.kl import FloatArray
from board.core.metrics.shares import percent

_OURS: Final = "threshold set by Rollout Board"
_LOOPS: Final = (
    "Holtzman et al. 2020, arXiv 1904.09751, on degenerate loops; DAPO, arXiv 2503.14476, 3.3: "
    "repetitive words in overlong samples"
)
_PIECE: Final = 40


def repetition(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """A good part of the rollouts repeat a few tokens until half the response is made of them."""

    def looping(digest: Digest) -> list[Loop]:
        return [
            loop
            for loop in digest.loops
            if loop.share >= limits["share"] and loop.tokens >= limits["tokens"]
        ]

    result = [sorted(looping(d), key=lambda loop: -loop.tokens) for d in facts.digests]
    shares = _shares([len(loops) for loops in result], facts.digests)
    for stretch in stretches(shares >= limits["rollouts"], shares):
        digest, value = facts.digests[stretch.worst], float(shares[stretch.worst])
        yield Finding(
            "repetition",
            _severity(value, limits),
            "Responses get stuck in loops",
            f"In {percent(value)} of the rollouts read of step {digest.step}, a short "
            "repeating pattern fills at least half of the response. Does the model still learn to stop, "
            "and is length rewarded?",
            *_place(facts, stretch.worst, stretch.first, stretch.last),
            value,
            limits["rollouts"],
            f"{_LOOPS}; {_OURS}",
            Target(
                "rollout",
                digest.step,
                result[stretch.worst][0].index,
                result[stretch.worst][0].position,
            ),
            "share of rollouts",
            tuple(
                Evidence(digest.step, x.index, x.position, x.piece[:_PIECE], float(x.tokens))
                for x in result[stretch.worst][:3]
            ),
        )


def garbled(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Rollouts with characters that are no text."""
    result = [[e for e in d.broken if (e.value or 0) >= limits["share"]] for d in facts.digests]
    shares = _shares([len(rollouts) for rollouts in result], facts.digests)
    for stretch in stretches(shares >= limits["rollouts"], shares):
        digest, value = facts.digests[stretch.worst], float(shares[stretch.worst])
        yield Finding(
            "garbled",
            _severity(value, limits),
            "Unprintable or invalid characters",
            f"{percent(value)} of the rollouts read of step {digest.step} contain U+FFFD or control "
            "characters. Did the policy break, or was text cut inside a character when it was logged?",
            *_place(facts, stretch.worst, stretch.first, stretch.last),
            value,
            limits["rollouts"],
            _OURS,
            Target(
                "rollout",
                digest.step,
                result[stretch.worst][0].index,
                result[stretch.worst][0].position,
            ),
            "share of rollouts",
            tuple(result[stretch.worst][:3]),
        )


def foreign_script(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """CJK tokens in a run that had none."""
    shares = np.array([d.kind_shares.get("CJK", 0.0) for d in facts.digests])
    before = np.array([np.median(shares[:i]) if i else np.inf for i in range(len(shares))])
    fires = (shares >= limits["share"]) & (before <= limits["before"])
    for stretch in stretches(fires, shares):
        digest, value = facts.digests[stretch.worst], float(shares[stretch.worst])
        at = digest.foreign[0]
        yield Finding(
            "foreign_script",
            "lead",
            "A new script appears",
            f"{percent(value)} of the tokens of step {digest.step} are Chinese, Japanese or Korean, up "
            "from almost none. Models mix languages when reasoning is trained without a language reward.",
            *_place(facts, stretch.worst, stretch.first, stretch.last),
            value,
            limits["share"],
            f"DeepSeek-R1, arXiv 2501.12948, on language mixing; {_OURS}",
            Target("rollout", digest.step, at.index, at.position),
            "share of tokens",
            digest.foreign,
        )


def duplicates(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Responses to one prompt are equal more often than their own probabilities allow."""
    excess = np.array([_excess(digest, limits) for digest in facts.digests])
    for stretch in stretches(excess > 1, excess):
        digest = facts.digests[stretch.worst]
        pairs = digest.pairs
        allowed = (
            f"where their probabilities predict {pairs.expected:.1f}"
            if pairs.expected == pairs.expected
            else "and no probabilities are recorded to predict how many to expect"
        )
        known = pairs.expected == pairs.expected
        severe = known and stretch.count >= limits["severe_steps"]
        yield Finding(
            "duplicates",
            "severe" if severe else "warning",
            "Identical responses within groups",
            f"{pairs.equal} of {pairs.pairs} pairs of responses to the same prompt are identical at step "
            f"{digest.step}, {allowed}. Do sampling workers share a seed or a cache, or was one "
            "rollout logged in place of another?",
            *_place(facts, stretch.worst, stretch.first, stretch.last),
            float(pairs.equal),
            float(pairs.equal / excess[stretch.worst]),
            "two samples of a policy p are equal with probability Σ p(x)²; thresholds set by "
            "Rollout Board",
            Target("groups", digest.step, pairs.examples[0].index, metric="reward"),
            "equal pairs",
            pairs.examples[:3],
        )


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


def same_everywhere(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """One response, word for word, to different prompts."""
    shares = np.array(
        [
            d.common
            if d.common_examples
            and (d.common_examples[0].value or 0) >= limits["tokens"]
            and d.common_prompts >= limits["prompts"]
            else 0.0
            for d in facts.digests
        ]
    )
    for stretch in stretches(shares >= limits["share"], shares):
        digest, value = facts.digests[stretch.worst], float(shares[stretch.worst])
        yield Finding(
            "same_everywhere",
            "severe",
            "One response to different prompts",
            f"{percent(value)} of the rollouts read of step {digest.step} give the same response to "
            "different prompts. Has the policy collapsed, or does the sampler ignore the prompt?",
            *_place(facts, stretch.worst, stretch.first, stretch.last),
            value,
            limits["share"],
            _OURS,
            Target("rollout", digest.step, digest.common_examples[0].index),
            "share of rollouts",
            digest.common_examples,
        )


def _shares(counts: list[int], digests: Sequence[Digest]) -> FloatArray:
    return np.array([n / max(d.read, 1) for n, d in zip(counts, digests, strict=True)])


def _severity(share: float, limits: Limits) -> Severity:
    return "severe" if share >= limits["severe"] else "warning"


def _place(facts: Facts, worst: int, first: int, last: int) -> tuple[int, int, int]:
    return facts.digests[worst].step, facts.digests[first].step, facts.digests[last].step
