"""slime: `--rollout-data-postprocess-path my_hook.export`.

    # my_hook.py
    from exporters.hooks.slime import SlimeExport
    export = SlimeExport("runs/mine")

Called on every training rank once the log probs and advantages are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from exporters.frameworks.guard import guarded, open_guarded
from exporters.parallel import DataShard, shard_of_ranks
from exporters.writer import RolloutExporter

# slime's name of one tensor [R] a sample -> the record's.
_TOKENS = {
    "log_probs": "logprobs",
    "rollout_log_probs": "sampling_logprobs",
    "ref_log_probs": "ref_logprobs",
    "teacher_log_probs": "teacher_logprobs",
    "values": "values",
    "returns": "returns",
    "advantages": "advantages",
    "entropy": "entropy",
}


class SlimeExport:
    """The function that slime calls. `settings` are RolloutExporter's; the file opens at the first call.

    `log_probs` are the policy's before the step's updates; slime leaves them out where the loss reuses
    its own forward pass, and then they are not in the log.
    """

    def __init__(self, out_dir: str, **settings: Any) -> None:
        self.out_dir, self.settings = out_dir, settings
        self.exporter: RolloutExporter | None = None

    def __call__(self, args: Any, rollout_id: int, rollout_data: Mapping[str, Any]) -> None:
        """Logs one data shard's samples of one rollout step."""
        if self.exporter is None:
            self.exporter = open_guarded(
                lambda: self._open(args, rollout_id), self.settings.get("strict")
            )
        exporter = self.exporter
        with guarded(exporter, "slime", rollout_id, lambda: rollout_data["tokens"]):
            shard = self.shard()
            # Every context-parallel rank has to come along, also one that writes nothing: this gathers
            # what they split.
            whole = self.whole(rollout_data, shard)
            if whole is not None and shard.is_writer:
                log_samples(exporter, rollout_id, whole, int(args.n_samples_per_prompt))
        exporter.end_step(rollout_id)
        # A Ray actor may be ended without a word.
        if rollout_id + 1 == getattr(args, "num_rollout", None):
            exporter.close()
        else:
            exporter.flush()

    def shard(self) -> DataShard:
        """Which data shard this rank holds, from Megatron's process groups."""
        mpu = import_module("megatron.core").mpu
        return shard_of_ranks(
            data_rank=mpu.get_data_parallel_rank(with_context_parallel=False),
            data_size=mpu.get_data_parallel_world_size(with_context_parallel=False),
            tensor_rank=mpu.get_tensor_model_parallel_rank(),
            context_rank=mpu.get_context_parallel_rank(),
            pipeline_rank=mpu.get_pipeline_model_parallel_rank(),
            pipeline_size=mpu.get_pipeline_model_parallel_world_size(),
        )

    def whole(self, rollout_data: Mapping[str, Any], shard: DataShard) -> Mapping[str, Any] | None:
        """The samples with their tokens in one piece; None on ranks that do not keep them."""
        gather = import_module("slime.backends.megatron_utils.cp_utils").all_gather_with_cp
        restore = import_module("slime.observability.train_data_utils")
        return restore.restore_context_parallel_fields_to_cpu(
            rollout_data, gather, keep_restored=shard.is_writer
        )

    def _open(self, args: Any, rollout_id: int) -> RolloutExporter:
        shard, temperature = self.shard(), getattr(args, "rollout_temperature", None) or None
        settings = {"start_step": rollout_id, "temperature": temperature, "engine": "sglang"}
        place = {"rank": shard.rank, "world_size": shard.world_size, "enabled": shard.is_writer}
        return RolloutExporter(self.out_dir, **{**settings, **place, **self.settings})


def log_samples(
    exporter: RolloutExporter, rollout_id: int, whole: Mapping[str, Any], group_size: int
) -> None:
    """Logs one data shard's samples, whose tokens are in one piece."""
    arrays: dict[str, Any] = {_TOKENS[name]: whole.get(name) for name in _TOKENS}
    exporter.log_ragged(
        rollout_id,
        token_ids=whole["tokens"],
        response_lengths=whole["response_lengths"],
        loss_mask=whole["loss_masks"],
        rewards=_own(whole, "raw_reward", whole["rewards"]),
        meta=_columns(whole, rollout_id, group_size),
        **arrays,
    )


def _own(whole: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """The shard's part of a column that slime hands whole to every shard."""
    if name not in whole:
        return otherwise
    size, column = len(whole["tokens"]), whole[name]
    return [column[i] for i in whole["partition"]] if len(column) != size else column


def _columns(whole: Mapping[str, Any], rollout_id: int, size: int) -> dict[str, list[Any]]:
    indices = whole["sample_indices"]
    columns = {
        "group_id": [None if i is None else f"g{int(i) // size}" for i in indices],
        "rollout_id": [f"s{rollout_id}r{int(i)}" for i in whole["rollout_ids"]],
        "is_truncated": [bool(flag) for flag in whole["truncated"]],
    }
    texts = {"prompt": whole.get("prompt"), "env": whole.get("source_names")}
    return columns | {name: list(values) for name, values in texts.items() if values}
