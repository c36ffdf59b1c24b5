"""The arguments of an exporter, checked before anything is opened."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `RolloutExporter` was told; its docstring says what each means."""

    folder: Path
    rank: int
    world_size: int
    attempt: str
    start_step: int | None
    temperature: float
    logprobs_mode: str
    engine: str | None
    digits: int
    every_n_steps: int
    max_samples_per_step: int | None
    mode: str
    queue_bytes: int
    max_inflight_steps: int
    on_full: str
    full_timeout: float
    rotate_bytes: int
    compress: str | None
    fsync: str | None
    dialect: str

    def check(self) -> None:
        """Raises ValueError for the first setting that cannot work, ImportError for a missing part."""
        for name, is_good, expected in self._rules():
            if not is_good:
                raise ValueError(f"{name}: expected {expected}, found {getattr(self, name)!r}")
        if self.compress and importlib.util.find_spec("zstandard") is None:
            raise ImportError(
                "compress='zstd' needs the package zstandard: pip install 'rollout-board[zstd]', or "
                "leave compress out"
            )

    def header(self, started: float) -> dict[str, object]:
        """What the header line and the run's document both say."""
        return {
            "attempt": self.attempt,
            "started": started,
            "start_step": self.start_step,
            "world_size": self.world_size,
            "digits": self.digits,
            "temperature": self.temperature,
            "logprobs_mode": self.logprobs_mode,
            "engine": self.engine,
            "max_samples_per_step": self.max_samples_per_step,
            "every_n_steps": self.every_n_steps,
        }

    def _rules(self) -> tuple[tuple[str, bool, str], ...]:
        limit = self.max_samples_per_step
        return (
            ("world_size", self.world_size >= 1, "at least 1"),
            ("rank", 0 <= self.rank < self.world_size, f"0 to {self.world_size - 1}"),
            ("temperature", self.temperature > 0, "more than 0"),
            ("logprobs_mode", self.logprobs_mode in ("processed", "raw"), "processed or raw"),
            ("digits", 1 <= self.digits <= 9, "1 to 9"),
            ("every_n_steps", self.every_n_steps >= 1, "at least 1"),
            ("max_samples_per_step", limit is None or limit >= 1, "None or at least 1"),
            ("mode", self.mode in ("thread", "sync"), "thread or sync"),
            ("queue_bytes", self.queue_bytes > 0, "more than 0"),
            ("max_inflight_steps", self.max_inflight_steps >= 1, "at least 1"),
            ("on_full", self.on_full in ("block", "drop"), "block or drop"),
            ("full_timeout", self.full_timeout >= 0, "0 s or more"),
            ("rotate_bytes", self.rotate_bytes >= 1 << 16, "at least 65536"),
            ("compress", self.compress in (None, "zstd"), "None or zstd"),
            ("fsync", self.fsync in (None, "step"), "None or step"),
            ("dialect", self.dialect in ("native", "rllb"), "native or rllb"),
        )


def rank_of_launch(rank: int | None) -> int:
    """`rank`, or the launcher's RANK, or 0."""
    return int(os.environ.get("RANK", "0")) if rank is None else rank


def size_of_launch(world_size: int | None) -> int:
    """`world_size`, or the launcher's WORLD_SIZE, or 1."""
    return int(os.environ.get("WORLD_SIZE", "1")) if world_size is None else world_size
