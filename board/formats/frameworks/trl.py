"""TRL's completions: completions/completions_{step}.parquet, a table per logged step, texts only.

Read from huggingface/trl@f2cd577 trl/trainer/grpo_trainer.py (`log`), written since v0.28: beside the
rollouts a column per reward function and columns of log_extra. The table is the buffer of the newest
generation batch: where steps outnumber generations, the same rollouts are written again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, named_rewards
from board.formats.io.parquet_files import PARQUET, ParquetFiles
from board.formats.sources import Source

_OURS: Final[Mapping[str, str]] = {
    "step": "step",
    "prompt": "prompt",
    "completion": "response",
    "advantage": "advantage",
}

_COMPLETIONS: Final = ParquetFiles(tells_nulls=True)


class TRLReader(Reader):
    """Reads the completions that TRL's GRPO and RLOO trainers log."""

    name = "trl"
    title = "TRL completions"
    sources = (PARQUET,)
    layout = re.compile(r"completions/completions_(?P<step>[0-9]+)\.parquet")
    repeats = "file_buffer"
    recording: Mapping[str, str] = {
        "env": 'Call log_extra("env", [...]) in a reward function: TRL writes it as a column.',
        "mismatch_kl_mean": "TRL logs no tokens with its completions; ExportGRPOTrainer logs them, with "
        "both log-probabilities: docs/hooks/trl.md.",
    }

    def source(self, file: Source) -> Source:
        """Tables of which a null is a reward that was not given, and not a missing image or text."""
        return _COMPLETIONS if file is PARQUET else file

    def recognises(self, head: Head) -> bool:
        """Columns step, prompt, completion and advantage, which every such table has."""
        return head.has("step", "prompt", "completion", "advantage")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        fields: Fields = {}
        rewards: dict[str, float | None] = {}
        for key, value in line.items():
            if key in _OURS:
                fields[_OURS[key]] = value
            elif value is None or isinstance(value, float):  # null, NaN: not scored
                rewards[key] = value
            else:
                fields[key] = value
        if (advantage := fields.get("advantage")) != advantage:  # NaN: it has none
            fields["advantage"] = None
        return fields | named_rewards(rewards)
