"""Rollout Board's exporter by the name of the package: `from rollout_board import RolloutExporter`."""

from typing import Any

import exporters
from exporters import (
    SCHEMA_VERSION,
    DataShard,
    NullExporter,
    RolloutExporter,
    is_writer,
    shard_of_mesh,
    shard_of_ranks,
)

__all__ = [
    "SCHEMA_VERSION",
    "DataShard",
    "NullExporter",
    "RolloutExporter",
    "check_alignment",  # pyright: ignore[reportUnsupportedDunderAll] - see __getattr__
    "is_writer",
    "shard_of_mesh",
    "shard_of_ranks",
]


def __getattr__(name: str) -> Any:
    return getattr(exporters, name)  # of what needs torch


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
