"""Rows of the tables that trainers log to W&B and to Trackio: what each says of one or several rollouts.

TRL logs its completions (trainer/grpo_trainer.py, `log`: step, prompt, completion, a column for each
reward function, what log_extra adds, advantage), verl its generations (utils/tracking.py: input_1,
output_1, score_1 and so on in one row), prime-rl samples, Atropos a text and its score. `messages` and
`text` hold prompt and response in one text, which is cut where a chat template of ChatML lets the
assistant begin.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from board.formats.fields import Fields, named_rewards
from board.formats.messages import split_chatml

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
_NO_PARTS: Final = ("step", "reward", "advantage")
_CONTENT: Final = frozenset({"completion", "output", "output_1", "response", *_WHOLE})


def holds_rollouts(columns: Iterable[object]) -> bool:
    """Whether a column of a table is named as what was generated."""
    return not _CONTENT.isdisjoint(map(str, columns))


def rollouts_of_row(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The row itself, or its numbered rollouts, which every later table of verl has again."""
    numbered: dict[str, dict[str, Any]] = {}
    for key, value in row.items():
        if match := _NUMBERED.fullmatch(key):
            numbered.setdefault(match[2], {})[match[1]] = value
    if not numbered:
        yield row
    for number, values in numbered.items():
        yield {"step": row.get("step"), **values, "rollout_id": f"{row.get('step')}-{number}"}


def with_missing_rewards(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of one table with NaN in the place of a null where other rows have a reward. Each row then
    shows how many reward functions of TRL there are: the one that scored it alone is not its reward.
    """
    rewards = {
        key
        for row in rows
        for key, value in row.items()
        if isinstance(value, float) and "advantage" in row and key not in _NO_PARTS
    }
    missing = ({key: math.nan for key in rewards if row.get(key) is None} for row in rows)
    return [{**row, **nans} for row, nans in zip(rows, missing, strict=True)]


def fields_of_row(row: Mapping[str, Any]) -> Fields:
    """The fields of a row, its step among them where it has one."""
    fields: Fields = {_OURS.get(key, key): value for key, value in row.items()}
    whole = next((key for key in _WHOLE if isinstance(row.get(key), str)), None)
    if whole is not None and "response" not in fields:
        fields["prompt"], fields["response"] = split_chatml(fields.pop(whole))
    if "advantage" in row:  # TRL's: what else is a number is a reward function's
        parts = {k: v for k, v in fields.items() if isinstance(v, float) and k not in _NO_PARTS}
        fields = {k: v for k, v in fields.items() if k not in parts} | named_rewards(parts)
    return fields
