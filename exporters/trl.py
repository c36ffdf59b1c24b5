"""TRL's GRPOTrainer and RLOOTrainer with their rollouts exported.

    trainer = ExportGRPOTrainer(..., rollout_dir="runs/mine")

Exported is what the loss saw: policy logprobs and entropy of the forward that is trained on, the
reference's and the old policy's logprobs where TRL computed them, the sampler's where it returned
them; all after temperature, in nats. Run with TRL 1.16, which has no PPO trainer.
"""

from __future__ import annotations

from typing import Any

from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer

from exporters.frameworks.guard import guarded
from exporters.frameworks.once import OncePerStep
from exporters.frameworks.trl_rollouts import (
    StepBoundaries,
    add_advantage_rewards,
    describe_batch,
    loss_batch,
    open_exporter,
    training_settings,
)
from exporters.frameworks.trl_tools import ToolUse
from exporters.writer import RolloutExporter

_Trainer: Any = object


class _Export(_Trainer):
    """What both trainers are given: they share the methods that are extended here."""

    def __init__(
        self,
        *args: Any,
        rollout_dir: str | None,
        rollout_columns: tuple[str, ...] = ("ground_truth", "env"),
        rollout_run: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._forwards: list[Any] = []
        super().__init__(*args, **kwargs)
        self.rollout_dir, self.rollout_columns = rollout_dir, rollout_columns
        self.rollout_run = rollout_run or {}
        self.add_callback(StepBoundaries(self))

    def open_rollouts(self) -> RolloutExporter:
        """Opens this rank's file; TRL's first callback calls it."""
        self._once = OncePerStep()
        self.exporter = open_exporter(self, lambda: self.rollout_dir, self._settings)
        return self.exporter

    def _settings(self) -> dict[str, Any]:
        config = training_settings(self.args.to_dict())
        return {"tokenizer": self._tokenizer, "run": {"config": config, **self.rollout_run}}

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, ids)
        self._rollouts = None
        if self.model.training:
            with guarded(self.exporter, "rewards", rollouts=lambda: prompts):
                stop_ids = {*self.eos_token_ids, self._tokenizer.pad_token_id}
                self._rollouts = describe_batch(
                    self, inputs, prompts, completions, ids, rewards, stop_ids
                )
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self._forwards = []
        output = super()._generate_and_score_completions(inputs)
        # A list of one dict a row rides along TRL's shuffle and split of the batch.
        return output | {"rollouts": self._rollouts} if self._rollouts else output

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        forward = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._forwards.append(forward)
        return forward

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        self._forwards = []
        loss = super()._compute_loss(model, inputs)
        if self.model.training and inputs.get("rollouts"):
            step = self.state.global_step + 1
            with guarded(self.exporter, "export", step, lambda: inputs["rollouts"]):
                self._export(step, inputs)
        self._forwards = []
        return loss

    def _export(self, step: int, inputs: Any) -> None:
        if not self._once.is_first(step, [r["rollout_id"] for r in inputs["rollouts"]]):
            return
        micro_step = self._step % self.args.gradient_accumulation_steps
        batch = loss_batch(inputs, self._forwards[-1])
        self.exporter.log(step, micro_step=micro_step, **batch)


class ExportGRPOTrainer(ToolUse, _Export, GRPOTrainer):
    """GRPOTrainer that writes its training rollouts, one file a rank; evaluation is not exported.

    `rollout_dir=None` exports nothing. `rollout_columns` names the dataset columns that become
    fields of the record; `rollout_run` is added to `run-{attempt}.json`. Where there are tools, the
    messages say how long each call and each turn took, and which calls failed.
    """


class ExportRLOOTrainer(_Export, RLOOTrainer):
    """RLOOTrainer that writes its training rollouts; the arguments are ExportGRPOTrainer's.

    `reward` is the rewards' weighted sum; `advantage_reward` is what RLOO makes advantages of: clipped,
    and with the KL penalty.
    """

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        # RLOO keeps sums only. Its first forward is the old policy's, a second one the reference's.
        names = ("old_per_token_logps", "ref_per_token_logps")
        logps = [forward[0] for forward in self._forwards]
        output |= dict(zip(names, logps, strict=False))
        if self._rollouts:
            with guarded(self.exporter, "advantage_reward"):
                add_advantage_rewards(self._rollouts, output, self.beta, self.reward_clip_range)
        return output
