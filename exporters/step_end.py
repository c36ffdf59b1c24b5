"""The end of a step and the metrics that its caller has for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporters.record import rounded_metric
from exporters.snapshot import Copies


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a step in the queue, behind all of its rollouts.

    ready: events to wait for before the metrics are read.
    """

    step: int
    metrics: Mapping[str, Any]
    ready: Sequence[Any] = ()

    def rounded(self, digits: int) -> dict[str, Any]:
        """The metrics as they are written."""
        for event in self.ready:
            event.synchronize()
        return {name: rounded_metric(value, digits) for name, value in self.metrics.items()}


def take_step_end(step: int, metrics: Mapping[str, Any], refused: dict[str, str]) -> StepEnd:
    """Copies the metrics; a tensor on a device without waiting for it.

    What is an array of more than one number is left out and named in `refused`.
    """
    copies, copied = Copies(), dict[str, Any]()
    for name, value in metrics.items():
        try:
            copied[name] = copies.take(value) if hasattr(value, "detach") else value
            if getattr(copied[name], "size", 1) != 1:
                raise ValueError(f"expected one number, found {list(copied.pop(name).shape)}")
        except (TypeError, ValueError) as error:
            refused[name] = str(error)
    return StepEnd(step, copied, copies.ready())
