"""What a hook does outside the exporter's own calls must not raise into training either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from exporters.writer import RolloutExporter


@contextmanager
def guarded(exporter: RolloutExporter, where: str) -> Iterator[None]:
    """Counts what goes wrong inside as `errors:WHERE`, as the exporter does with its own errors.

    In strict mode the error is raised.
    """
    try:
        yield
    except Exception as error:
        exporter._counters.fail(where, error)
        if exporter._strict:
            raise
