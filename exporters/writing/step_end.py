"""The end of a step and the metrics that its caller has for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from exporters.arrays.batch import private_copy, reason
from exporters.arrays.snapshot import Copies
from exporters.record import dump, rounded_metric


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a step in the queue, behind all of its rollouts.

    ready: events to wait for before the metrics are read.
    """

    step: int
    metrics: Mapping[str, Any]
    ready: Sequence[Any] = ()

    def encoded(
        self, digits: int, redacted: Callable[[Any], Any] | None = None
    ) -> tuple[dict[str, orjson.Fragment], dict[str, str]]:
        """The metrics as they are written, and why each of the others cannot be."""
        encoded: dict[str, orjson.Fragment] = {}
        refused: dict[str, str] = {}
        for name, value in self.metrics.items():
            try:
                for event in self.ready:
                    event.synchronize()
                dump(name)
                number = rounded_metric(value, digits)
                encoded[name] = orjson.Fragment(dump(redacted(number) if redacted else number))
            except Exception as error:
                refused[name] = reason(error)
        return encoded, refused


def take_step_end(step: int, metrics: Mapping[str, Any], refused: dict[str, str]) -> StepEnd:
    """Copies the metrics; a tensor on a device without waiting for it.

    What is an array of more than one number is left out and named in `refused`.
    """
    copies, copied = Copies(), dict[str, Any]()
    for name, value in metrics.items():
        try:
            is_tensor = hasattr(value, "detach")
            metric = copies.take(value, exact=True) if is_tensor else private_copy(value)
            if isinstance(metric, np.ndarray) and metric.size != 1:
                raise ValueError(f"expected one number, found {list(metric.shape)}")
            copied[name] = metric
        except Exception as error:
            refused[name] = reason(error)
    return StepEnd(step, copied, copies.ready())
