"""Unsloth: a few methods over its GRPOTrainer.

    from unsloth import FastLanguageModel  # before trl
    from trl import GRPOTrainer

    class ExportTrainer(ExportGRPO, GRPOTrainer): rollout_dir = "runs/mine"

Unsloth fuses the policy's logprobs into its loss, where nobody sees them: `logprobs` are those of the
old policy, which Unsloth computes with several updates on a batch, and are not logged otherwise.
"""

from __future__ import annotations

from typing import Any

from exporters.frameworks.guard import guarded
from exporters.frameworks.once import OncePerStep
from exporters.frameworks.trl_rollouts import (
    StepBoundaries,
    describe_batch,
    loss_batch,
    open_exporter,
    training_settings,
)
from exporters.writer import RolloutExporter

_Trainer: Any = object


class ExportGRPO(_Trainer):
    """For the GRPOTrainer that Unsloth made of TRL's (0.18.2 to 1.15): logs what each loss was given."""

    rollout_dir: str
    rollout_columns: tuple[str, ...] = ("ground_truth", "env")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(StepBoundaries(self))

    def open_rollouts(self) -> RolloutExporter:
        """Opens this rank's file."""
        self._once = OncePerStep()
        self.exporter = open_exporter(self, lambda: self.rollout_dir, self._settings)
        return self.exporter

    def _settings(self) -> dict[str, Any]:
        config = training_settings(self.args.to_dict())
        return {"tokenizer": self._text_tokenizer, "run": {"config": config}}

    @property
    def _text_tokenizer(self) -> Any:
        """The tokenizer itself where the processing class is one for images, too."""
        return getattr(self.processing_class, "tokenizer", self.processing_class)

    def _calculate_rewards(
        self, inputs: Any, prompts: Any, completions: Any, ids: Any, *args: Any, **kwargs: Any
    ) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, ids, *args, **kwargs)
        self._rollouts = None
        if self.model.training:
            with guarded(self.exporter, "rewards", rollouts=lambda: prompts):
                tokenizer = self._text_tokenizer
                stop_ids = {tokenizer.eos_token_id, tokenizer.pad_token_id}
                self._rollouts = describe_batch(
                    self, inputs, prompts, completions, ids, rewards, stop_ids
                )
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        # A list of one dict a row rides along TRL's shuffle and split of the batch.
        return output | {"rollouts": self._rollouts} if self._rollouts else output

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Unsloth's; what it was given is logged before it may change it."""
        if self.model.training and inputs.get("rollouts"):
            step = self.state.global_step + 1
            with guarded(self.exporter, "export", step, lambda: inputs["rollouts"]):
                self._export(step, inputs)
        return super().compute_loss(model, inputs, *args, **kwargs)

    def _export(self, step: int, inputs: Any) -> None:
        if not self._once.is_first(step, [r["rollout_id"] for r in inputs["rollouts"]]):
            return
        old = inputs.get("old_per_token_logps")
        batch = loss_batch({**inputs, "old_per_token_logps": None}, (old, None))
        micro_step = self._step % self.args.gradient_accumulation_steps
        self.exporter.log(step, micro_step=micro_step, **batch)
