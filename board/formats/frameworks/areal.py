"""AReaL's dumped trajectories: {rollout,eval-rollout}/{version}/{task_id}.jsonl, texts only.

Read from areal-project/AReaL@cbff54d (August 2026) areal/infra/workflow_executor.py (`_dump_trajectory`),
and inclusionAI/AReaL@0f6fba3 (May 2026): task_id, sample_idx, seqlen, prompt_len, head_version,
tail_version, reward, prompt, completion (special tokens kept); since June 2026 (8b2d221) version_rle, and
of several turns segments (role prompt, gen or context, len, text); since July 2026 (95d7005)
original_reward, beside which reward may be normalised within its task.
The folder is the newest weights that sampled a token of the task; the step that trained on the rollout is
not in the log, so that this is its step. tail_version is the newest of the sample, until June 2026 of
the task. head_version is the oldest, until then -1 where the prompt's tokens, which nothing sampled, were
counted too: it is not recorded then. The samples of a task are a group. A sequence whose last token is
not in the loss is not dumped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from board.core.records import Record
from board.formats.base import Head, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.messages import is_messages

_OURS: Final[Mapping[str, str]] = {
    "completion": "response",
    "head_version": "policy_version",
    "original_reward": "reward",
    "task_id": "group_id",
}
_OF_PROMPT: Final = -1
_ROLES: Final[Mapping[str, str]] = {"gen": "assistant", "context": "environment"}


class ArealReader(Reader):
    """Reads the trajectories that AReaL dumps."""

    name = "areal"
    title = "AReaL"
    layout = re.compile(r"(?P<split>rollout|eval-rollout)/(?P<step>[0-9]+)/[0-9]+\.jsonl")

    def recognises(self, head: Head) -> bool:
        """A prompt and a completion of a task, between two versions of the weights."""
        return head.has("task_id", "head_version", "tail_version", "prompt", "completion")

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        """The Record of one line; the step is its folder's version, elsewhere its tail_version."""
        builder = RecordBuilder(at.options)
        builder.ids["split"] = at.split or "train"
        for key, value in line.items():
            if key in ("segments", "reward") or (key == "head_version" and value == _OF_PROMPT):
                continue
            builder.take(_OURS.get(key, key), value)
        _take_reward(builder, line)
        _take_segments(builder, line.get("segments"))
        if line.get("task_id") is not None and line.get("sample_idx") is not None:
            builder.take("rollout_id", f"{line['task_id']}-{line['sample_idx']}")
        return builder.build(line.get("tail_version") if at.step is None else at.step)


def _take_reward(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    """Takes the task's own reward, and beside it the one that is trained on, perhaps normalised."""
    if "original_reward" in line:
        builder.take("trained_reward", line.get("reward"))
    else:
        builder.take("reward", line.get("reward"))


def _take_segments(builder: RecordBuilder, segments: object) -> None:
    """Takes the stretches of a conversation, in reading order, as its messages."""
    if not is_messages(segments):
        builder.take("turns", segments)
        return
    builder.take(
        "messages",
        [
            {"role": _ROLES.get(str(one["role"]), one["role"]), "content": one.get("text")}
            for one in segments
        ],
    )
