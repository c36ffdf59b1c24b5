"""What runs inside a training job: every rollout, to step-tagged JSONL.

Needs orjson and numpy only. Arrays, nested lists and torch tensors are accepted; torch itself is
never imported from here, except by what is asked for in its name: `check_alignment`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from exporters.null import NullExporter
from exporters.parallel import DataShard, is_writer, shard_of_mesh, shard_of_ranks
from exporters.record import SCHEMA_VERSION
from exporters.writer import RolloutExporter

if TYPE_CHECKING:
    from exporters.alignment import check_alignment

__all__ = [
    "SCHEMA_VERSION",
    "DataShard",
    "NullExporter",
    "RolloutExporter",
    "check_alignment",
    "is_writer",
    "shard_of_mesh",
    "shard_of_ranks",
]


def __getattr__(name: str) -> Any:
    if name == "check_alignment":  # it needs torch, which an exporting process may do without
        from exporters.alignment import check_alignment

        return check_alignment
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
