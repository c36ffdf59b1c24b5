"""ms-swift's completions.jsonl: a table per line, appended at every logged step, texts only.

Read from modelscope/ms-swift@3602360 swift/rlhf_trainers/grpo_trainer.py (`log`),
swift/megatron/trainers/{rollout_mixin,grpo_trainer}.py (`_build_log_table`) and
swift/ray/megatron/base_trainer.py (`_maybe_log_completions`), and from @54cd730 of February 2025.
A table of step (texts), prompt, completion, a column per reward function, advantages, and after them
what is kept beside: entropy, solution, num_turns; the same with gen_step (whole numbers, one less than
the step) from Megatron; one rollout per line, {gen_step, prompt, completion, reward}, from Ray; and first
a table of step, messages, completion, reward. Messages without any step are shown at step 0. The table of
steps is a buffer that is not emptied, so that rollouts can be written again at later steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.records import Record
from board.formats.base import Head, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.messages import is_messages
from board.formats.sources import rows_of_table

_STEPS: Final = ("step", "gen_step")
_OURS: Final[Mapping[str, str]] = {"solution": "ground_truth"}
_READ_APART: Final = frozenset(
    {*_STEPS, "prompt", "completion", "messages", "reward", "advantages", "entropy"}
)


class MsSwiftReader(Reader):
    """Reads ms-swift's completions.jsonl, all of its shapes."""

    name = "ms_swift"
    title = "ms-swift completions"
    layout = re.compile(r"completions\.jsonl")
    repeats = "line_buffer"

    def recognises(self, head: Head) -> bool:
        """Completions beside a list of steps, a gen_step, or the messages of a rollout with a reward."""
        return any("completion" in record and _is_swift(record) for record in head.records)

    def rows(self, line: Mapping[str, Any], at: Place) -> Sequence[Mapping[str, Any]]:
        return rows_of_table(line) if _is_table(line) else (line,)

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        builder = RecordBuilder(at.options)
        builder.take_exchange(line.get("prompt", line.get("messages")), line.get("completion"))
        builder.take("advantage", _recorded(line.get("advantages")))
        builder.take("entropy", _recorded(line.get("entropy")))
        rewards: dict[str, Any] = {}
        is_reward = True
        for key, value in line.items():
            if key in _READ_APART:
                is_reward = is_reward and key != "advantages"  # what stands after them is beside
                continue
            if is_reward and isinstance(value, int | float) and not isinstance(value, bool):
                rewards[key] = value
            else:
                builder.take(_OURS.get(key, key), value)
        builder.take_rewards(rewards, line.get("reward"))
        step = next((line[key] for key in _STEPS if key in line), None)
        return builder.build_undated() if step is None else builder.build(step)


def _is_swift(record: Mapping[str, Any]) -> bool:
    if _is_table(record):
        asked = record.get("prompt", record.get("messages"))
        return isinstance(record["completion"], list) and isinstance(asked, list)
    by_row = "gen_step" in record and "prompt" in record
    return by_row or (is_messages(record.get("messages")) and "reward" in record)


def _is_table(line: Mapping[str, Any]) -> bool:
    return any(isinstance(line.get(key), list) for key in _STEPS)


def _recorded(value: Any) -> Any:
    return None if value != value else value
