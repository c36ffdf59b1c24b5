"""slime's and miles' dumps of training data: train_data/{rollout_id}.pt, of miles {rollout_id}_{rank}.pt.

Read from THUDM/slime@624b824 slime/observability/train_data_utils.py (format_version 2: samples, and
raw_reward of the whole rollout by rollout_position), radixark/miles@31f1ca9
miles/utils/train_dump_utils.py (rollout_data: a list per key, one file per rank, ranks of one shard
alike) and Relax (samples, one file per rank). No texts; tokens, and arrays over the response.
log_probs are the trainer's before the step's updates, those of which slime measures KL and mismatch: they
stand as logprobs. `rewards` are those after normalisation (`processed_reward`), never shown as
the reward. kl is the trainer's own estimate between log_probs and ref_log_probs (`trainer_kl_to_ref`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from board.core.records import Record
from board.errors import RecordError
from board.formats.base import Head, Join, Place, Reader
from board.formats.fields import RecordBuilder
from board.formats.frameworks.slime.samples import (
    APART,
    JOINED_BY,
    index_key,
    position_key,
    samples_of,
    take_tokens,
    take_topk,
)
from board.formats.io.torch_files import TORCH

_OURS: Final[Mapping[str, str]] = {
    "sample_index": "rollout_id",
    "sample_indices": "rollout_id",
    "log_probs": "logprobs",
    "ref_log_probs": "ref_logprobs",
    "rollout_log_probs": "sampling_logprobs",
    "loss_masks": "loss_mask",
    "rewards": "processed_reward",
    "kl": "trainer_kl_to_ref",
    "truncated": "is_truncated",
    "rollout_ids": "execution_id",
}
_READ_APART: Final = APART | {
    *("tokens", "response_lengths", "total_lengths", "raw_reward", "step", "decoded_tokens"),
}
_NO_COLUMNS: Final = frozenset({"raw_reward", "micro_batch_indices", "num_microbatches"})
"""Lists that are no column of the samples, whatever their length."""


class SlimeTrainReader(Reader):
    """Reads the training data that slime, miles and Relax dump."""

    name = "slime_train"
    title = "slime training data"
    sources = (TORCH,)
    layout = re.compile(r"(?:train_data/)?(?:train_)?(?P<step>[0-9]+)(?:_(?P<rank>[0-9]+))?\.pt")
    repeats = "same_id"
    join = Join("slime", JOINED_BY, "trainer", order=3, is_trainer=True)

    def recognises(self, head: Head) -> bool:
        """rollout_id and rank, with a format_version, rollout_data or loss_masks."""
        keys = {key for record in head.records for key in record}
        return {"rollout_id", "rank"} <= keys and bool(
            keys & {"format_version", "rollout_data", "loss_masks"}
        )

    def rows(self, line: Mapping[str, Any], at: Place) -> Sequence[Mapping[str, Any]]:
        """The samples, each with the file's rollout_id as its step and its own raw reward."""
        step = line.get("rollout_id")
        if isinstance(columns := line.get("rollout_data"), dict):
            return [{"step": step, **row} for row in _rows_of(cast("dict[str, Any]", columns))]
        rewards = line.get("raw_reward")
        return [
            {"step": step, **sample, "raw_reward": _at(rewards, sample.get("rollout_position"))}
            for sample in samples_of(line)
        ]

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        """The sample's index, and its position in the dump of its rollouts (slime's `partition`)."""
        return (index_key(record), position_key(record, record.extras.get("rollout_position")))

    def read(self, line: Mapping[str, Any], at: Place) -> Record:
        """The Record of one sample."""
        builder = RecordBuilder(at.options)
        builder.ids["split"] = "train"
        take_tokens(builder, line.get("tokens"), line.get("response_lengths"))
        builder.take("reward", line.get("raw_reward"))
        for key, value in line.items():
            if key not in _READ_APART:
                builder.take(_OURS.get(key, key), value)
        take_topk(builder, line, at)
        return builder.build(line.get("step"))


def _rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A mapping per sample of the lists that have an entry for each."""
    lengths = columns.get("response_lengths")
    if not isinstance(lengths, list):
        hint = "rollout_data with a list of response_lengths"
        raise RecordError("response_lengths is missing", field="response_lengths", hint=hint)
    count = len(cast("list[Any]", lengths))
    of_samples = {
        key: cast("list[Any]", value)
        for key, value in columns.items()
        if isinstance(value, list)
        and len(cast("list[Any]", value)) == count
        and key not in _NO_COLUMNS
    }
    return [{key: column[i] for key, column in of_samples.items()} for i in range(count)]


def _at(values: Any, position: Any) -> Any:
    entries = cast("list[Any]", values) if isinstance(values, list) else []
    return entries[position] if isinstance(position, int) and 0 <= position < len(entries) else None
