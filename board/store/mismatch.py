"""Sampler against trainer over the steps of a run, read step after step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from board.core.mismatch import Decomposition, RuleShares, decompose, rule_shares
from board.store.run import Run
from board.store.step_tokens import COLUMNS, ReadTokens, StepReader

_ARRAYS = ("logprobs", "old_logprobs", "sampling_logprobs", "advantages")


@dataclass(frozen=True, slots=True)
class StepMismatch:
    """Of a step, over `read` of its `total` rollouts. parts: None where logprobs or sampling_logprobs
    are not recorded.
    """

    step: int
    read: int
    total: int
    parts: Decomposition | None
    shares: Sequence[RuleShares]


def mismatch_by_step(
    run: Run,
    steps: Sequence[int] | None = None,
    rollouts: int = 64,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[StepMismatch]:
    """One entry per step (all by default), as it is read; who asks for no more stops the reading.

    rollouts: of each step at most, evenly spread. progress: called with steps done and steps in all.
    """
    table = run.chosen(COLUMNS)
    of = table["step"].to_numpy()
    wanted = [*run.counts] if steps is None else [*steps]
    reader = StepReader(run, ReadTokens(_ARRAYS, roles=False))
    for done, step in enumerate(wanted, 1):
        first, end = np.searchsorted(of, (step, step + 1)).tolist()
        places = np.linspace(first, end - 1, min(end - first, rollouts)).round().astype(np.int64)
        tokens = reader.read(step, table.iloc[places])
        yield StepMismatch(
            step, len(tokens.indices), end - first, decompose(tokens), rule_shares(tokens)
        )
        if progress is not None:
            progress(done, len(wanted))
