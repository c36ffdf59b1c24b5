"""verl's older trainer, `RayPPOTrainer` of `verl.trainer.ppo.ray_trainer`: its dump, replaced by ours.

    class ExportTrainer(ExportV0, RayPPOTrainer): ...

in the place of RayPPOTrainer in your copy of `main_ppo_v0.py`, with trainer.rollout_data_dir=runs/mine.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from exporters.frameworks.guard import guarded
from exporters.frameworks.verl_columns import COLUMNS, columns_of
from exporters.hooks.verl import Export
from exporters.writer import RolloutExporter


class ExportV0(Export):
    """For RayPPOTrainer: padded batches in a DataProto.

    Its metrics of a step are complete after the dump, where `fit` hands them to its Tracking. They are
    taken there, so that a step ends with them.
    """

    _tracks = False
    _open_step: int | None = None

    def fit(self, *args: Any, **kwargs: Any) -> Any:
        """Trains, and looks on at what is logged meanwhile."""
        try:
            tracking = import_module("verl.utils.tracking").Tracking
            log = tracking.log
        except Exception:  # of another version: steps end without metrics
            return super().fit(*args, **kwargs)

        def log_both(tracker: Any, data: Any, step: Any, *args: Any, **kwargs: Any) -> Any:
            answer = log(tracker, data, step, *args, **kwargs)
            self._end_with(data, step)
            return answer

        tracking.log, self._tracks = log_both, True
        try:
            return super().fit(*args, **kwargs)
        finally:
            tracking.log, self._tracks = log, False

    def _end_with(self, metrics: Any, step: Any) -> None:
        exporter = self.rollout_exporter
        if exporter is not None and step == self._open_step:  # and not of an evaluation before
            self._open_step = None
            with guarded(exporter, "verl", step):
                self._end(exporter, dict(metrics))

    def _log_rollout_data(
        self, batch: Any, reward_extra_infos_dict: Any, timing_raw: Any, rollout_data_dir: str
    ) -> None:
        exporter, step = self._open_rollouts(rollout_data_dir), self.global_steps
        with guarded(exporter, "verl", step, lambda: batch):
            log_padded(exporter, step, batch, reward_extra_infos_dict or {}, self._tokens())
        if self._tracks:
            self._open_step = step
        else:
            self._end(exporter, {})


def log_padded(
    exporter: RolloutExporter,
    step: int,
    batch: Any,
    extra: Mapping[str, Any],
    tokens: Mapping[str, str],
) -> None:
    """Logs a DataProto: prompts [B, P] left padded, responses [B, R] right padded."""
    tensors = batch.batch
    prompts, responses = tensors["prompts"], tensors["responses"]
    attention = tensors["attention_mask"]
    scores = tensors["token_level_scores"]
    columns = {name: batch.non_tensor_batch.get(name) for name in COLUMNS}
    parts = {name: list(values) for name, values in extra.items() if len(values) == len(prompts)}
    exporter.log(
        step,
        prompt_ids=prompts,
        prompt_mask=attention[:, : prompts.shape[1]],
        response_ids=responses,
        response_mask=attention[:, prompts.shape[1] :],
        loss_mask=tensors["response_mask"],
        rewards=scores.sum(-1),
        meta={**columns_of({k: v for k, v in columns.items() if v is not None}), **parts},
        token_rewards=tensors.get("token_level_rewards", scores),
        **{ours: tensors.get(name) for name, ours in tokens.items()},
    )
