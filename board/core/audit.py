"""Do two logged arrays speak of the same tokens? Their correlation at shifts -1, 0 and +1 tells.

A sampler and a trainer, or a policy and its reference, agree about most tokens: what is likely for one
is likely for the other. So their log-probabilities correlate at shift 0, and hardly at any other. When
one of them was cut at another place, the correlation is at shift -1 or +1 instead. The exporter's
check_alignment compares with a fresh forward pass; this needs nothing but the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.kl import FloatArray
from board.core.step_tokens import BoolArray, StepTokens

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
"""A shift is said to be another than 0 only where its correlation is so much higher than at 0."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One pair of arrays. correlations: by shift s, of first[i] with second[i + s] within rollouts,
    Pearson, over the loss tokens; NaN where there are too few tokens or no spread. tokens: at shift 0.
    apart: median |first[i] - second[i]|, nats. shift: the one that fits best, 0 unless another one
    fits clearly better; None where nothing can be said.
    """

    first: str
    second: str
    correlations: Mapping[int, float]
    tokens: int
    apart: float
    shift: int | None


def audit(tokens: StepTokens) -> list[Audit]:
    """Every pair of PAIRS that is recorded."""
    return [
        audit_pair(tokens, first, second)
        for first, second in PAIRS
        if first in tokens.arrays and second in tokens.arrays
    ]


def audit_pair(tokens: StepTokens, first: str, second: str) -> Audit:
    """One pair of arrays of a step. Raises KeyError where one is not recorded."""
    a, b = tokens.arrays[first], tokens.arrays[second]
    correlations = {shift: _correlation(tokens, a, b, shift) for shift in SHIFTS}
    with np.errstate(invalid="ignore"):
        difference = np.abs(a - b)
    known = np.isfinite(difference) & tokens.in_loss
    middle = float(np.median(difference[known])) if known.any() else float("nan")
    count = int(known.sum())
    return Audit(first, second, correlations, count, middle, _best(correlations, count))


def _correlation(tokens: StepTokens, a: FloatArray, b: FloatArray, shift: int) -> float:
    """Of a[i] with b[i + shift], both of the same rollout and in the loss."""
    count = len(a)
    if count <= abs(shift):
        return float("nan")
    left = slice(max(-shift, 0), count - max(shift, 0))
    right = slice(max(shift, 0), count - max(-shift, 0))
    same: BoolArray = tokens.rollout_of[left] == tokens.rollout_of[right]
    keep = same & tokens.in_loss[left] & tokens.in_loss[right]
    keep &= np.isfinite(a[left]) & np.isfinite(b[right])
    # One token of -50 nats would outweigh thousands of ordinary ones.
    x, y = (np.maximum(values, -_FLOOR) for values in (a[left][keep], b[right][keep]))
    if len(x) < LEAST_TOKENS or not x.std() or not y.std():
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


_FLOOR: Final = 10.0


def _best(correlations: Mapping[int, float], count: int) -> int | None:
    known = {shift: value for shift, value in correlations.items() if value == value}
    if count < LEAST_TOKENS or 0 not in known:
        return None
    best = max(known, key=lambda shift: (known[shift], -abs(shift)))
    return best if known[best] > known[0] + CLEAR else 0


def culprit(audits: list[Audit]) -> str | None:
    """The array that is cut at another place, when all shifted pairs share it and no fitting one does."""
    shifted = [a for a in audits if a.shift]
    fitting = {name for a in audits if a.shift == 0 for name in (a.first, a.second)}
    if not shifted:
        return None
    shared = {name for name in (shifted[0].first, shifted[0].second) if name not in fitting}
    for pair in shifted:
        shared &= {pair.first, pair.second}
    return shared.pop() if len(shared) == 1 else None
