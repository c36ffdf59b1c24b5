"""The policy leaves its reference, or the engine that samples leaves the policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from board.core.findings.digest import Digest
from board.core.findings.facts import Facts
from board.core.findings.finding import Evidence, Finding, Limits, Severity, Target, rounded
from board.core.findings.trailing import Period, baselines, onset, periods
from board.core.metrics.shares import percent
from board.core.tokens.contributions import TokenShare, TypeShare

_MOST: Final = 5
_MATTERS: Final = 0.1
_SPIKE_SOURCE: Final = (
    "k3: Schulman 2020, Approximating KL Divergence; compared with the median and MAD of the "
    "steps before; thresholds set by Rollout Board"
)
_TYPE_SOURCE: Final = (
    "contributions to the step mean of k3, Schulman 2020; thresholds set by Rollout Board"
)


def kl_spike(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """k3 far above the median of the steps before. Several in a row are severe, one alone is a lead:
    k3 has heavy tails, and one token sampled against all odds makes a spike.
    """
    k3 = facts.curve("k3_mean")
    if k3 is None:
        return
    before = baselines(k3, int(limits["steps"]), int(limits["least_steps"]), limits["larger"])
    bound = np.full(len(k3), np.nan)
    for i, base in enumerate(before):
        if base is not None:
            limit = base.median + limits["deviations"] * base.deviation
            largest = limits["larger"] * base.largest  # slow growth is not a spike
            bound[i] = max(limits["times"] * base.median, limit, largest, limits["least"])
    fires = k3 > bound
    steps_above = sorted(
        periods(facts.steps, fires, np.nan_to_num(k3 / bound)),
        key=lambda s: (-s.count, -k3[s.worst]),
    )
    for period in steps_above[:_MOST]:
        yield _spike(facts, limits, period, float(k3[period.worst]), float(bound[period.worst]))


def _spike(facts: Facts, limits: Limits, period: Period, value: float, bound: float) -> Finding:
    step = period.step
    severity = _by_length(period.count, limits)
    digest = facts.digest(step)
    tokens = _tokens(_telling(digest), step) if digest else ()
    text = (
        f"The mean k3 of step {step} is {rounded(value)} nats, above the limit of {rounded(bound)} "
        "set by the steps before. "
        "Which tokens contribute: a few very unlikely ones, one type of token, or all of them?"
    )
    return Finding(
        "kl_spike",
        severity,
        "KL(policy‖ref) jumps",
        text,
        *period.steps,
        value,
        bound,
        _SPIKE_SOURCE,
        Target("tokens", step, metric="k3"),
        "nats",
        tokens or facts.top(step, "k3_mean"),
    )


def _by_length(count: int, limits: Limits) -> Severity:
    if count >= limits["severe_steps"]:
        return "severe"
    return "warning" if count > 1 else "lead"


def _telling(digest: Digest) -> list[TokenShare]:
    """The tokens that contribute most, without those that hardly matter beside the first."""
    return [
        t for t in digest.tokens[:3] if t.contribution >= _MATTERS * digest.tokens[0].contribution
    ]


def _tokens(shares: Iterable[TokenShare], step: int) -> tuple[Evidence, ...]:
    return tuple(Evidence(step, t.index, t.position, t.piece, t.value) for t in shares)


def token_type_kl(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """One piece carries most of a step's k3, many times more of it per token than at the steps before.

    One token alone is not a type: so many must be there, and the largest of them is left out of the mean
    that is compared.
    """
    usual: dict[str, list[float]] = {}
    hits: dict[str, list[tuple[int, TypeShare, float]]] = {}
    for place, digest in enumerate(facts.digests):
        for piece in digest.pieces:
            past = usual.setdefault(piece.name, [])
            if past and _is_large(piece, digest, limits):
                bound = limits["times"] * float(np.median(past[-20:]))
                if _mean_of_others(piece, digest) > bound:
                    hits.setdefault(piece.name, []).append((place, piece, bound))
                    continue
            past.append(piece.mean)
    for name, shares in hits.items():
        yield from _of_piece(facts, limits, name, shares)


def _is_large(piece: TypeShare, digest: Digest, limits: Limits) -> bool:
    """Whether a piece is of many tokens and of much of a step's k3."""
    if digest.k3 < limits["least"] or piece.share < limits["share"]:
        return False
    return piece.count >= limits["tokens"]


def _mean_of_others(piece: TypeShare, digest: Digest) -> float:
    """The mean over the tokens of a piece without the largest of them; NaN where there is no other."""
    values = [t.value for t in digest.tokens if t.piece == piece.name]
    others_sum = piece.mean * piece.count - max(values, default=0.0)
    return others_sum / (piece.count - 1) if piece.count > 1 else float("nan")


def _of_piece(
    facts: Facts, limits: Limits, name: str, shares: list[tuple[int, TypeShare, float]]
) -> Iterator[Finding]:
    fires = np.zeros(len(facts.digests), bool)
    share = np.zeros(len(facts.digests))
    for place, piece, _ in shares:
        fires[place], share[place] = True, piece.contribution
    bounds = {place: (piece, bound) for place, piece, bound in shares}
    for period in periods(facts.read_steps, fires, share):
        if period.count < limits["least_steps"]:
            continue
        digest = facts.digests[period.worst]
        piece, bound = bounds[period.worst]
        tokens = [t for t in digest.tokens if t.piece == name][:3]
        text = (
            f"At step {digest.step} {percent(piece.share)} of k3 comes from one token type, "
            f"{piece.kind}: {piece.count} tokens with a mean of {rounded(piece.mean)} nats, "
            f"above {rounded(bound)}, {limits['times']:g} times the usual. Is it masked, shifted or "
            "trained by mistake?"
        )
        yield Finding(
            "token_type_kl",
            _by_length(period.count, limits),
            f"One token type dominates KL(policy‖ref): {piece.kind}",
            text,
            *period.steps,
            piece.share,
            limits["share"],
            _TYPE_SOURCE,
            Target("tokens", digest.step, metric="k3", only=f"piece:{name}"),
            "share of k3",
            _tokens(tokens, digest.step),
        )


_SOURCE: Final = (
    "mean exp|d|: NeMo-RL's token_mult_prob_error, to investigate above 1.05 (NeMo-RL@7ea279a "
    "docs/adding-new-models.md); ESS: verl@1dda039 docs/algo/rollout_corr.md, which warns below 0.3; the "
    "severe thresholds are set by Rollout Board; effect on training: Yao et al. 2025, Your Efficient RL "
    "Framework Secretly Brings You Off-Policy RL Training"
)
_DRIFT_SOURCE: Final = (
    "NeMo-RL@7ea279a docs/guides/grpo.md: where token_mult_prob_error trends upward past 1 to 2 %, "
    "weights are usually not updated as they should be; the factor 3 is set by Rollout Board"
)
_EBB: Final = 4


def mismatch(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Sampler and trainer give tokens other probabilities, with the same weights where that is known.

    A run without old_logprobs whose trainer makes several updates of a batch has staleness in it too.
    """
    digests = facts.digests
    values = np.array([d.engine.multiplicative if d.engine else np.nan for d in digests])
    ess = np.array([d.engine.ess if d.engine else np.nan for d in digests])
    for period in periods(facts.read_steps, values > limits["warning"], np.nan_to_num(values)):
        digest = digests[period.worst]
        part = slice(period.first, period.last + 1)
        far = (values[part] > limits["severe"]) | (ess[part] < limits["ess"])
        # One step alone may be one token that was sampled against all odds.
        severe = int(far.sum()) >= limits["severe_steps"]
        second, first = digest.engine_pair
        yield Finding(
            "mismatch",
            "severe" if severe else "warning" if period.count > 1 else "lead",
            "Sampler and trainer disagree",
            f"At step {digest.step} the mean of exp|{second} - {first}| is "
            f"{rounded(float(values[period.worst]), 5)} and "
            f"{percent(ess[period.worst])} of the tokens remain effective after reweighting; the "
            f"largest difference of one token is {rounded(_largest(digest), 2)} nats. Do precision, "
            "temperature, tokenization or weights differ, or is it a single token?",
            *period.steps,
            float(values[period.worst]),
            limits["warning"],
            _SOURCE,
            Target("mismatch", digest.step, metric="mismatch_kl"),
            "mean exp|d|",
            digest.engine_worst,
        )


def _largest(digest: Digest) -> float:
    return digest.engine.d_largest if digest.engine else float("nan")


def mismatch_drift(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """The mismatch grows over the run, while it may still be small."""
    values = np.array([d.engine.multiplicative - 1 if d.engine else np.nan for d in facts.digests])
    steps = int(limits["steps"])
    if len(values) < 2 * steps or not np.isfinite(values[:steps]).all():
        return
    early = float(np.median(values[:steps]))
    late = np.array([np.median(values[max(i - steps + 1, 0) : i + 1]) for i in range(len(values))])
    bound = max(limits["times"] * early, limits["least"])
    fires = late > bound
    # What ebbs and comes back is one drift.
    for period in periods(facts.read_steps, fires, np.nan_to_num(late), calm=_EBB * steps):
        digest = facts.digests[period.worst]
        first = onset(values, bound, period.first, steps)
        yield Finding(
            "mismatch_drift",
            "warning",
            "Sampler and trainer drift apart over time",
            f"Mean exp|d| - 1 was {rounded(early, 2)} in the first steps and is "
            f"{rounded(float(late[period.worst]), 2)} in those up "
            f"to {digest.step}. Are all of the sampler's weights still being updated?",
            digest.step,
            facts.digests[first].step,
            period.steps[2],
            float(late[period.worst]),
            bound,
            _DRIFT_SOURCE,
            Target("mismatch", digest.step, metric="mismatch_kl"),
            "mean exp|d| - 1",
            digest.engine_worst,
        )
