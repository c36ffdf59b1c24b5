"""ms-swift: GRPO's trainer from a plugin.

    # my_plugin.py, with --external_plugins my_plugin.py
    class ExportTrainer(ExportGRPO, GRPOTrainer): rollout_dir = "runs/mine"
    TrainerFactory.TRAINER_MAPPING["grpo"] = "my_plugin.ExportTrainer"

Not for sequence parallelism, where ranks share samples: there nothing is exported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from exporters.frameworks.guard import guarded
from exporters.frameworks.once import OncePerStep
from exporters.frameworks.trl_rollouts import StepBoundaries, open_exporter
from exporters.writer import RolloutExporter

# GRPOBatch's name of a [B, T] tensor -> the record's.
_TOKENS = {
    "old_per_token_logps": "old_logprobs",
    "ref_per_token_logps": "ref_logprobs",
    "rollout_per_token_logps": "sampling_logprobs",
    "teacher_per_token_logps": "teacher_logprobs",
    "advantages": "advantages",
}
_Trainer: Any = object


class ExportGRPO(_Trainer):
    """For ms-swift's GRPOTrainer: logs what each loss saw, once a step."""

    rollout_dir: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(StepBoundaries(self))

    def open_rollouts(self) -> RolloutExporter:
        """Opens this rank's file."""
        self._once = OncePerStep()
        self.exporter = open_exporter(self, lambda: self.rollout_dir, self._settings)
        return self.exporter

    def _settings(self) -> dict[str, Any]:
        is_alone = self.template.sequence_parallel_size == 1
        return {"tokenizer": self.template.tokenizer, "enabled": is_alone}

    def _postprocess_batch(self, samples: Any, batches: Any) -> None:
        super()._postprocess_batch(samples, batches)
        if self.model.training:
            with guarded(self.exporter, "ms_swift", rollouts=lambda: samples):
                first = self.accelerator.process_index * len(samples)
                for sample, parts in zip(samples, self._rewards_per_func[first:], strict=False):
                    sample.rewards = parts.tolist()
                for chunk, batch in zip(self.split_by_mini_batches(samples), batches, strict=True):
                    batch["grpo_batch"].rollouts = list(chunk)

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        self._forward = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        return self._forward

    def _compute_loss_and_metrics(self, model: Any, model_inputs: Any, grpo_batch: Any) -> Any:
        result = super()._compute_loss_and_metrics(model, model_inputs, grpo_batch)
        samples = getattr(grpo_batch, "rollouts", None)
        if self.model.training and samples:
            step = self.state.global_step + 1
            with guarded(self.exporter, "ms_swift", step, lambda: samples):
                self._export(step, samples, grpo_batch)
        return result

    def _export(self, step: int, samples: Sequence[Any], grpo_batch: Any) -> None:
        if self._once.is_first(step, [sample.request_id for sample in samples]):
            weights = self.reward_weights.tolist()
            columns = describe_samples(samples, self.reward_func_names, weights)
            arrays = {ours: getattr(grpo_batch, name) for name, ours in _TOKENS.items()}
            arrays |= zip(("logprobs", "entropy"), self._forward, strict=False)
            width = grpo_batch.completion_mask.shape[1]
            frame = token_frame(samples, width)
            if self.overlong_filter:  # in the loss ms-swift leaves the truncated ones out
                frame["loss_mask"] *= ~np.asarray(grpo_batch.truncated_mask.tolist(), bool)[:, None]
            self.exporter.log(step, meta=columns, **frame, **arrays)


def describe_samples(
    samples: Sequence[Any], names: Sequence[str], weights: Sequence[float]
) -> dict[str, list[Any]]:
    """The record's columns of ms-swift's GRPOSamples; a reward that has no value is NaN and adds 0."""
    return {
        "group_id": [sample.prompt_id for sample in samples],
        "rollout_id": [sample.request_id for sample in samples],
        "messages": [sample.messages for sample in samples],
        "finish_reason": [sample.finish_reason for sample in samples],
        "rewards": [dict(zip(names, sample.rewards, strict=True)) for sample in samples],
        "reward": [float(np.nansum(np.multiply(s.rewards, weights))) for s in samples],
    }


def token_frame(samples: Sequence[Any], width: int) -> dict[str, Any]:
    """Ids and masks in the frame of GRPOBatch's tensors: right aligned, `width` columns of response,
    which begins with the first trained token of the encoded sample.
    """
    rows = [(np.asarray(s.encoded["input_ids"]), np.asarray(s.encoded["labels"])) for s in samples]
    starts = [int((labels != -100).argmax()) for _, labels in rows]
    parts = [(row[0][:at], row[0][at:], row[1][at:]) for row, at in zip(rows, starts, strict=True)]
    prompts, responses, labels = zip(*parts, strict=True)
    longest = max(starts)
    return {
        "prompt_ids": _right_aligned(prompts, longest),
        "prompt_mask": _right_aligned([np.ones_like(row) for row in prompts], longest),
        "response_ids": _right_aligned(responses, width),
        "response_mask": _right_aligned([np.ones_like(row) for row in responses], width),
        "loss_mask": _right_aligned([row != -100 for row in labels], width),
    }


def _right_aligned(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    frame = np.zeros((len(rows), width), np.int64)
    for row, values in zip(frame, rows, strict=True):
        row[width - len(values) :] = values
    return frame
