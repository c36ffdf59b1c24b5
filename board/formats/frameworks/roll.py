"""ROLL's rollout_dump_data.step_{N}.jsonl: one line per file, a table of texts and scores.

Read from alibaba/ROLL@8eb27cc roll/pipeline/rlvr/utils.py (`dump_rollout_to_specific_path`,
`write_to_json_process`) and roll/pipeline/agentic/utils.py (`dump_rollout_trajectories`: a row per
trajectory, rows of its other steps being left out by ROLL itself). Messages and trajectory_data are JSON
in texts. What ROLL writes for RLLoggingBoard is read as that format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from board.core.records import Record
from board.formats.base import Head, LineContext, Reader
from board.formats.fields import RecordBuilder
from board.formats.messages import is_messages, parsed_text
from board.formats.parse import as_object, is_list, is_object
from board.formats.sources import rows_of_table


class RollReader(Reader):
    """Reads the rollouts that ROLL dumps."""

    name = "roll"
    title = "ROLL"
    keys: Mapping[str, str] = {
        "scores": "reward",
        "id": "group_id",
        "domain": "env",
        **dict.fromkeys(("global_step", "messages", "trajectory_data"), ""),
        **dict.fromkeys(("prompt", "responses"), ""),
    }
    layout = re.compile(r"rollout_dump_data\.step_(?P<step>[0-9]+)\.jsonl")

    def recognises(self, head: Head) -> bool:
        """A list of global steps beside responses or trajectories."""
        return any(
            isinstance(record.get("global_step"), list)
            and any(isinstance(record.get(key), list) for key in ("responses", "trajectory_data"))
            for record in head.records
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        return rows_of_table(line)

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options)
        messages = parsed_text(line.get("messages"))
        if "responses" in line:
            asked = messages if is_messages(messages) else line.get("prompt")
            builder.take_exchange(asked, line.get("responses"))
        elif is_messages(messages):
            builder.take_conversation(messages)
        if is_object(trajectory := parsed_text(line.get("trajectory_data"))):
            trajectory = dict(trajectory)
            rewards = as_object(trajectory.pop("reward_info", None))
            builder.take("reward", rewards.get("episode_reward"))
            if is_list(steps := rewards.get("step_rewards")):
                builder.extras["step_rewards"] = steps
            builder.take("trajectory_data", trajectory)
        builder.take_keys(line, self.keys)
        return builder.build(line.get("global_step"))
