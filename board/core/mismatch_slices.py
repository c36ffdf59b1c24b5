"""How far the sampler and the trainer are apart by sort of token; see core.mismatch for d."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from board.core import kl
from board.core.kl import FloatArray
from board.core.step_tokens import IntArray, StepTokens
from board.core.token_kinds import KINDS

PROBABILITY_EDGES: Final = (0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0)
POSITION_BINS: Final = 20


@dataclass(frozen=True, slots=True)
class Slice:
    """Tokens of one sort. d_mean, d_abs: mean of d and of |d|; k3: KL(sampler‖trainer), in nats."""

    name: str
    tokens: int
    d_mean: float
    d_abs: float
    k3: float
    multiplicative: float


class Ratios:
    """Log-ratios of a step's tokens, with what every way to sort them sums up."""

    def __init__(self, d: FloatArray) -> None:
        """d: [T], NaN for tokens that do not count."""
        self.counts = np.isfinite(d)
        d = np.clip(d[self.counts], -kl.MAX_LOG_RATIO, kl.MAX_LOG_RATIO)
        size = np.abs(d)
        self.columns = (d, size, kl.mismatch_kl(d, np.zeros_like(d)), np.exp(size))
        """Of tokens that count, in the order of Slice: d, |d|, k3 and exp|d|."""


def by_kind(tokens: StepTokens, ratios: Ratios) -> list[Slice]:
    """By kind of token, the largest mean |d| first."""
    found = _slices(tokens.token_kinds.astype(np.int64), KINDS, ratios)
    return sorted(found, key=lambda part: -part.d_abs)


def by_piece(tokens: StepTokens, ratios: Ratios, least: int = 8) -> list[Slice]:
    """By piece, of those with `least` tokens or more; the largest mean |d| first."""
    found = _slices(tokens.codes.astype(np.int64), tokens.pieces, ratios, least)
    return sorted(found, key=lambda part: -part.d_abs)


def by_position(tokens: StepTokens, ratios: Ratios, bins: int = POSITION_BINS) -> list[Slice]:
    """By place in the response, in `bins` stretches of equal width up to the longest response."""
    longest = int(np.diff(tokens.starts).max(initial=0))
    width = max(-(-longest // bins), 1)
    names = [f"{i * width} to {min((i + 1) * width, longest) - 1}" for i in range(bins)]
    return _slices(tokens.positions // width, names, ratios)


def by_turn(tokens: StepTokens, ratios: Ratios) -> list[Slice]:
    """By number of the turn within the response; empty where turns are not known."""
    if not len(tokens.turns):
        return []
    names = [f"{i}" for i in range(int(tokens.turns.max(initial=0)) + 1)]
    return _slices(tokens.turns.astype(np.int64), names, ratios)


def by_role(tokens: StepTokens, ratios: Ratios) -> list[Slice]:
    """By who speaks; empty where not known."""
    if not len(tokens.role_codes):
        return []
    return _slices(tokens.role_codes.astype(np.int64), tokens.roles, ratios)


def by_probability(tokens: StepTokens, ratios: Ratios) -> list[Slice]:
    """By the probability the sampler gave the token."""
    p = kl.probability(tokens.arrays["sampling_logprobs"])
    edges = np.array(PROBABILITY_EDGES)
    bins = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, len(edges) - 2)
    bins = np.where(np.isfinite(p), bins, -1)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(PROBABILITY_EDGES)]
    return _slices(bins, names, ratios)


def by_lag(tokens: StepTokens, ratios: Ratios) -> list[Slice]:
    """By staleness: the step less the policy_version that sampled; empty where not recorded."""
    if "policy_version" not in tokens.numbers:
        return []
    lags = tokens.step - tokens.numbers["policy_version"]
    known = np.unique(lags[np.isfinite(lags)])
    of_rollout = np.where(np.isfinite(lags), np.searchsorted(known, lags), -1)
    names = [f"{lag:g}" for lag in known.tolist()]
    return _slices(of_rollout.astype(np.int64)[tokens.rollout_of], names, ratios)


def pooled(slices: Iterable[Slice]) -> list[Slice]:
    """Slices of one name as one, means over the tokens of all; in the order in which names come."""
    by_name: dict[str, list[Slice]] = {}
    for part in slices:
        by_name.setdefault(part.name, []).append(part)
    return [_merged(parts) for parts in by_name.values()]


def _merged(parts: Sequence[Slice]) -> Slice:
    tokens = sum(part.tokens for part in parts)
    fields = ("d_mean", "d_abs", "k3", "multiplicative")
    sums = [sum(part.tokens * getattr(part, name) for part in parts) for name in fields]
    return Slice(parts[0].name, tokens, *(float(total) / tokens for total in sums))


def _slices(codes: IntArray, names: Sequence[str], ratios: Ratios, least: int = 1) -> list[Slice]:
    """codes: [T] place of each token's sort in names, below 0 for none. least: tokens of a sort."""
    places, bins = codes[ratios.counts] + 1, len(names) + 1
    counts = np.bincount(places, minlength=bins)
    kept = np.flatnonzero(counts[1:] >= least) + 1
    totals = [np.bincount(places, weights=values, minlength=bins) for values in ratios.columns]
    means = np.stack([total[kept] / counts[kept] for total in totals], axis=1)
    return [
        Slice(names[place - 1], count, *own)
        for place, count, own in zip(
            kept.tolist(), counts[kept].tolist(), means.tolist(), strict=True
        )
    ]
