"""What runs inside a training job: every rollout, to step-tagged JSONL.

Needs orjson and numpy only. Arrays, nested lists and torch tensors are accepted; torch itself is
never imported from here.
"""

from exporters.record import SCHEMA_VERSION
from exporters.writer import RolloutExporter

__all__ = ["SCHEMA_VERSION", "RolloutExporter"]
