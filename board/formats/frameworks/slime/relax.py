"""Relax's rollout results, {train,eval}/{rollout_id}.jsonl: a rollout per line, texts and counts only.

Read from redai-infra/Relax@2765d18, @cbca6ab (without tokens) and its fork haodong98/Relax@69bf4dc (with
weight_versions), relax/utils/training/train_dump_utils.py (`_sample_to_summary_record`): rollout_id (the
step, from 0), sample_index, prompt (a text or chat messages), response, reward (a number, or what the
reward function returned by name), prompt_length, response_length, total_length, the same as
*_token_count, image_count, agent_turns, status, group_index, and where they are known label, dataset, and
of later versions response_token_ids, response_rollout_log_probs (the sampler's) and a mask of them. Its
.pt dumps are slime's, with decoded_tokens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from board.core.records import Record
from board.formats.base import Head, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.frameworks.slime.samples import take_status, take_versions

_OURS: Final[Mapping[str, str]] = {
    "sample_index": "rollout_id",
    "group_index": "group_id",
    "label": "ground_truth",
    "dataset": "env",
    "response_token_ids": "response_ids",
    "response_rollout_log_probs": "sampling_logprobs",
    "response_rollout_log_probs_mask": "rollout_log_probs_mask",
}
_SAID_TWICE: Final = frozenset({"prompt_token_count", "response_token_count", "total_token_count"})
_READ_APART: Final = _SAID_TWICE | {
    *("rollout_id", "prompt", "response", "reward", "status", "weight_versions"),
}


class RelaxReader(Reader):
    """Reads Relax's rollout results."""

    name = "relax"
    title = "Relax"
    layout = re.compile(r"(?P<split>train|eval)/(?P<step>[0-9]+)\.jsonl")

    def recognises(self, head: Head) -> bool:
        """rollout_id, sample_index, response_length and status beside the response."""
        return head.has("rollout_id", "sample_index", "response", "response_length", "status")

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        """The Record of one line."""
        builder = RecordBuilder(at.options)
        builder.ids["split"] = at.split or "train"
        builder.take_exchange(line.get("prompt"), line.get("response"))
        builder.take("reward", line.get("reward"))
        take_status(builder, line.get("status"))
        take_versions(builder, line.get("weight_versions"))
        for key, value in line.items():
            if key not in _READ_APART:
                builder.take(_OURS.get(key, key), value)
        return builder.build(line.get("rollout_id"))
