"""What runs inside a training job: write every rollout with its scores and per-token arrays to step-tagged JSONL.

Needs orjson and numpy only. Tensors of any framework that knows `detach` and `numpy` are accepted, so torch is used when
it is there and never imported from here.
"""

from exporters.record import SCHEMA_VERSION
from exporters.writer import RolloutExporter

__all__ = ["SCHEMA_VERSION", "RolloutExporter"]
