"""Nothing that a hook does raises into training: neither opening the exporter nor what comes after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from exporters.arrays.batch import count_rollouts
from exporters.settings import is_strict
from exporters.writer import RolloutExporter


def open_guarded(
    new_exporter: Callable[[], RolloutExporter], strict: bool | None = None
) -> RolloutExporter:
    """Return what `new_exporter` does. Where it fails: one that exports nothing and says so once.

    In strict mode the error is raised.
    """
    try:
        return new_exporter()
    except Exception as error:
        if is_strict(strict):
            raise
        exporter = RolloutExporter("", rank=0, world_size=1, enabled=False)
        exporter.give_up(error)
        return exporter


@contextmanager
def guarded(
    exporter: RolloutExporter,
    where: str,
    step: int | None = None,
    rollouts: Callable[[], Any] = tuple,
) -> Iterator[None]:
    """Count what goes wrong inside as `errors:WHERE`, and as many rollouts as `rollouts()` has as lost.

    In strict mode the error is raised.
    """
    try:
        yield
    except Exception as error:
        lost = 0
        with suppress(Exception):
            lost = count_rollouts(rollouts())
        exporter.report_error(where, error, step=step, rollouts=lost)
