"""One colour scale for a whole step: the range of each token metric over its rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from board.analysis.rollout import token_values
from board.analysis.step_records import PLACES, StepRecords
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


class StepReading:
    """Reads the token metrics of a step rollout by rollout, and can be left and taken up again.

    total: rollouts of the step. done: of these, how many were read; in the end also those that can't be.
    """

    def __init__(self, run: Run, step: int) -> None:
        self.total = run.counts.get(step, 0)
        self.done = 0
        self._run = run
        self._records = StepRecords(run).of(run.rows_of(step, PLACES))
        self._read = 0
        self._spreads: dict[str, Spread] = {}

    @property
    def is_complete(self) -> bool:
        """Whether no rollout is left."""
        return self.done >= self.total

    def read_one(self) -> None:
        """Reads the next rollout that can be read."""
        found = next(self._records, None)
        if found is None:
            self.done = self.total
            return
        self.done += 1
        self._read += 1
        for name, values in in_loss(token_values(self._run, found[1])).items():
            self._spreads.setdefault(name, Spread()).add(values)

    def result(self) -> StepSpans:
        """The spans of what was read so far; a metric without a number is left out."""
        found = {name: one.percentiles(*SCALE_PERCENTILES) for name, one in self._spreads.items()}
        spans = {name: span for name, span in found.items() if span is not None}
        return StepSpans(spans, self._read, self.total)


def in_loss(metrics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Token metrics at the tokens that enter the loss; at all of them where no mask fits."""
    mask = metrics.get("loss_mask")
    return {
        name: values[mask > 0]
        if mask is not None and len(mask) == len(values) and (mask > 0).any()
        else values
        for name, values in metrics.items()
    }
