"""Sampler against trainer at a step of a run: what the Mismatch page shows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.kl import FloatArray
from board.core.masks import recorded_clip
from board.core.mismatch import (
    Decomposition,
    Likelihood,
    RuleShares,
    Slice,
    by_kind,
    by_lag,
    by_piece,
    by_position,
    by_probability,
    by_role,
    by_turn,
    decompose,
    log_ratio,
    rule_shares,
    sft_nll,
)
from board.core.step_tokens import StepTokens
from board.store.run import Run
from board.store.step_tokens import Progress, ReadTokens, StepReader, read_step

SCANNED_ROLLOUTS: Final = 64
"""Of each step when the whole run is looked at, evenly spread."""

_ARRAYS: Final = (
    *("logprobs", "sampling_logprobs", "old_logprobs", "advantages", "sft_mask", "loss_mask"),
)
_WHOLE: Final = ReadTokens(_ARRAYS)
_BRIEF: Final = ReadTokens(_ARRAYS, roles=True)
_SLICES: Final[Mapping[str, Callable[[StepTokens, FloatArray], list[Slice]]]] = {
    "position": by_position,
    "probability": by_probability,
    "kind": by_kind,
    "piece": by_piece,
    "turn": by_turn,
    "role": by_role,
    "lag": by_lag,
}


@dataclass(frozen=True, slots=True)
class StepMismatch:
    """parts: None where logprobs or sampling_logprobs are not recorded. slices: by what they go by; those
    that are empty are left out. rollouts: read; left_out: of the step, not read.
    """

    step: int
    rollouts: int
    left_out: int
    parts: Decomposition | None
    rules: tuple[RuleShares, ...]
    slices: Mapping[str, tuple[Slice, ...]]
    likelihood: tuple[Likelihood, ...]


def clip_numbers(run: Run) -> dict[str, dict[str, float]]:
    """Thresholds that the run's settings name, by rule; rules without one have their defaults."""
    for content in reversed([*run.settings.values()]):
        found = recorded_clip(content)
        if found is not None:
            return {"ratio_clip": found}
    return {}


def step_mismatch(run: Run, step: int, progress: Progress | None = None) -> StepMismatch:
    """All rollouts of a step. Raises NotFoundError when the run has no such step."""
    tokens = read_step(run, step, _WHOLE, progress=progress)
    return _of(tokens, clip_numbers(run), [*_SLICES])


def scanned_step(run: Run, step: int) -> StepMismatch:
    """SCANNED_ROLLOUTS of a step at most, and no slices but those by lag."""
    rows = run.of_step(step)
    if len(rows) > SCANNED_ROLLOUTS:
        places = np.linspace(0, len(rows) - 1, SCANNED_ROLLOUTS).round().astype(int)
        rows = rows.iloc[np.unique(places)]
    tokens = StepReader(run, _BRIEF).read(step, rows)
    return _of(tokens, clip_numbers(run), ["lag"])


def _of(
    tokens: StepTokens, numbers: Mapping[str, Mapping[str, float]], wanted: list[str]
) -> StepMismatch:
    d = log_ratio(tokens)
    slices = {} if d is None else {name: tuple(_SLICES[name](tokens, d)) for name in wanted}
    return StepMismatch(
        tokens.step,
        len(tokens.indices),
        tokens.left_out,
        decompose(tokens),
        tuple(rule_shares(tokens, numbers)),
        {name: found for name, found in slices.items() if found},
        tuple(sft_nll(tokens)),
    )
