"""Do two logged arrays speak of the same tokens? Their correlation at shifts -1, 0 and +1 tells.

A sampler and a trainer, or a policy and its reference, agree about most tokens, so that their
log-probabilities correlate at shift 0 and hardly at any other, unless one of them was cut elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray
from board.core.tokens.step_tokens import StepTokens

SHIFTS: Final = (-1, 0, 1)
PAIRS: Final = (
    ("logprobs", "sampling_logprobs"),
    ("old_logprobs", "sampling_logprobs"),
    ("logprobs", "old_logprobs"),
    ("logprobs", "ref_logprobs"),
    ("sampling_logprobs", "ref_logprobs"),
)
"""The arrays that are compared: sampler with trainer, policy with reference."""
LEAST_TOKENS: Final = 100
CLEAR: Final = 0.25
"""A shift other than 0 is reported only if its correlation exceeds that at 0 by this much."""
GOOD: Final = 0.5
"""And at least this: arrays that fit each other nowhere are no shifted ones."""
_CERTAIN: Final = 5.0
"""And higher by so many standard errors, of Fisher's z: a few tokens correlate by chance."""
FLAT: Final = 0.01
"""Standard deviation in nats below which an array says nothing about shifts: what is left of it is
rounding."""
_FLOOR: Final = 10.0
"""One token of -50 nats would outweigh thousands of ordinary ones: nats below which all are alike."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One pair of arrays. correlations: by shift s, of first[i] with second[i + s] within rollouts,
    Pearson, over the loss tokens; NaN where there are too few tokens or no spread. tokens: at shift 0.
    apart: median |first[i] - second[i]|, nats. shift: the one that fits best, 0 unless another one
    fits clearly better; None where nothing can be computed. rank: of the rollouts that are compared, None
    for those of all ranks.
    """

    first: str
    second: str
    correlations: Mapping[int, float]
    tokens: int
    apart: float
    shift: int | None
    rank: int | None = None


def audit(tokens: StepTokens) -> list[Audit]:
    """Every pair of PAIRS that is recorded, over all ranks; and of ranks that are shifted where the
    whole is not: one rank of many hardly moves the correlation over all.
    """
    audits: list[Audit] = []
    for first, second in PAIRS:
        if first in tokens.arrays and second in tokens.arrays:
            whole = audit_pair(tokens, first, second)
            audits.append(whole)
            if not whole.shift:
                audits += _shifted_ranks(tokens, first, second)
    return audits


def audit_pair(tokens: StepTokens, first: str, second: str, rank: int | None = None) -> Audit:
    """One pair of arrays of a step, or of a rank's part of it.

    Raises KeyError where one is not recorded.
    """
    a, b = tokens.arrays[first], tokens.arrays[second]
    wanted = tokens.in_loss if rank is None else tokens.in_loss & (tokens.per_token("rank") == rank)
    pairs = {shift: _paired(tokens, a, b, shift, wanted) for shift in SHIFTS}
    correlations = {shift: _correlation(*pair) for shift, pair in pairs.items()}
    x, y = pairs[0]
    middle = float(np.median(np.abs(x - y))) if len(x) else float("nan")
    shift = _best(correlations, len(x))
    if shift and not _agreed(pairs, shift):
        shift = 0
    return Audit(first, second, correlations, len(x), middle, shift, rank)


def _shifted_ranks(tokens: StepTokens, first: str, second: str) -> list[Audit]:
    ranks = tokens.numbers.get("rank")
    known = np.zeros(0) if ranks is None else np.unique(ranks[np.isfinite(ranks)])
    if len(known) < 2:
        return []
    audits = (audit_pair(tokens, first, second, int(rank)) for rank in known.tolist())
    return [own for own in audits if own.shift]


def _paired(
    tokens: StepTokens, a: FloatArray, b: FloatArray, shift: int, wanted: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """a[i] and b[i + shift], both of the same rollout, wanted and finite."""
    count = len(a)
    if count <= abs(shift):
        return np.zeros(0), np.zeros(0)
    left = slice(max(-shift, 0), count - max(shift, 0))
    right = slice(max(shift, 0), count - max(-shift, 0))
    same: BoolArray = tokens.rollout_of[left] == tokens.rollout_of[right]
    keep = same & wanted[left] & wanted[right]
    keep &= np.isfinite(a[left]) & np.isfinite(b[right])
    return a[left][keep], b[right][keep]


def _correlation(a: FloatArray, b: FloatArray) -> float:
    x, y = np.maximum(a, -_FLOOR), np.maximum(b, -_FLOOR)
    if len(x) < LEAST_TOKENS or x.std() < FLAT or y.std() < FLAT:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def _best(correlations: Mapping[int, float], count: int) -> int | None:
    known = {shift: value for shift, value in correlations.items() if value == value}
    if count < LEAST_TOKENS or 0 not in known:
        return None
    best = max(known, key=lambda shift: (known[shift], -abs(shift)))
    return best if known[best] > known[0] + CLEAR and known[best] > GOOD else 0


def _agreed(pairs: Mapping[int, tuple[FloatArray, FloatArray]], shift: int) -> bool:
    """Whether ranks say the same, for which a few tokens of very low probability weigh no more than
    others; and not by chance.
    """
    ranks = ([_ranks(values) for values in pairs[s]] for s in (shift, 0))
    at, zero = (float(np.corrcoef(a, b)[0, 1]) for a, b in ranks)
    error = np.sqrt(2.0 / max(len(pairs[shift][0]) - 3, 1))
    certain = np.arctanh(min(at, 1 - 1e-9)) - np.arctanh(zero) > _CERTAIN * error
    return bool(at > zero + CLEAR and certain)


def _ranks(values: FloatArray) -> FloatArray:
    """As of Spearman's correlation, equal values having the middle of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[inverse]


def culprit(audits: list[Audit]) -> str | None:
    """The array that is cut at another place, when all shifted pairs share it and no fitting one does.

    Where only ranks are shifted, of the first of them.
    """
    shifted = [a for a in audits if a.shift]
    if not shifted:
        return None
    shifted = [a for a in shifted if a.rank == shifted[0].rank]
    apart = [{a.first, a.second} for a in shifted]
    pairs = [{a.first, a.second} for a in audits if a.shift == 0]
    fitting = [pair for pair in pairs if pair not in apart]
    shared = set[str].intersection(*apart).difference(*fitting)
    return shared.pop() if len(shared) == 1 else None
