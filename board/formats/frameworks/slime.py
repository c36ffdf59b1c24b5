"""What slime and those that grew out of it (miles, Relax) write.

Dumps of rollouts: rollout_data/{rollout_id}.pt, of evaluation eval_{rollout_id}.pt.

Read from THUDM/slime@624b824 slime/observability/rollout_data_utils.py (`save_debug_rollout_data`) and
slime/utils/types.py (`Sample`), radixark/miles@31f1ca9 miles/ray/rollout/debug_data.py, and
redai-infra/Relax, whose files have decoded_tokens too. A file is one mapping {rollout_id, samples};
rollout_id is the step. Of a sample, reward is a number, or what a reward function returned by name;
without the run's `--reward-key` it is not known which of several was trained on.

Dumps of training data: train_data/{rollout_id}.pt, of miles {rollout_id}_{rank}.pt.

Read from THUDM/slime@624b824 slime/observability/train_data_utils.py (format_version 2: samples, and
raw_reward of the whole rollout by rollout_position), radixark/miles@31f1ca9
miles/utils/train_dump_utils.py (rollout_data: a list per key, one file per rank, ranks of one shard
alike) and Relax (samples, one file per rank). log_probs are the trainer's before the step's updates,
those of which slime measures KL and mismatch: they stand as logprobs. `rewards` are those after
normalisation, never shown as the reward. kl is the trainer's own estimate between log_probs and
ref_log_probs.

What miles writes beside its .pt dumps, without torch: tokens as Parquet, conversations as JSON lines.

Read from radixark/miles@31f1ca9 miles/ray/rollout/debug_data.py (`save_dashboard_columns`,
`trajectory_rows`). trajectory/{id}.jsonl has those samples that recorded a conversation.

Relax's rollout results, {train,eval}/{rollout_id}.jsonl: a rollout per line.

Read from redai-infra/Relax@2765d18, @cbca6ab (without tokens) and its fork haodong98/Relax@69bf4dc (with
weight_versions), relax/utils/training/train_dump_utils.py (`_sample_to_summary_record`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from board.core.records import Parsed, Record
from board.errors import RecordError
from board.formats.base import Head, Join, LineContext, Reader
from board.formats.failures.slime import failure_of_sample
from board.formats.field_values import FAILURE
from board.formats.fields import RecordBuilder
from board.formats.io.parquet_files import PARQUET
from board.formats.io.torch_files import TORCH, spilled
from board.formats.messages import is_messages
from board.formats.number_arrays import as_numbers
from board.formats.parse import as_list, is_list, is_object, object_at

_TOPK: Final = ("rollout_topk_token_ids", "rollout_topk_log_probs")
_APART: Final = (
    # These would fill memory: an entry per layer, per token of the vocabulary, per pixel.
    *("rollout_routed_experts", "rollout_indexer_topk", "multimodal_train_inputs"),
    *("rollout_top_p_token_ids", "rollout_top_p_token_offsets"),
    *(*_TOPK, "step", "tokens", "decoded_tokens"),
)
"""Keys of a dump that are not taken as they are."""
_JOINED_BY: Final = "step, split and sample index (or position)"


def _index_key(record: Record) -> object:
    """What a sample is called in every dump of its step; None where it has no index."""
    index = record.ids.get("rollout_id")
    return None if index is None else [record.ids.get("split"), str(index)]


def _position_key(record: Record, position: object) -> object:
    """Where a sample stands in the dump of its rollouts; None where that is not known."""
    return [record.ids.get("split"), position] if isinstance(position, int) else None


def _samples_of(line: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    samples = line.get("samples")
    if not is_list(samples) or not all(map(is_object, samples)):
        hint = "a list of samples"
        raise RecordError("samples is not a list of mappings", field="samples", hint=hint)
    return samples


def _take_tokens(builder: RecordBuilder, tokens: Any, response_length: Any) -> None:
    """Takes the ids of prompt and response, of which the last response_length are the response's."""
    try:
        ids = as_numbers(tokens)
    except RecordError as error:
        builder.refuse("tokens", error)
        return
    if ids is None or len(ids) == 0:
        return
    if not isinstance(response_length, int) or not 0 <= response_length <= len(ids):
        hint = "all tokens are shown as response"
        builder.remark("response_length", "response_length does not match the tokens", hint)
        response_length = len(ids)
    start = len(ids) - response_length
    builder.prompt_ids = Parsed(ids.values()[:start])
    builder.response_ids = Parsed(ids.values()[start:])


def _take_topk(builder: RecordBuilder, sample: Mapping[str, Any], at: LineContext) -> None:
    """Takes the sampler's likeliest tokens [R, k] and their log-probabilities, without padding (-1).

    slime records them since d92cb5d (train_data_utils.py), perhaps in files of their own.
    """
    topk: list[Any] = [sample.get(key) for key in _TOPK]
    try:
        if at.location is not None:
            topk = [
                spilled(at.location, str(own.get("tensor_file"))).tolist()
                if is_object(own)
                else own
                for own in topk
            ]
    except OSError as error:
        reason = f"the file of the sampler's likeliest tokens can't be used: {error.strerror}"
        hint = "slime keeps it beside the dump, in the folder *_r3_spill"
        builder.remark("topk_logprobs", reason, hint)
        return
    ids, logprobs = topk
    if not all(is_list(rows) and all(map(is_list, rows)) for rows in topk):
        return
    counts = [sum(isinstance(token, int) and token >= 0 for token in row) for row in ids]
    builder.take("topk_ids", [row[:k] for row, k in zip(ids, counts, strict=True)])
    builder.take("topk_logprobs", [row[:k] for row, k in zip(logprobs, counts, strict=False)])


def _take_versions(builder: RecordBuilder, versions: Any) -> None:
    """Takes the versions of the weights that sampled a response; several are kept as they are."""
    if is_list(versions) and versions and all(version == versions[0] for version in versions):
        builder.take("policy_version", versions[0])
    elif is_list(versions) and versions:
        builder.extras["weight_versions"] = versions


def _take_status(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    """Takes a status; truncated says that the limit ended the response, completed that it did not."""
    status = line.get("status")
    builder.take("status", status)
    builder.take(FAILURE, failure_of_sample(line))
    if status in ("completed", "truncated"):
        builder.scores["is_truncated"] = float(status == "truncated")


class SlimeReader(Reader):
    """Reads the rollouts that slime, miles and Relax dump."""

    name = "slime"
    title = "slime rollouts"
    left_out: Mapping[str, str] = {
        "samples.rollout_routed_experts.tensor_file": "the name of a file that is not read",
        "samples.rollout_topk_log_probs.tensor_file": "the name of a file that is not read",
        "samples.rollout_topk_token_ids.tensor_file": "the name of a file that is not read",
    }
    sources = (TORCH,)
    keys: Mapping[str, str] = {
        "index": "rollout_id",
        "rollout_id": "execution_id",  # the execution that samples of one rollout share
        "group_index": "group_id",
        "label": "ground_truth",
        "rollout_log_probs": "sampling_logprobs",
        **dict.fromkeys(("prompt", "response", "reward", "status", "response_length"), ""),
        **dict.fromkeys(("metadata", "weight_versions", "spec_info", "prefix_cache_info"), ""),
        **dict.fromkeys(_APART, ""),
    }
    layout = re.compile(
        r"(?:rollout_data/|rollout_dumps/)?(?:rollout_|data_)?(?P<split>eval_)?(?P<step>[0-9]+)\.pt"
    )
    join = Join("slime", _JOINED_BY, "rollouts")

    def recognises(self, head: Head) -> bool:
        """rollout_id and samples, with the keys group_index and response_length of a sample."""
        return head.has("rollout_id", "samples", "group_index", "response_length")

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        return [{"step": line.get("rollout_id"), **sample} for sample in _samples_of(line)]

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        """The sample's index, and its position in the file, which training data names too."""
        return (_index_key(record), _position_key(record, part))

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options, at.split or "train")
        builder.take_exchange(line.get("prompt"), line.get("response"))
        _take_tokens(builder, line.get("tokens"), line.get("response_length"))
        builder.take("reward", line.get("reward"))
        _take_status(builder, line)
        builder.take_keys(line, self.keys)
        _take_topk(builder, line, at)
        ids, pieces = builder.response_ids, line.get("decoded_tokens")
        if is_list(pieces) and pieces and ids is not None:  # the last are the response's
            builder.take("response_tokens", pieces[max(len(pieces) - len(ids), 0) :])
        _take_metadata(builder, line)
        return builder.build(line.get("step"))


def _take_metadata(builder: RecordBuilder, line: Mapping[str, Any]) -> None:
    fields = dict(object_at(line, "metadata"))
    if is_messages(fields.get("messages")):
        builder.take("messages", fields.pop("messages"))
    builder.take("metadata", fields or None)
    _take_versions(builder, line.get("weight_versions"))
    for key in ("spec_info", "prefix_cache_info"):
        if any((counts := object_at(line, key)).values()):
            builder.take(key, counts)


class SlimeTrainReader(Reader):
    """Reads the training data that slime, miles and Relax dump."""

    name = "slime_train"
    title = "slime training data"
    left_out: Mapping[str, str] = {"rank": "it is in the file's name; ranks of one shard are alike"}
    sources = (TORCH,)
    keys: Mapping[str, str] = {
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
        **dict.fromkeys((*_APART, "response_lengths", "total_lengths", "raw_reward"), ""),
    }
    layout = re.compile(r"(?:train_data/)?(?:train_)?(?P<step>[0-9]+)(?:_(?P<rank>[0-9]+))?\.pt")
    repeats = "same_id"
    join = Join("slime", _JOINED_BY, "trainer", order=3, is_trainer=True)

    def recognises(self, head: Head) -> bool:
        """rollout_id and rank, with a format_version, rollout_data or loss_masks."""
        keys = {key for record in head.records for key in record}
        return {"rollout_id", "rank"} <= keys and bool(
            keys & {"format_version", "rollout_data", "loss_masks"}
        )

    def rows(self, line: Mapping[str, Any], at: LineContext) -> Sequence[Mapping[str, Any]]:
        step = line.get("rollout_id")
        if is_object(columns := line.get("rollout_data")):
            return [{"step": step, **row} for row in _rows_of(columns)]
        rewards = line.get("raw_reward")
        return [
            {"step": step, **sample, "raw_reward": _at(rewards, sample.get("rollout_position"))}
            for sample in _samples_of(line)
        ]

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        """The sample's index, and its position in the dump of its rollouts (slime's `partition`)."""
        return (_index_key(record), _position_key(record, record.extras.get("rollout_position")))

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options, "train")
        _take_tokens(builder, line.get("tokens"), line.get("response_lengths"))
        builder.take("reward", line.get("raw_reward"))
        builder.take_keys(line, self.keys)
        _take_topk(builder, line, at)
        return builder.build(line.get("step"))


def _rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A mapping per sample of the lists that have an entry for each."""
    lengths = columns.get("response_lengths")
    if not is_list(lengths):
        hint = "rollout_data with a list of response_lengths"
        raise RecordError("response_lengths is missing", field="response_lengths", hint=hint)
    count = len(lengths)
    not_of_samples = ("raw_reward", "micro_batch_indices", "num_microbatches")
    of_samples = {
        key: value
        for key, value in columns.items()
        if is_list(value) and len(value) == count and key not in not_of_samples
    }
    return [{key: column[i] for key, column in of_samples.items()} for i in range(count)]


def _at(values: Any, position: Any) -> Any:
    entries = as_list(values)
    return entries[position] if isinstance(position, int) and 0 <= position < len(entries) else None


class MilesTokensReader(Reader):
    """Reads the tokens that miles writes for its dashboard."""

    name = "miles_tokens"
    title = "miles tokens"
    sources = (PARQUET,)
    keys: Mapping[str, str] = {
        "sample_index": "rollout_id",
        "group_index": "group_id",
        "rollout_log_probs": "sampling_logprobs",
        **dict.fromkeys(("tokens", "response_length", "total_length"), ""),
    }
    layout = re.compile(r"dashboard_columns/rollout_(?P<split>eval_)?(?P<step>[0-9]+)\.parquet")
    join = Join("slime", _JOINED_BY, "tokens", order=2)

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        return (_index_key(record),)

    def recognises(self, head: Head) -> bool:
        """Columns sample_index, response_length, tokens and rollout_log_probs."""
        return head.has("sample_index", "response_length", "tokens", "rollout_log_probs")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options, at.split or "train")
        _take_tokens(builder, line.get("tokens"), line.get("response_length"))
        builder.take_keys(line, self.keys)
        return builder.build(at.step)


class MilesTrajectoryReader(Reader):
    """Reads the conversations that miles writes."""

    name = "miles_trajectory"
    title = "miles trajectories"
    keys: Mapping[str, str] = {
        "sample_index": "rollout_id",
        "group_index": "group_id",
        "rollout_log_probs": "sampling_logprobs",
        **dict.fromkeys(("messages", "prompt", "status"), ""),
    }
    layout = re.compile(r"trajectory/(?P<split>eval_)?(?P<step>[0-9]+)\.jsonl")
    join = Join("slime", _JOINED_BY, "conversations", order=1)

    def join_keys(self, record: Record, part: int) -> Sequence[object]:
        return (_index_key(record),)

    def recognises(self, head: Head) -> bool:
        """Messages beside the sample's index and status."""
        return any(
            is_messages(record.get("messages"))
            and {"sample_index", "group_index", "status"} <= record.keys()
            for record in head.records
        )

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options, at.split or "train")
        messages = line.get("messages")
        if is_messages(messages):
            builder.take_conversation(messages)
        else:
            builder.take("prompt", line.get("prompt"))
        _take_status(builder, line)
        builder.take_keys(line, self.keys)
        return builder.build(at.step)


class RelaxReader(Reader):
    """Reads Relax's rollout results."""

    name = "relax"
    title = "Relax"
    keys: Mapping[str, str] = {
        "sample_index": "rollout_id",
        "group_index": "group_id",
        "label": "ground_truth",
        "dataset": "env",
        "response_token_ids": "response_ids",
        "response_rollout_log_probs": "sampling_logprobs",
        "response_rollout_log_probs_mask": "rollout_log_probs_mask",
        **dict.fromkeys(("rollout_id", "prompt", "response", "reward", "status"), ""),
        **dict.fromkeys(("prompt_token_count", "response_token_count", "total_token_count"), ""),
        "weight_versions": "",
    }
    layout = re.compile(r"(?P<split>train|eval)/(?P<step>[0-9]+)\.jsonl")

    def recognises(self, head: Head) -> bool:
        """rollout_id, sample_index, response_length and status beside the response."""
        return head.has("rollout_id", "sample_index", "response", "response_length", "status")

    def read(self, line: Mapping[str, Any], at: LineContext) -> Record:
        builder = RecordBuilder(at.options, at.split or "train")
        builder.take_exchange(line.get("prompt"), line.get("response"))
        builder.take("reward", line.get("reward"))
        _take_status(builder, line)
        _take_versions(builder, line.get("weight_versions"))
        builder.take_keys(line, self.keys)
        return builder.build(line.get("rollout_id"))
