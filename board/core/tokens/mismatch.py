"""The engine that sampled against the trainer that learns: how far apart, where, and for what reason.

Tokens were drawn by the sampler. d = logprobs - sampling_logprobs of a token, r = exp(d); both policies
are named in every result, for their order changes the number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from board.core.metrics import kl
from board.core.metrics.kl import FloatArray
from board.core.tokens.pieces import KINDS
from board.core.tokens.step_tokens import StepTokens

_BLOCK: Final = 1 << 15
"""Tokens at once: what is made of them on the way stays in the processor's cache."""


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


def apart(d: FloatArray, columns: FloatArray | None = None) -> Apart:
    """How far two policies are apart by the log-ratios [n] of sampled tokens; NaN is left out.

    columns: [4, n], takes d, |d|, k3 = r - 1 - d and exp|d| - 1 of every token, 0 where d is left out.
    """
    largest = 0.0
    sums = np.zeros(len(_SUMS))
    for start in range(0, len(d), _BLOCK):
        block = slice(start, start + _BLOCK)
        own, size = _sums(d[block], None if columns is None else columns[:, block])
        sums += own
        largest = max(largest, size)
    tokens = int(sums[0])
    if not tokens:
        nan = float("nan")
        return Apart(0, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan)
    means = dict(zip(_SUMS, (sums / tokens).tolist(), strict=True))
    squares = means["rise²"] + 2 * means["rise"]  # r² - 1
    return Apart(
        tokens=tokens,
        d_mean=means["d"],
        d_largest=largest,
        forward_k1=-means["d"],
        forward_k3=means["k3"],
        reverse_k1=means["rise d"] + means["d"],
        reverse_k3=means["rise d"] - means["k3"],
        flipped_k3=means["flipped"],
        multiplicative=means["grown"] + 1.0,
        chi2=squares,
        ess=(1.0 + means["rise"]) ** 2 / (1.0 + squares),
    )


_SUMS: Final = ("tokens", "d", "k3", "rise d", "flipped", "grown", "rise", "rise²")
_MODERATE: Final = -10.0
"""Above it, 1/r is had from r - 1 with eleven digits or more."""


def _sums(d: FloatArray, columns: FloatArray | None) -> tuple[tuple[float, ...], float]:
    """Over the tokens of a block what `apart` takes means of, and the largest |d|."""
    to = [None] * 4 if columns is None else [*columns]
    known = np.isfinite(d)
    tokens = int(np.count_nonzero(known))
    if tokens < len(d):
        d = np.where(known, d, 0.0)  # adds nothing to any of the sums
    d = np.clip(d, -kl.MAX_LOG_RATIO, kl.MAX_LOG_RATIO, out=to[0])
    size = np.abs(d, out=to[1])
    rise = np.expm1(d)  # r - 1, with the digits that exp() loses
    fall = -rise / (rise + 1.0) if d.min() > _MODERATE else np.expm1(-d)  # 1/r - 1
    k3 = np.maximum(rise - d, 0.0, out=to[2])
    grown = np.maximum(rise, fall, out=to[3])
    flipped = np.maximum(fall + d, 0.0)
    sums = (
        d.sum(),
        k3.sum(),
        _dot(rise, d),
        flipped.sum(),
        grown.sum(),
        rise.sum(),
        _dot(rise, rise),
    )
    return (tokens, *map(float, sums)), float(size.max())


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


def decompose(tokens: StepTokens, total: Apart | None = None) -> Decomposition | None:
    """The mismatch of a step; None where logprobs or sampling_logprobs are not recorded.

    total: that of WHOLE, where it is at hand.
    """
    whole, engine, stale = (tokens.log_ratio(*pair) for pair in (WHOLE, ENGINE, STALENESS))
    if whole is None:
        return None
    total = total or apart(whole)
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
    """Log-ratios of a step's tokens, and what every way to sort them sums up.

    whole: of all tokens that count.
    """

    def __init__(self, tokens: StepTokens, d: FloatArray) -> None:
        """d: [T], NaN for tokens that do not count."""
        self.tokens = tokens
        self._counts = np.isfinite(d)
        self._columns = np.empty((4, len(d)))
        self.whole = apart(d, self._columns)

    def sums(self, codes: npt.NDArray[np.integer], sorts: int) -> FloatArray:
        """[5, 1 + sorts] how many tokens, and sums of d, |d|, k3 and exp|d| - 1: of none of the sorts,
        then by sort.

        codes: [T] the sort of each token, below 0 for none.
        """
        counts, columns = self._counts, self._columns
        begins = _runs(codes)
        if len(begins) * _LONG < len(codes):
            counts = np.add.reduceat(counts, begins, dtype=np.int64)
            columns = np.add.reduceat(columns, begins, axis=1)
            codes = codes[begins]
        places = codes.astype(np.intp)
        places += 1
        rows = columns if counts.all() and counts is self._counts else (counts, *columns)
        own = [np.bincount(places, weights=row, minlength=sorts + 1) for row in rows]
        if rows is columns:  # every token counts
            own.insert(0, np.bincount(places, minlength=sorts + 1))
        return np.array(own, np.float64)

    @cached_property
    def of_pieces(self) -> FloatArray:
        """[5, 1 + pieces] as sums; the first of tokens that are not known."""
        return self.sums(self.tokens.codes, len(self.tokens.pieces))


_LONG: Final = 8
"""Runs of one sort from this many tokens on are summed before they are sorted."""


def _runs(codes: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Where runs of equal codes begin."""
    changes = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    return np.concatenate(([0], changes)) if len(codes) else changes


def by_kind(ratios: Ratios) -> list[Slice]:
    """By kind of token, the largest mean |d| first."""
    kinds = np.append(KINDS.index("not known"), ratios.tokens.kinds).astype(np.intp)
    own = [np.bincount(kinds, weights=row, minlength=len(KINDS)) for row in ratios.of_pieces]
    return _slices(np.array(own, np.float64), KINDS, largest_first=True)


def by_piece(ratios: Ratios, least: int = 8) -> list[Slice]:
    """By piece, of those with `least` tokens or more; the largest mean |d| first."""
    pieces = ratios.tokens.pieces
    return _slices(ratios.of_pieces[:, 1:], pieces, least, largest_first=True)


def by_position(ratios: Ratios, bins: int = POSITION_BINS) -> list[Slice]:
    """By place in the response, in `bins` ranges of equal width up to the longest response."""
    longest = int(np.diff(ratios.tokens.starts).max(initial=0))
    width = max(-(-longest // bins), 1)
    names = [f"{i * width} to {min((i + 1) * width, longest) - 1}" for i in range(bins)]
    return _sorted(ratios, ratios.tokens.positions // width, names)


def by_turn(ratios: Ratios) -> list[Slice]:
    """By number of the turn within the response; empty where turns are not known."""
    turns = ratios.tokens.turns
    if not len(turns):
        return []
    names = [f"{i}" for i in range(int(turns.max(initial=0)) + 1)]
    return _sorted(ratios, turns, names)


def by_role(ratios: Ratios) -> list[Slice]:
    """By who speaks; empty where not known."""
    roles = ratios.tokens.role_codes
    return _sorted(ratios, roles, ratios.tokens.roles) if len(roles) else []


def by_probability(ratios: Ratios) -> list[Slice]:
    """By the probability the sampler gave the token."""
    given = ratios.tokens.arrays["sampling_logprobs"]
    bins = np.zeros(len(given), np.int8)
    for edge in PROBABILITY_EDGES[1:-1]:
        bins += given >= math.log(edge)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(PROBABILITY_EDGES)]
    return _sorted(ratios, bins, names)


def by_lag(ratios: Ratios) -> list[Slice]:
    """By staleness: the step less the policy_version that sampled; empty where not recorded."""
    tokens = ratios.tokens
    if "policy_version" not in tokens.numbers:
        return []
    lags = tokens.step - tokens.numbers["policy_version"]
    known = np.unique(lags[np.isfinite(lags)])
    of_rollout = np.where(np.isfinite(lags), np.searchsorted(known, lags), -1)
    names = [f"{lag:g}" for lag in known.tolist()]
    return _sorted(ratios, of_rollout[tokens.rollout_of], names)


def pooled(slices: Iterable[Slice]) -> list[Slice]:
    """Slices of one name as one, means over the tokens of all; in the order in which names come."""
    by_name: dict[str, list[Slice]] = {}
    for part in slices:
        by_name.setdefault(part.name, []).append(part)
    slices_of_all: list[Slice] = []
    for name, parts in by_name.items():
        _, tokens, *means = zip(*parts, strict=True)
        averages = (float(np.average(mean, weights=tokens)) for mean in means)
        slices_of_all.append(Slice(name, sum(tokens), *averages))
    return slices_of_all


def _sorted(ratios: Ratios, codes: npt.NDArray[np.integer], names: Sequence[str]) -> list[Slice]:
    return _slices(ratios.sums(codes, len(names))[:, 1:], names)


def _slices(
    sums: FloatArray, names: Sequence[str], least: int = 1, *, largest_first: bool = False
) -> list[Slice]:
    """sums: [5, names] as of Ratios.sums. least: tokens of a sort. largest_first: by mean |d|."""
    places = np.flatnonzero(sums[0] >= least)
    counts, *totals = sums[:, places]
    totals[-1] += counts  # exp|d| itself
    means = np.array(totals) / counts
    if largest_first:
        order = np.argsort(-means[1], kind="stable")
        places, counts, means = places[order], counts[order], means[:, order]
    own = (names[place] for place in places.tolist())
    return [*map(Slice._make, zip(own, counts.astype(int).tolist(), *means.tolist(), strict=True))]
