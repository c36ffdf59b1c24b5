"""W&B tables on disk: media/table/<name>_<number>_<hash>.table.json, columns and rows of a few rollouts.

Tables of TRL (wandb.Table of its completions), verl (`ValidationGenerationsLogger`: a row per step with
input_1, output_1, score_1 and so on, and all rows before again in each table), prime-rl (samples) and
Atropos (text and score) are known by their columns. `messages` and `text` hold prompt and response in one
text, which is cut where a chat template of ChatML lets the assistant begin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from board.errors import RecordError
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step, named_rewards
from board.formats.mapping import row_as_dict
from board.formats.messages import split_chatml
from board.formats.parse import is_list, is_object
from board.formats.sources import JSON_DOCUMENT

_NUMBERED: Final = re.compile(r"(input|output|score)_([0-9]+)")
_OURS: Final[Mapping[str, str]] = {
    "input": "prompt",
    "output": "response",
    "completion": "response",
    "score": "reward",
    "env_name": "env",
    "task_idx": "group_id",
}
_WHOLE: Final = ("messages", "text")
_CONTENT: Final = frozenset({"completion", "output", "output_1", "response", *_WHOLE})


class WandbTableReader(Reader):
    """Reads tables of rollouts that W&B wrote to its run's folder."""

    name = "wandb_table"
    title = "W&B tables"
    left_out: Mapping[str, str] = {"columns": "the names of the columns"}
    sources = (JSON_DOCUMENT,)
    repeats = "same_id"
    layout = re.compile(
        r"(?:files/)?media/table/(?:(?P<split>train|val|eval|test)/)?"
        r"(?:[^/]+/)*[^/]+?_(?P<step>[0-9]+)_[0-9a-f]+\.table\.json"
    )

    def recognises(self, head: Head) -> bool:
        """Columns of which one holds what was generated, and rows."""
        return any(
            is_list(names := record.get("columns"))
            and is_list(record.get("data"))
            and not _CONTENT.isdisjoint(map(str, names))
            for record in head.records
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        """Each row, of verl's each numbered rollout of a row."""
        names, data = line.get("columns"), line.get("data")
        if not is_list(names) or not is_list(data):
            raise RecordError("it is no table", hint="lists of columns and data")
        rows = (row_as_dict(names, row) for row in data)
        return [one for row in rows if is_object(row) for one in _rollouts(row)]

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        fields: Fields = {_OURS.get(key, key): value for key, value in line.items()}
        whole = next((key for key in _WHOLE if isinstance(line.get(key), str)), None)
        if whole is not None and "response" not in fields:
            fields["prompt"], fields["response"] = split_chatml(fields.pop(whole))
        if "advantage" in line:  # TRL's: what else is a number is a reward function's
            others = ("step", "reward", "advantage")
            parts = {k: v for k, v in fields.items() if isinstance(v, float) and k not in others}
            fields = {k: v for k, v in fields.items() if k not in parts} | named_rewards(parts)
        fields["split"] = at.split or "train"
        step = fields.pop("step", None)
        return at_step(fields, at.step if step is None else step)


def _rollouts(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The row itself, or its numbered rollouts, which every later table has again."""
    numbered: dict[str, dict[str, Any]] = {}
    for key, value in row.items():
        if match := _NUMBERED.fullmatch(key):
            numbered.setdefault(match[2], {})[match[1]] = value
    if not numbered:
        yield row
    for number, own in numbered.items():
        yield {"step": row.get("step"), **own, "rollout_id": f"{row.get('step')}-{number}"}
