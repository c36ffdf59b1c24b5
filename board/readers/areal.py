"""AReaL's dumped trajectories: {rollout,eval-rollout}/{version}/{task_id}.jsonl, texts only.

Read from inclusionAI/AReaL@0f6fba3 areal/infra/workflow_executor.py (`_dump_trajectory`): task_id,
sample_idx, seqlen, prompt_len, head_version, tail_version, reward, prompt, completion (special
tokens kept).
The folder is tail_version, the newest weights that sampled a token; the step that trained on the
rollout is not in the log, so that this is its step. head_version is the oldest, -1 where the
prompt's tokens, which nothing sampled, were counted too: it is not recorded then. The samples
of a task are a group; those that newer weights finished stand under the newer version. A sequence
whose last token is not in the loss is not dumped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from board.core.records import Record
from board.readers.base import Head, Place, Reader
from board.readers.fields import RecordBuilder

_OURS: Final[Mapping[str, str]] = {
    "completion": "response",
    "head_version": "policy_version",
    "task_id": "group_id",
}
_OF_PROMPT: Final = -1


class ArealReader(Reader):
    """Reads the trajectories that AReaL dumps."""

    name = "areal"
    title = "AReaL"
    layout = re.compile(r"(?P<split>rollout|eval-rollout)/(?P<step>[0-9]+)/[0-9]+\.jsonl")

    def recognises(self, head: Head) -> bool:
        """A prompt and a completion of a task, between two versions of the weights."""
        return head.has("task_id", "head_version", "tail_version", "prompt", "completion")

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        """The Record of one line; the step is its tail_version."""
        builder = RecordBuilder(at.options)
        builder.ids["split"] = at.split or "train"
        for key, value in line.items():
            if key == "head_version" and value == _OF_PROMPT:
                continue
            builder.take(_OURS.get(key, key), value)
        if line.get("task_id") is not None and line.get("sample_idx") is not None:
            builder.take("rollout_id", f"{line['task_id']}-{line['sample_idx']}")
        version = line.get("tail_version")
        return builder.build(at.step if version is None else version)
