"""One colour scale for a whole step: the range of each token metric over its rollouts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from board.core.alignment import shared_spans
from board.core.kl import FloatArray
from board.errors import BoardError
from board.store.rollout import OpenRollout, open_rollout
from board.store.run import Run

MOST_ROLLOUTS: Final = 32
"""Rollouts that are read for a step's ranges, evenly spread; more would take long and change little."""


@dataclass(frozen=True, slots=True)
class StepSpans:
    """spans: 1st and 99th percentile by metric, over loss tokens; of `read` rollouts out of `total`."""

    spans: dict[str, tuple[float, float]]
    read: int
    total: int


def step_spans(run: Run, step: int) -> StepSpans:
    """Ranges of the token metrics over a step; rollouts that can't be read are passed over."""
    total = len(run.of_step(step))  # read once here, not for each rollout
    wanted = np.unique(np.linspace(0, total - 1, min(total, MOST_ROLLOUTS)).round().astype(int))
    sides: list[dict[str, FloatArray]] = []
    for index in wanted.tolist():
        try:
            sides.append(in_loss(open_rollout(run, step, index)))
        except BoardError:
            continue
    return StepSpans(shared_spans(sides), len(sides), total)


def in_loss(opened: OpenRollout) -> dict[str, FloatArray]:
    """A rollout's token metrics at the tokens that enter the loss; all where no mask fits."""
    mask = opened.metrics.get("loss_mask")
    return {
        name: values[mask > 0]
        if mask is not None and len(mask) == len(values) and (mask > 0).any()
        else values
        for name, values in opened.metrics.items()
    }
