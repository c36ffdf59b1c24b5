"""Texts gone wrong: loops, characters that are not text, another script, the same text again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from board.core.findings.digest import Digest
from board.core.findings.facts import Facts
from board.core.findings.finding import Evidence, Finding, Limits, Severity, Target
from board.core.findings.trailing import Period, periods
from board.core.metrics.shares import percent

_OURS: Final = "threshold set by Rollout Board"
_LOOPS: Final = (
    "Holtzman et al. 2020, arXiv 1904.09751, on degenerate loops; DAPO, arXiv 2503.14476, 3.3: "
    "repetitive words in overlong samples"
)
_PIECE: Final = 40


def repetition(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """A good part of the rollouts repeat a few tokens until half the response is made of them."""

    def looping(digest: Digest) -> list[Evidence]:
        loops = [x for x in digest.loops if x.share >= limits["share"]]
        loops = sorted((x for x in loops if x.tokens >= limits["tokens"]), key=lambda x: -x.tokens)
        return [
            Evidence(digest.step, x.index, x.position, x.piece[:_PIECE], float(x.tokens))
            for x in loops
        ]

    for period, step, share, worst in _affected(facts, limits, looping):
        yield Finding(
            "repetition",
            _severity(share, limits),
            "Responses get stuck in loops",
            f"In {percent(share)} of the rollouts read of step {step}, a short "
            "repeating pattern fills at least half of the response. Does the model still learn to stop, "
            "and is length rewarded?",
            *period.steps,
            share,
            limits["rollouts"],
            f"{_LOOPS}; {_OURS}",
            Target("rollout", step, worst[0].index, worst[0].position),
            "share of rollouts",
            worst,
        )


def garbled(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Rollouts with characters that are not text."""

    def broken(digest: Digest) -> list[Evidence]:
        return [e for e in digest.broken if (e.value or 0) >= limits["share"]]

    for period, step, share, worst in _affected(facts, limits, broken):
        yield Finding(
            "garbled",
            _severity(share, limits),
            "Unprintable or invalid characters",
            f"{percent(share)} of the rollouts read of step {step} contain U+FFFD or control "
            "characters. Did the policy break, or was text cut inside a character when it was logged?",
            *period.steps,
            share,
            limits["rollouts"],
            _OURS,
            Target("rollout", step, worst[0].index, worst[0].position),
            "share of rollouts",
            worst,
        )


def _affected(
    facts: Facts, limits: Limits, rollouts_of: Callable[[Digest], list[Evidence]]
) -> Iterator[tuple[Period, int, float, tuple[Evidence, ...]]]:
    """Periods in which enough of the rollouts that were read are affected: with the worst step, its
    share of rollouts, and the first three of them. rollouts_of: those of a step, the worst first.
    """
    affected = [rollouts_of(digest) for digest in facts.digests]
    counts = zip(affected, facts.digests, strict=True)
    shares = np.array([len(own) / max(digest.read, 1) for own, digest in counts])
    for period in periods(facts.read_steps, shares >= limits["rollouts"], shares):
        share, worst = float(shares[period.worst]), affected[period.worst][:3]
        yield period, period.step, share, tuple(worst)


def foreign_script(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """CJK tokens in a run that had none."""
    shares = np.array([d.kind_shares.get("CJK", 0.0) for d in facts.digests])
    before = np.array([np.median(shares[:i]) if i else np.inf for i in range(len(shares))])
    fires = (shares >= limits["share"]) & (before <= limits["before"])
    for period in periods(facts.read_steps, fires, shares):
        digest, value = facts.digests[period.worst], float(shares[period.worst])
        at = digest.foreign[0]
        yield Finding(
            "foreign_script",
            "lead",
            "A new script appears",
            f"{percent(value)} of the tokens of step {digest.step} are Chinese, Japanese or Korean, up "
            "from almost none. Models mix languages when reasoning is trained without a language reward.",
            *period.steps,
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
    for period in periods(facts.read_steps, excess > 1, excess):
        digest = facts.digests[period.worst]
        pairs = digest.pairs
        allowed = (
            f"where their probabilities predict {pairs.expected:.1f}"
            if pairs.expected == pairs.expected
            else "and no probabilities are recorded to predict how many to expect"
        )
        known = pairs.expected == pairs.expected
        severe = known and period.count >= limits["severe_steps"]
        yield Finding(
            "duplicates",
            "severe" if severe else "warning",
            "Identical responses within groups",
            f"{pairs.equal} of {pairs.pairs} pairs of responses to the same prompt are identical at step "
            f"{digest.step}, {allowed}. Do sampling workers share a seed or a cache, or was one "
            "rollout logged in place of another?",
            *period.steps,
            float(pairs.equal),
            float(pairs.equal / excess[period.worst]),
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
    for period in periods(facts.read_steps, shares >= limits["share"], shares):
        digest, value = facts.digests[period.worst], float(shares[period.worst])
        yield Finding(
            "same_everywhere",
            "severe",
            "One response to different prompts",
            f"{percent(value)} of the rollouts read of step {digest.step} give the same response to "
            "different prompts. Has the policy collapsed, or does the sampler ignore the prompt?",
            *period.steps,
            value,
            limits["share"],
            _OURS,
            Target("rollout", digest.step, digest.common_examples[0].index),
            "share of rollouts",
            digest.common_examples,
        )


def _severity(share: float, limits: Limits) -> Severity:
    return "severe" if share >= limits["severe"] else "warning"
