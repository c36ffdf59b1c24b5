"""The engine that sampled against the trainer that learns: how far apart, where, and for what reason.

Tokens were drawn by the sampler. d = logprobs - sampling_logprobs of a token, r = exp(d); both policies
are named in every result, for their order changes the number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from board.core.arrays import FloatArray
from board.core.metrics import kl
from board.core.tokens.pieces import KINDS
from board.core.tokens.step_tokens import StepTokens


@dataclass(frozen=True, slots=True)
class Apart:
    """How far two policies are apart over `tokens` sampled tokens; means over tokens, NaN without any.

    d is the log-ratio second policy less first, the first one having drawn the tokens, r = exp(d).
    d_mean: nats. forward_k1, forward_k3: KL(first‖second): -d; r - 1 - d. reverse_k1, reverse_k3:
    KL(second‖first), importance-weighted since the first drew the tokens: r d; r d - r + 1. flipped_k3:
    exp(-d) - 1 + d, NeMo-RL's policy_kl_error. multiplicative: mean exp|d|, NeMo-RL's
    token_mult_prob_error. chi2: mean r² - 1, verl's rollout_corr/chi2_token; the mean r of a sample need
    not be 1, so that it may be below 0: with r divided by its mean it is 1/ess - 1, at least 0. ess:
    (Σr)² / (n Σr²), the share of tokens that weights by r leave effective, 0 to 1; verl's
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


def apart(d: FloatArray) -> Apart:
    """How far two policies are apart by the log-ratios [n] of sampled tokens; NaN is left out."""
    d = np.clip(d[np.isfinite(d)], -kl.MAX_LOG_RATIO, kl.MAX_LOG_RATIO)
    if not len(d):
        return Apart(0, *[float("nan")] * 10)
    # r - 1 and 1/r - 1, with the digits that exp() loses.
    rise, fall = np.expm1(d), np.expm1(-d)
    mean, weighted, rise_mean = float(d.mean()), float((rise * d).mean()), float(rise.mean())
    k3 = float(np.maximum(rise - d, 0.0).mean())
    squares = float((rise * rise).mean()) + 2 * rise_mean  # r² - 1
    return Apart(
        tokens=len(d),
        d_mean=mean,
        d_largest=float(np.abs(d).max()),
        forward_k1=-mean,
        forward_k3=k3,
        reverse_k1=weighted + mean,
        reverse_k3=weighted - k3,
        flipped_k3=float(np.maximum(fall + d, 0.0).mean()),
        multiplicative=float(np.maximum(rise, fall).mean()) + 1.0,
        chi2=squares,
        ess=(1.0 + rise_mean) ** 2 / (1.0 + squares),
    )


WHOLE: Final = ("logprobs", "sampling_logprobs")
ENGINE: Final = ("old_logprobs", "sampling_logprobs")
STALENESS: Final = ("logprobs", "old_logprobs")
"""Arrays for StepTokens.log_ratio: trainer less sampler; two programs with the same weights; what updates
since then changed.
"""


@dataclass(frozen=True, slots=True)
class Decomposition:
    """Sampler against trainer in two parts: total d = engine + staleness, token by token.

    engine, staleness: of ENGINE and STALENESS; None where old_logprobs are not recorded. shares: of the
    squared log-ratios, by part; they add up to 1 with the cross term.
    """

    total: Apart
    engine: Apart | None
    staleness: Apart | None
    engine_share: float
    staleness_share: float
    cross_share: float


def decompose(tokens: StepTokens) -> Decomposition | None:
    """The mismatch of a step; None where logprobs or sampling_logprobs are not recorded."""
    whole, engine, stale = (tokens.log_ratio(*pair) for pair in (WHOLE, ENGINE, STALENESS))
    if whole is None:
        return None
    total = apart(whole)
    if engine is None or stale is None:
        return Decomposition(total, None, None, np.nan, np.nan, np.nan)
    known = np.isfinite(engine) & np.isfinite(stale)
    a, b = engine[known], stale[known]
    parts = np.array([_dot(a, a), _dot(b, b), 2 * _dot(a, b)])
    squares = _dot(a + b, a + b)
    shares = (parts / squares).tolist() if squares else [np.nan] * 3
    return Decomposition(total, apart(engine), apart(stale), *shares)


def _dot(a: FloatArray, b: FloatArray) -> float:
    """Without the threads of BLAS, which wait for each other longer than they take."""
    return float(np.einsum("i,i", a, b))


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
    spoken = {role: keep & (tokens.role_codes == code) for code, role in enumerate(tokens.roles)}
    values = [("all", nll[keep]), *((role, nll[mask]) for role, mask in spoken.items())]
    return [
        Likelihood(name, len(own), float(own.mean()), float(own.max()))
        for name, own in values
        if len(own)
    ]


PROBABILITY_EDGES: Final = (0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
POSITION_BINS: Final = 20


class Slice(NamedTuple):
    """Tokens of one sort. d_mean, d_abs: mean of d and of |d|; k3: KL(sampler‖trainer), in nats."""

    name: str
    tokens: int
    d_mean: float
    d_abs: float
    k3: float
    multiplicative: float


class Ratios:
    """Log-ratios of a step's tokens, and what every way to sort them sums up."""

    def __init__(self, tokens: StepTokens, d: FloatArray) -> None:
        """d: [T], NaN for tokens that do not count."""
        self.tokens = tokens
        known = np.isfinite(d)
        d = np.clip(np.where(known, d, 0.0), -kl.MAX_LOG_RATIO, kl.MAX_LOG_RATIO)
        size = np.abs(d)
        self._rows = (known, d, size, kl.mismatch_kl(d, np.zeros_like(d)), np.exp(size) * known)

    def slices(
        self,
        codes: npt.NDArray[np.integer],
        names: Sequence[str],
        least: int = 1,
        *,
        largest_first: bool = False,
    ) -> list[Slice]:
        """Tokens by sort, those of `least` tokens or more. codes: [T] the sort of each, its place in
        names, below 0 for none. largest_first: by mean |d|.
        """
        places = codes.astype(np.intp) + 1
        sums = np.array([np.bincount(places, row, len(names) + 1)[1:] for row in self._rows])
        sorts = np.flatnonzero(sums[0] >= least)
        means = sums[1:, sorts] / sums[0, sorts]
        order = np.argsort(-means[1], kind="stable") if largest_first else np.arange(len(sorts))
        listed: list[int] = sorts[order].tolist()
        return [
            Slice(names[sort], int(sums[0, sort]), *means[:, i].tolist())
            for i, sort in zip(order.tolist(), listed, strict=True)
        ]


def by_kind(ratios: Ratios) -> list[Slice]:
    """By kind of token, the largest mean |d| first."""
    return ratios.slices(ratios.tokens.token_kinds, KINDS, largest_first=True)


def by_piece(ratios: Ratios, least: int = 8) -> list[Slice]:
    """By piece, of those with `least` tokens or more; the largest mean |d| first."""
    return ratios.slices(ratios.tokens.codes, ratios.tokens.pieces, least, largest_first=True)


def by_position(ratios: Ratios, bins: int = POSITION_BINS) -> list[Slice]:
    """By place in the response, in `bins` ranges of equal width up to the longest response."""
    longest = int(np.diff(ratios.tokens.starts).max(initial=0))
    width = max(-(-longest // bins), 1)
    names = [f"{i * width} to {min((i + 1) * width, longest) - 1}" for i in range(bins)]
    return ratios.slices(ratios.tokens.positions // width, names)


def by_turn(ratios: Ratios) -> list[Slice]:
    """By number of the turn within the response; empty where turns are not known."""
    turns = ratios.tokens.turns
    names = [f"{i}" for i in range(int(turns.max(initial=0)) + 1)]
    return ratios.slices(turns, names) if len(turns) else []


def by_role(ratios: Ratios) -> list[Slice]:
    """By who speaks; empty where not known."""
    roles = ratios.tokens.role_codes
    return ratios.slices(roles, ratios.tokens.roles) if len(roles) else []


def by_probability(ratios: Ratios) -> list[Slice]:
    """By the probability the sampler gave the token."""
    given = ratios.tokens.arrays["sampling_logprobs"]
    bins = np.zeros(len(given), np.int8)
    for edge in PROBABILITY_EDGES[1:-1]:
        bins += given >= math.log(edge)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(PROBABILITY_EDGES)]
    return ratios.slices(bins, names)


def by_lag(ratios: Ratios) -> list[Slice]:
    """By staleness: the step less the policy_version that sampled; empty where not recorded."""
    tokens = ratios.tokens
    if "policy_version" not in tokens.numbers:
        return []
    lags = tokens.step - tokens.numbers["policy_version"]
    known = np.unique(lags[np.isfinite(lags)])
    of_rollout = np.where(np.isfinite(lags), np.searchsorted(known, lags), -1)
    names = [f"{lag:g}" for lag in known.tolist()]
    return ratios.slices(of_rollout[tokens.rollout_of], names)


def pooled(slices: Iterable[Slice]) -> list[Slice]:
    """Slices of one name as one, means over the tokens of all; in the order in which names come."""
    by_name: dict[str, list[Slice]] = {}
    for part in slices:
        by_name.setdefault(part.name, []).append(part)
    return [_mean_of(name, parts) for name, parts in by_name.items()]


def _mean_of(name: str, parts: Sequence[Slice]) -> Slice:
    _, tokens, *means = zip(*parts, strict=True)
    return Slice(name, sum(tokens), *(float(np.average(own, weights=tokens)) for own in means))
