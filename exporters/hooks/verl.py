"""verl: the trainer's own dump of rollouts, replaced by ours.

    # my_verl.py, with VERL_USE_EXTERNAL_MODULES=my_verl, trainer.v1.trainer_mode=sync_export and
    # trainer.rollout_data_dir=runs/mine
    @register_trainer("sync_export")
    class ExportTrainer(ExportV1, PPOTrainerSync): ...

It runs on the driver, which has all rollouts of a step. `old_log_probs` are the policy's before the
step's updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch

from exporters.hooks.guard import guarded
from exporters.writer import RolloutExporter

# verl's name of a [B, R] tensor -> the record's.
TOKENS = {
    "old_log_probs": "logprobs",
    "rollout_log_probs": "sampling_logprobs",
    "ref_log_prob": "ref_logprobs",
    "entropy": "entropy",
    "values": "values",
    "advantages": "advantages",
    "returns": "returns",
}
_FIELDS = ("prompts", "responses", "response_mask", *TOKENS, "token_level_rewards", "rm_scores")
COLUMNS = ("uid", "data_source", "reward_model")
_Trainer: Any = object


class Export(_Trainer):
    """What the trainers of both verl's share."""

    rollout_exporter: RolloutExporter | None = None

    def _open_rollouts(self, folder: str) -> RolloutExporter:
        if self.rollout_exporter is None:
            rollout = self.config.actor_rollout_ref.rollout
            self.rollout_exporter = RolloutExporter(
                folder,
                rank=0,
                world_size=1,
                start_step=self.global_steps,
                tokenizer=self.tokenizer,
                temperature=rollout.temperature,
                engine=rollout.name,
            )
        return self.rollout_exporter

    def _end(self, exporter: RolloutExporter) -> None:
        exporter.end_step(self.global_steps)
        if self.global_steps >= self.total_training_steps:
            exporter.close()  # Ray may end this process without letting it finish


class ExportV1(Export):
    """For the trainers of `verl.trainer.ppo.v1`: batches lie in the TransferQueue."""

    def _log_rollout_data(self, batch: Any, timing_raw: Any, rollout_data_dir: str) -> None:
        exporter = self._open_rollouts(rollout_data_dir)
        with guarded(exporter, "verl"):
            if exporter.wants(self.global_steps):
                log_nested(exporter, self.global_steps, self._fetch(batch), batch.tags)
        self._end(exporter)

    def _fetch(self, batch: Any) -> Mapping[str, Any]:
        # Fields that the configuration does not produce are left out of the answer.
        return import_module("transfer_queue").kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=[*_FIELDS, *COLUMNS]
        )


def log_nested(exporter: RolloutExporter, step: int, data: Any, tags: Any) -> None:
    """Logs a TensorDict of jagged tensors, one row a rollout.

    Rows that verl added to fill the ranks, and tagged so, are left out.
    """
    known = {name: _rows(data[name]) for name in data.keys()}  # noqa: SIM118 - a TensorDict
    size = len(known["prompts"])
    tags = tags if tags and len(tags) == size else [{}] * size
    real_rows = [i for i, tag in enumerate(tags) if not tag.get("is_padding")]
    known = {name: [rows[i] for i in real_rows] for name, rows in known.items()}
    arrays: dict[str, Any] = {ours: known.get(name) for name, ours in TOKENS.items()}
    scores = known.get("rm_scores")
    pairs = zip(known["prompts"], known["responses"], strict=True)
    versions = [tags[i].get("min_global_steps") for i in real_rows]
    exporter.log_ragged(
        step,
        token_ids=[torch.cat(pair) for pair in pairs],
        response_lengths=[len(response) for response in known["responses"]],
        loss_mask=known["response_mask"],
        rewards=None if scores is None else [float(row.sum()) for row in scores],
        meta={**columns_of(known), "policy_version": versions},
        token_rewards=known.get("token_level_rewards", scores),
        **arrays,
    )


def _rows(column: Any) -> list[Any]:
    return list(column.unbind()) if isinstance(column, torch.Tensor) else column.tolist()


def columns_of(known: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The record's columns of verl's."""
    columns: dict[str, list[Any]] = {}
    if "uid" in known:
        columns["group_id"] = [str(uid) for uid in known["uid"]]
    if "data_source" in known:
        columns["env"] = [str(source) for source in known["data_source"]]
    if "reward_model" in known:
        columns["ground_truth"] = [(row or {}).get("ground_truth") for row in known["reward_model"]]
    return columns
