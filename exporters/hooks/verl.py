"""verl: the trainer's own dump of rollouts, replaced by ours.

    # my_verl.py, with VERL_USE_EXTERNAL_MODULES=my_verl and trainer.rollout_data_dir=runs/mine
    class ExportTrainer(ExportV1, PPOTrainerSync): ...
    TRAINER_REGISTRY["sync"] = ExportTrainer

It runs on the driver, which has all rollouts of a step. `old_log_probs` are the policy's before the
step's updates, but the sampler's in verl's bypass mode: there they are not logged a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import torch

from exporters.frameworks.guard import guarded, open_guarded
from exporters.frameworks.verl_columns import COLUMNS, bypasses, columns_of, numbers, settings_of
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
_Trainer: Any = object


class Export(_Trainer):
    """What the trainers of both verl's share."""

    rollout_exporter: RolloutExporter | None = None

    def _open_rollouts(self, folder: str) -> RolloutExporter:
        if self.rollout_exporter is None:
            self.rollout_exporter = open_guarded(lambda: self._new_exporter(folder))
        return self.rollout_exporter

    def _new_exporter(self, folder: str) -> RolloutExporter:
        rollout = self.config.actor_rollout_ref.rollout
        return RolloutExporter(
            folder,
            rank=0,
            world_size=1,
            start_step=self.global_steps,
            tokenizer=self.tokenizer,
            temperature=rollout.temperature
            or None,  # 0 is greedy: no temperature that logprobs include
            engine=rollout.name,
            run={"config": settings_of(self.config)},
        )

    def _tokens(self) -> dict[str, str]:
        """Which tensors are logged."""
        bypass = bypasses(self.config)
        return {theirs: ours for theirs, ours in TOKENS.items() if not bypass or ours != "logprobs"}

    def _end(self, exporter: RolloutExporter, metrics: Mapping[str, Any]) -> None:
        with guarded(exporter, "verl"):
            exporter.end_step(self.global_steps, **numbers(metrics))
        if self.global_steps >= self.total_training_steps:
            exporter.close()  # Ray may end this process without letting it finish


class ExportV1(Export):
    """For the trainers of `verl.trainer.ppo.v1`: batches lie in the TransferQueue."""

    _step_metrics: Mapping[str, Any] = {}

    def _compute_metrics(self, batch: Any, metrics: Any, *args: Any, **kwargs: Any) -> Any:
        self._step_metrics = metrics  # filled by verl, and logged once the rollouts are
        return super()._compute_metrics(batch, metrics, *args, **kwargs)

    def _log_rollout_data(self, batch: Any, timing_raw: Any, rollout_data_dir: str) -> None:
        exporter, step = self._open_rollouts(rollout_data_dir), self.global_steps
        with guarded(exporter, "verl", step, lambda: list(batch.keys)):
            if exporter.wants(step):
                log_nested(exporter, step, self._fetch(batch), batch, self._tokens())
        self._end(exporter, self._step_metrics)

    def _fetch(self, batch: Any) -> Any:
        # Fields that the configuration does not produce are left out of the answer.
        return import_module("transfer_queue").kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=[*_FIELDS, *COLUMNS]
        )


def real_rows(batch: Any) -> list[int]:
    """The rows of a KVBatchMeta without those that verl added to fill the ranks."""
    keys, tags = list(batch.keys), batch.tags or []
    tags = tags if len(tags) == len(keys) else [{}] * len(keys)
    return [row for row, tag in enumerate(tags) if not tag.get("is_padding")]


def log_nested(
    exporter: RolloutExporter, step: int, data: Any, batch: Any, tokens: Mapping[str, str]
) -> None:
    """Logs a TensorDict of jagged tensors, one row a rollout. batch: the KVBatchMeta it came with."""
    rows = real_rows(batch)
    # By `get`: what `data[name]` gives of texts is another kind of list in each tensordict.
    columns = {name: _rows(data.get(name)) for name in (*_FIELDS, *COLUMNS) if name in data.keys()}  # noqa: SIM118
    known = {name: [column[row] for row in rows] for name, column in columns.items()}
    arrays: dict[str, Any] = {ours: known.get(name) for name, ours in tokens.items()}
    scores = known.get("rm_scores")
    pairs = zip(known["prompts"], known["responses"], strict=True)
    exporter.log_ragged(
        step,
        token_ids=[torch.cat(pair) for pair in pairs],
        response_lengths=[len(response) for response in known["responses"]],
        loss_mask=known["response_mask"],
        rewards=None if scores is None else [float(row.sum()) for row in scores],
        meta={**columns_of(known), **_of_batch(batch, rows)},
        token_rewards=known.get("token_level_rewards", scores),
        **arrays,
    )


def _of_batch(batch: Any, rows: Sequence[int]) -> dict[str, list[Any]]:
    tags = batch.tags or [{}] * len(list(batch.keys))
    named = {"policy_version": "min_global_steps", "last_policy_version": "max_global_steps"}
    versions = {ours: [tags[row].get(theirs) for row in rows] for ours, theirs in named.items()}
    return {"rollout_id": [str(batch.keys[row]) for row in rows], **versions}


def _rows(column: Any) -> list[Any]:
    if isinstance(column, torch.Tensor):
        return list(column.unbind())
    return column.tolist() if hasattr(column, "tolist") else list(column)
