"""verl's dumps of training and validation rollouts: {step}.jsonl, one rollout per line, texts only.

Read from verl-project/verl@1dda039 verl/trainer/ppo/ray_trainer.py (`_write_generations`) and
verl/trainer/ppo/v1/trainer_base.py: input, output, gts (since 483cd55), score, step, and whatever
the reward function returned beside the score. Later writers turn what JSON can't
hold into text ("0.5", "True"). uid is "{sample}_{rollout}_{output}" in v1.
Validation repeats the score as `reward`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import repeat
from typing import Any, Final

from board.core.records import Record
from board.formats.base import Head, Place, Reader
from board.formats.columns import Block, ColumnBuilder, Columns, Values, fill
from board.formats.fields import RecordBuilder

_OURS: Final[Mapping[str, str]] = {
    "input": "prompt",
    "output": "response",
    "gts": "ground_truth",
    "score": "reward",
    "request_id": "rollout_id",
    "uid": "rollout_id",
    "data_source": "env",
}
_OUR_TEXTS: Final = frozenset({"input", "output", "gts"})
"""Whatever these say is text, "True" too."""
_FLAGS: Final[Mapping[Any, bool]] = {"True": True, "False": False}


class VerlReader(Reader):
    """Reads verl's rollout and validation dumps, v0 and v1."""

    name = "verl"
    title = "verl"
    layout = re.compile(r"(?P<step>[0-9]+)\.jsonl")
    repeats = "copied_steps"

    def recognises(self, head: Head) -> bool:
        """Input, output and score as verl names them, beside a step in the record or the file's name."""
        by_name = Place(head.path, layout=self.layout).step is not None
        return any(
            isinstance(record.get("input"), str | list)
            and isinstance(record.get("output"), str | list)
            and "score" in record
            and ("step" in record or by_name)
            for record in head.records
        )

    def columns(self, block: Block, at: Place) -> Columns:
        builder = ColumnBuilder(block.rows, at.options)
        if "uid" in block.columns:
            builder.take("group_id", list(map(group_of, block.values("uid"))))
        for key, values in block.columns.items():
            if key == "reward":
                builder.take_extra(key, values)
            else:
                builder.take(_OURS.get(key, key), values if key in _OUR_TEXTS else _flagged(values))
        if at.folder_split == "eval":
            builder.default_ids("split", ["eval"] * block.rows)
        return builder.build(fill(block.values("step"), repeat(at.step)))

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        builder = RecordBuilder(at.options)
        builder.take("group_id", group_of(line.get("uid")))
        builder.take_extra("reward", line.get("reward"))
        for key, value in line.items():
            if key != "reward":
                is_flag = isinstance(value, str) and key not in _OUR_TEXTS
                builder.take(_OURS.get(key, key), _FLAGS.get(value, value) if is_flag else value)
        # The folders of training and validation are named by the user; one called so is no training.
        if at.folder_split == "eval":
            builder.ids.setdefault("split", "eval")
        step = line.get("step")
        return builder.build(at.step if step is None else step)


def group_of(uid: object) -> str | None:
    """The group that a uid names, where it is sample, rollout and output."""
    parts = str(uid).rsplit("_", 2)
    return parts[0] if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit() else None


def _flagged(values: Values) -> Values:
    """The values, flags that were written as text as flags."""
    kinds = set(map(type, values))
    if str not in kinds or (kinds == {str} and _FLAGS.keys().isdisjoint(values)):
        return values
    return [_FLAGS.get(value, value) if isinstance(value, str) else value for value in values]
