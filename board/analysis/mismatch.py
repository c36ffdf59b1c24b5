"""Sampler against trainer at a step, and over the steps of a run, read step after step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from board.analysis.step_records import Progress
from board.analysis.step_tokens import COLUMNS, ReadTokens, StepReader, read_step
from board.core.sampling import evenly_spaced
from board.core.tokens.masks import recorded_clip
from board.core.tokens.mismatch import (
    ENGINE,
    STALENESS,
    WHOLE,
    Decomposition,
    Likelihood,
    Ratios,
    Slice,
    by_kind,
    by_lag,
    by_piece,
    by_position,
    by_probability,
    by_role,
    by_turn,
    decompose,
    sft_nll,
)
from board.core.tokens.rule_counts import Numbers, RuleCounts, count_rules
from board.core.tokens.step_tokens import StepTokens
from board.query.open_run import Run

ENGINE_LAG: Final = "engine by lag"
STALE_LAG: Final = "staleness by lag"
SCANNED_ROLLOUTS: Final = 64
"""Of each step when the whole run is looked at, evenly spread."""

_READ: Final = ReadTokens(
    ("logprobs", "sampling_logprobs", "old_logprobs", "advantages", "sft_mask", "loss_mask")
)
_SLICES: Final[Mapping[str, Callable[[Ratios], list[Slice]]]] = {
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
    """Of a step, over `read` of its `total` rollouts. parts: None where logprobs or sampling_logprobs
    are not recorded. slices: of tokens, by what they go by; those that are empty are left out;
    ENGINE_LAG, STALE_LAG: the two parts of the log-ratio by policy lag. likelihood: of tokens with
    sft_mask 1.
    """

    step: int
    read: int
    total: int
    parts: Decomposition | None
    rules: tuple[RuleCounts, ...]
    slices: Mapping[str, tuple[Slice, ...]]
    likelihood: tuple[Likelihood, ...]


def own_numbers(run: Run) -> dict[str, dict[str, float]]:
    """Thresholds that the run's settings name, by rule; rules without one have their defaults."""
    clips = (recorded_clip(content) for content in reversed([*run.settings.values()]))
    return next(({"ratio_clip": clip} for clip in clips if clip is not None), {})


def step_mismatch(run: Run, step: int, progress: Progress | None = None) -> StepMismatch:
    """All rollouts of a step. Raises NotFoundError when the run has no such step."""
    tokens = read_step(run, step, _READ, progress=progress)
    return _of(tokens, run.counts[step], own_numbers(run), [*_SLICES])


def mismatch_by_step(run: Run, steps: Iterable[int]) -> Iterator[StepMismatch]:
    """One entry per step, of up to SCANNED_ROLLOUTS rollouts evenly spread, as it is read; who asks for
    no more stops the reading.
    """
    reader, own = StepReader(run, _READ), own_numbers(run)
    for step in steps:
        rows = run.frame(COLUMNS, (step, step))
        tokens = reader.read(step, rows.iloc[evenly_spaced(len(rows), SCANNED_ROLLOUTS)])
        yield _of(tokens, len(rows), own, ["lag"])


def _of(tokens: StepTokens, total: int, own: Numbers, wanted: Sequence[str]) -> StepMismatch:
    d = tokens.log_ratio(*WHOLE)
    ratios = None if d is None else Ratios(tokens, d)
    slices = {} if ratios is None else {name: tuple(_SLICES[name](ratios)) for name in wanted}
    if slices.get("lag"):
        for name, pair in ((ENGINE_LAG, ENGINE), (STALE_LAG, STALENESS)):
            part = tokens.log_ratio(*pair)
            slices[name] = () if part is None else tuple(by_lag(Ratios(tokens, part)))
    return StepMismatch(
        tokens.step,
        len(tokens.indices),
        total,
        decompose(tokens),
        tuple(count_rules(tokens, own)),
        {name: clip for name, clip in slices.items() if clip},
        tuple(sft_nll(tokens)),
    )
