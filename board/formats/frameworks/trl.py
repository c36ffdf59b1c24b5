"""TRL's completions: completions/completions_{step}.parquet, a table per logged step, texts only.

Read from huggingface/trl@f2cd577 trl/trainer/grpo_trainer.py (`log`), written since v0.28: step, prompt,
completion (texts, or lists of chat messages), a column per reward function, columns of log_extra,
advantage. A reward function that returned None left NaN. The table is the buffer of the newest
generation batch: where steps outnumber generations, the same rollouts are written again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from board.core.records import Record
from board.formats.base import Head, Place, Reader
from board.formats.columns import Block, ColumnBuilder, Columns, Values, replace_nan
from board.formats.fields import RecordBuilder
from board.formats.io.parquet_files import PARQUET

_SCORED: Final = frozenset({float, type(None)})
_READ_APART: Final = frozenset({"step", "prompt", "completion", "advantage"})


class TRLReader(Reader):
    """Reads the completions that TRL's GRPO and RLOO trainers log."""

    name = "trl"
    title = "TRL completions"
    sources = (PARQUET,)
    layout = re.compile(r"completions/completions_(?P<step>[0-9]+)\.parquet")
    repeats = "file_buffer"

    def recognises(self, head: Head) -> bool:
        """Columns step, prompt, completion and advantage, which every such table has."""
        return head.has("step", "prompt", "completion", "advantage")

    def columns(self, block: Block, at: Place) -> Columns:
        builder = ColumnBuilder(block.rows, at.options)
        builder.take_exchange(block.values("prompt"), block.values("completion"))
        builder.take("advantage", replace_nan(block.values("advantage")))
        rewards: dict[str, Values] = {}
        for key, values in block.columns.items():
            if key in _READ_APART:
                continue
            if set(map(type, values)) <= _SCORED:
                rewards[key] = values
            else:
                # A null among values that are no floats is one more part of the reward.
                builder.use_row_reader(
                    i for i, v in enumerate(values) if v is None or isinstance(v, float)
                )
                builder.take(key, values)
        builder.take_rewards(rewards)
        return builder.build(block.values("step"))

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        builder = RecordBuilder(at.options)
        builder.take_exchange(line.get("prompt"), line.get("completion"))
        if line.get("advantage") == line.get("advantage"):  # NaN: it has none
            builder.take("advantage", line.get("advantage"))
        rewards: dict[str, Any] = {}
        for key, value in line.items():
            if key in _READ_APART:
                continue
            if value is None or isinstance(value, float):  # null: not scored
                rewards[key] = value
            else:
                builder.take(key, value)
        builder.take_rewards(rewards)
        return builder.build(line.get("step"))
