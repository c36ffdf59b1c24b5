"""ms-swift's completions.jsonl: a table per line, appended at every logged step, texts only.

Read from modelscope/ms-swift@3602360 swift/rlhf_trainers/grpo_trainer.py (`log`),
swift/megatron/trainers/{rollout_mixin,grpo_trainer}.py (`_build_log_table`) and
swift/ray/megatron/base_trainer.py (`_maybe_log_completions`), and from @54cd730 of February 2025.
A table of step, prompt, completion, a column per reward function, advantages, and after them what is kept
beside; the same with gen_step (one less than the step) from Megatron; one rollout per line from Ray; and
first a table of step, messages, completion, reward. The table of steps is a buffer that is not emptied,
so that rollouts can be written again at later steps.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.records import is_number
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import Fields, at_step, named_rewards
from board.formats.messages import is_messages
from board.formats.sources import rows_of_table

_OURS: Final[Mapping[str, str]] = {
    "gen_step": "step",
    "step": "step",
    "messages": "prompt",
    "prompt": "prompt",
    "completion": "response",
    "advantages": "advantage",
    "entropy": "entropy",
}
"""Where two mean the same, the later one counts."""


class MsSwiftReader(Reader):
    """Reads ms-swift's completions.jsonl, all of its shapes."""

    name = "ms_swift"
    title = "ms-swift completions"
    layout = re.compile(r"completions\.jsonl")
    repeats = "line_buffer"

    def recognises(self, head: Head) -> bool:
        """Completions beside a list of steps, a gen_step, or the messages of a rollout with a reward."""
        return any("completion" in record and _is_swift(record) for record in head.records)

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        return rows_of_table(line) if _is_table(line) else (line,)

    def read(self, line: Mapping[str, Any], at: LineContext) -> Fields:
        fields = {name: line[key] for key, name in _OURS.items() if key in line}
        for name in ("advantage", "entropy"):
            if (value := fields.get(name)) != value:  # NaN: it has none
                del fields[name]
        rewards: dict[str, Any] = {}
        is_reward = True
        for key, value in line.items():
            if key in _OURS or key == "reward":
                is_reward = is_reward and key != "advantages"  # what stands after them is beside
            elif is_reward and (is_number(value) or (value is None and "advantages" in line)):
                rewards[key] = value  # null: the function did not score it
            else:
                fields["ground_truth" if key == "solution" else key] = value
        fields |= named_rewards(rewards, line.get("reward"))
        return fields if "step" in fields else at_step(fields, None)


def _is_swift(record: Mapping[str, Any]) -> bool:
    if _is_table(record):
        asked = record.get("prompt", record.get("messages"))
        return isinstance(record["completion"], list) and isinstance(asked, list)
    by_row = "gen_step" in record and "prompt" in record
    return by_row or (is_messages(record.get("messages")) and "reward" in record)


def _is_table(line: Mapping[str, Any]) -> bool:
    return isinstance(line.get("step"), list) or isinstance(line.get("gen_step"), list)
