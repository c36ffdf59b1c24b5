"""The engine that sampled against the trainer that learns: how far apart, where, and for what reason.

Tokens were drawn by the sampler. d = logprobs - sampling_logprobs of a token, r = exp(d); both policies
are named in every result, for their order changes the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core import kl
from board.core.kl import FloatArray
from board.core.step_tokens import StepTokens

_BLOCK: Final = 1 << 15
"""Tokens at once: what is made of them on the way stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Apart:
    """How far two policies are apart over `tokens` sampled tokens; means over tokens, NaN without any.

    d is the log-ratio second policy less first, the first one having drawn the tokens, r = exp(d).
    d_mean: nats. forward_k1, forward_k3: KL(first‖second): -d; r - 1 - d. reverse_k1, reverse_k3:
    KL(second‖first), importance-weighted since the first drew the tokens: r d; r d - r + 1. flipped_k3:
    exp(-d) - 1 + d, NeMo-RL's policy_kl_error. multiplicative: mean exp|d|, NeMo-RL's
    token_mult_prob_error. chi2: mean r² - 1, verl's rollout_corr/chi2_token; being an estimate it may be
    below 0. ess: (Σr)² / (n Σr²), the share of tokens that weights by r leave effective, 0 to 1; verl's
    rollout_is_eff_sample_size is that of its weights as truncated. verl and NeMo-RL compare the sampler
    with the trainer before its updates, which is the engine's part of a Decomposition; prime-rl with the
    trainer as it is, the total. Log-ratios are clamped to ±80 here, to ±20 in verl.
    Sources: Schulman 2020, Approximating KL Divergence; NeMo-RL@7ea279a docs/guides/grpo.md, Metrics, and
    nemo_rl/algorithms/loss/loss_functions.py; verl@1dda039 docs/algo/rollout_corr.md and
    verl/trainer/ppo/rollout_corr_helper.py; prime-rl@559b447 src/prime_rl/trainer/rl/loss.py.
    """

    tokens: int
    d_mean: float
    d_largest: float
    forward_k1: float
    forward_k3: float
    reverse_k1: float
    reverse_k3: float
    flipped_k3: float
    multiplicative: float
    chi2: float
    ess: float


@np.errstate(over="ignore")
def apart(d: FloatArray) -> Apart:
    """How far two policies are apart by the log-ratios [n] of sampled tokens; NaN is left out."""
    d = d[np.isfinite(d)]
    if not len(d):
        nan = float("nan")
        return Apart(0, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan)
    blocks: list[tuple[np.float64, ...]] = [
        _sums(d[start : start + _BLOCK]) for start in range(0, len(d), _BLOCK)
    ]
    means: list[float] = (np.array(blocks).sum(axis=0) / len(d)).tolist()
    k1, k3, r_d, reverse_k3, flipped_k3, grown, r, squares = means
    return Apart(
        tokens=len(d),
        d_mean=k1,
        d_largest=min(float(np.abs(d).max()), kl.MAX_LOG_RATIO),
        forward_k1=-k1,
        forward_k3=k3,
        reverse_k1=r_d,
        reverse_k3=reverse_k3,
        flipped_k3=flipped_k3,
        multiplicative=grown + 1.0,
        chi2=squares - 1.0,
        ess=r**2 / squares,
    )


def _sums(d: FloatArray) -> tuple[np.float64, ...]:
    """Over the tokens of a block, of what `apart` takes means of."""
    d = np.clip(d, -kl.MAX_LOG_RATIO, kl.MAX_LOG_RATIO)
    rise = np.expm1(d)  # r - 1, with the digits that exp() loses
    r = rise + 1.0
    fall = -rise / r  # 1/r - 1
    r_d = r * d
    return (
        d.sum(),
        np.maximum(rise - d, 0.0).sum(),
        r_d.sum(),
        (r_d - rise).sum(),
        np.maximum(fall + d, 0.0).sum(),
        np.maximum(rise, fall).sum(),
        r.sum(),
        (r * r).sum(),
    )


def log_ratio(tokens: StepTokens) -> FloatArray | None:
    """[T] logprobs - sampling_logprobs, NaN outside the loss; None where either is not recorded."""
    return _difference(tokens, "logprobs", "sampling_logprobs")


def engine_ratio(tokens: StepTokens) -> FloatArray | None:
    """[T] old_logprobs - sampling_logprobs: two programs with the same weights; else as log_ratio."""
    return _difference(tokens, "old_logprobs", "sampling_logprobs")


def stale_ratio(tokens: StepTokens) -> FloatArray | None:
    """[T] logprobs - old_logprobs: what updates since then changed; else as log_ratio."""
    return _difference(tokens, "logprobs", "old_logprobs")


def _difference(tokens: StepTokens, second: str, first: str) -> FloatArray | None:
    if second not in tokens.arrays or first not in tokens.arrays:
        return None
    with np.errstate(invalid="ignore"):
        d = tokens.arrays[second] - tokens.arrays[first]
    return np.where(tokens.in_loss, d, np.nan)


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Sampler against trainer in two parts: total d = engine + staleness, token by token.

    engine: old_logprobs - sampling_logprobs, two programs with the same weights. staleness: logprobs -
    old_logprobs, what updates since then changed; both None where old_logprobs are not recorded.
    shares: of the squared log-ratios, by part; they add up to 1 with the cross term.
    """

    total: Apart
    engine: Apart | None
    staleness: Apart | None
    engine_share: float
    staleness_share: float
    cross_share: float


def decompose(tokens: StepTokens) -> Decomposition | None:
    """The mismatch of a step; None where logprobs or sampling_logprobs are not recorded."""
    total = log_ratio(tokens)
    if total is None:
        return None
    engine, stale = engine_ratio(tokens), stale_ratio(tokens)
    nan = float("nan")
    if engine is None or stale is None:
        return Decomposition(apart(total), None, None, nan, nan, nan)
    known = np.isfinite(engine) & np.isfinite(stale)
    squares = float(((engine + stale)[known] ** 2).sum())
    if squares == 0:
        return Decomposition(apart(total), apart(engine), apart(stale), nan, nan, nan)
    return Decomposition(
        apart(total),
        apart(engine),
        apart(stale),
        float((engine[known] ** 2).sum()) / squares,
        float((stale[known] ** 2).sum()) / squares,
        float((2 * engine * stale)[known].sum()) / squares,
    )


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Negative log-likelihood of the tokens trained with cross-entropy, in nats."""

    name: str
    tokens: int
    mean: float
    largest: float


def sft_nll(tokens: StepTokens) -> list[Likelihood]:
    """-logprobs over the tokens with sft_mask 1, by who speaks (a tool by its name); all first.

    Empty where sft_mask or logprobs are not recorded.
    """
    if "sft_mask" not in tokens.arrays or "logprobs" not in tokens.arrays:
        return []
    nll = -tokens.arrays["logprobs"]
    keep = (tokens.arrays["sft_mask"] > 0) & np.isfinite(nll)
    if not keep.any():
        return []
    found = [Likelihood("all", int(keep.sum()), float(nll[keep].mean()), float(nll[keep].max()))]
    for code, role in enumerate(tokens.roles):
        own = nll[keep & (tokens.role_codes == code)]
        if len(own):
            found.append(Likelihood(role, len(own), float(own.mean()), float(own.max())))
    return found
