"""One colour scale for a whole step: the range of each token metric over its rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from board.analysis.rollout import token_values
from board.analysis.step_records import PLACES, Progress, StepRecords
from board.core.metrics.kl import FloatArray
from board.core.metrics.percentiles import Spread
from board.core.tokens.alignment import SCALE_PERCENTILES
from board.query.open_run import Run


@dataclass(frozen=True, slots=True)
class StepSpans:
    """spans: 1st and 99th percentile by metric, over loss tokens; of `read` rollouts out of `total`."""

    spans: dict[str, tuple[float, float]]
    read: int
    total: int


def read_spans(run: Run, step: int, progress: Progress) -> StepSpans:
    """Reads the token metrics of a step; a metric without a number is left out, and so are rollouts that
    can't be read.
    """
    spreads: dict[str, Spread] = {}
    read, total = 0, run.counts.get(step, 0)
    for _, record in StepRecords(run).of(run.rows_of(step, PLACES)):
        read += 1
        for name, values in in_loss(token_values(run, record)).items():
            spreads.setdefault(name, Spread()).add(values)
        progress(read, total)
    found = {name: one.percentiles(*SCALE_PERCENTILES) for name, one in spreads.items()}
    return StepSpans({name: span for name, span in found.items() if span is not None}, read, total)


def in_loss(metrics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Token metrics at the tokens that enter the loss; at all of them where no mask fits."""
    mask = metrics.get("loss_mask")
    return {
        name: values[mask > 0]
        if mask is not None and len(mask) == len(values) and (mask > 0).any()
        else values
        for name, values in metrics.items()
    }
