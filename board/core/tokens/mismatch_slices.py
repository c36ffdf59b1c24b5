"""How far the sampler and the trainer are apart by sort of token; see core.mismatch for d."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from board.core.metrics.kl import FloatArray
from board.core.tokens.mismatch import apart
from board.core.tokens.step_tokens import StepTokens
from board.core.tokens.token_kinds import KINDS

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
        begins = _stretches(codes)
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
"""Stretches of one sort from this many tokens on are summed before they are sorted."""


def _stretches(codes: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Where stretches of equal codes begin."""
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
    """By place in the response, in `bins` stretches of equal width up to the longest response."""
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
    return [_merged(parts) for parts in by_name.values()]


def _merged(parts: Sequence[Slice]) -> Slice:
    tokens = sum(part.tokens for part in parts)
    fields = ("d_mean", "d_abs", "k3", "multiplicative")
    sums = [sum(part.tokens * getattr(part, name) for part in parts) for name in fields]
    return Slice(parts[0].name, tokens, *(float(total) / tokens for total in sums))


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
