"""The exporter that exports nothing, with the calls of the one that does."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any


class NullExporter:
    """Stands in for `RolloutExporter` where nothing is to be written: no file, no thread, no copy."""

    path: Path | None = None
    attempt = ""
    rank = 0
    world_size = 1

    def __enter__(self) -> NullExporter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    @property
    def counts(self) -> dict[str, int]:
        """Nothing written, nothing lost."""
        return {"records": 0, "lost": 0}

    def wants(self, step: int) -> bool:
        """Always False."""
        return False

    def log(self, /, step: int, **fields: Any) -> None:
        """Does nothing."""

    def log_packed(self, /, step: int, **fields: Any) -> None:
        """Does nothing."""

    def log_ragged(self, /, step: int, **fields: Any) -> None:
        """Does nothing."""

    def end_step(self, step: int, /, **metrics: Any) -> None:
        """Does nothing."""

    def report_error(
        self, where: str, error: Exception, *, step: int | None = None, rollouts: int = 0
    ) -> None:
        """Does nothing."""

    def give_up(self, error: Exception) -> None:
        """Does nothing."""

    def flush(self, timeout: float | None = 30.0) -> bool:
        """Always True."""
        return True

    def close(self, timeout: float | None = 30.0) -> None:
        """Does nothing."""
