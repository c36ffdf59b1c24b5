"""What miles writes beside its .pt dumps: tokens as Parquet, conversations as JSON lines, without torch.

Read from radixark/miles@31f1ca9 miles/ray/rollout/debug_data.py (`save_dashboard_columns`,
`trajectory_rows`). dashboard_columns/rollout_{id}.parquet has a row per sample: sample_index,
response_length, total_length, tokens (of prompt and response), and of the response loss_mask and
rollout_log_probs (the sampler's). trajectory/{id}.jsonl has those samples that recorded a conversation:
sample_index, group_index, status, reward (null where it is none or several numbers), prompt, messages.
The step (rollout_id, from 0) is in the files' names alone; those of evaluation are called eval_{id}.

Relax's rollout results, {train,eval}/{rollout_id}.jsonl: a rollout per line, texts and counts only.

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
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.records import Record
from board.formats.base import Head, Join, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.frameworks.slime import (
    JOINED_BY,
    index_key,
    take_status,
    take_tokens,
    take_versions,
)
from board.formats.io.parquet_files import PARQUET
from board.formats.messages import is_messages

_OURS: Final[Mapping[str, str]] = {
    "sample_index": "rollout_id",
    "group_index": "group_id",
    "rollout_log_probs": "sampling_logprobs",
}


class MilesTokensReader(Reader):
    """Reads the tokens that miles writes for its dashboard."""

    name = "miles_tokens"
    title = "miles tokens"
    sources = (PARQUET,)
    layout = re.compile(r"dashboard_columns/rollout_(?P<split>eval_)?(?P<step>[0-9]+)\.parquet")
    join = Join("slime", JOINED_BY, "tokens", order=2)

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        return (index_key(record),)

    def recognises(self, head: Head) -> bool:
        """Columns sample_index, response_length, tokens and rollout_log_probs."""
        return head.has("sample_index", "response_length", "tokens", "rollout_log_probs")

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        builder = RecordBuilder(at.options, at.split or "train")
        take_tokens(builder, line.get("tokens"), line.get("response_length"))
        builder.take_keys(line, _OURS, {"tokens", "response_length", "total_length"})
        return builder.build(at.step)


class MilesTrajectoryReader(Reader):
    """Reads the conversations that miles writes."""

    name = "miles_trajectory"
    title = "miles trajectories"
    layout = re.compile(r"trajectory/(?P<split>eval_)?(?P<step>[0-9]+)\.jsonl")
    join = Join("slime", JOINED_BY, "conversations", order=1)

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        return (index_key(record),)

    def recognises(self, head: Head) -> bool:
        """Messages beside the sample's index and status."""
        return any(
            is_messages(record.get("messages"))
            and {"sample_index", "group_index", "status"} <= record.keys()
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        builder = RecordBuilder(at.options, at.split or "train")
        messages = line.get("messages")
        if is_messages(messages):
            builder.take_conversation(messages)
        else:
            builder.take("prompt", line.get("prompt"))
        take_status(builder, line.get("status"))
        builder.take_keys(line, _OURS, {"messages", "prompt", "status"})
        return builder.build(at.step)


_OUR_RELAX_KEYS: Final[Mapping[str, str]] = {
    "sample_index": "rollout_id",
    "group_index": "group_id",
    "label": "ground_truth",
    "dataset": "env",
    "response_token_ids": "response_ids",
    "response_rollout_log_probs": "sampling_logprobs",
    "response_rollout_log_probs_mask": "rollout_log_probs_mask",
}
_DUPLICATE_COUNTS: Final = frozenset(
    {"prompt_token_count", "response_token_count", "total_token_count"}
)
_RELAX_READ_APART: Final = _DUPLICATE_COUNTS | {
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
        builder = RecordBuilder(at.options, at.split or "train")
        builder.take_exchange(line.get("prompt"), line.get("response"))
        builder.take("reward", line.get("reward"))
        take_status(builder, line.get("status"))
        take_versions(builder, line.get("weight_versions"))
        builder.take_keys(line, _OUR_RELAX_KEYS, _RELAX_READ_APART)
        return builder.build(line.get("rollout_id"))
