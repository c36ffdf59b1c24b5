"""TRL's GRPOTrainer with its rollouts exported: `ExportGRPOTrainer(..., rollout_dir="runs/mine")`.

Exported is what the loss saw: policy logprobs and entropy of the forward that is trained on, the
reference's and the old policy's logprobs where TRL computed them, the sampler's where it returned
them; all after temperature, in nats. Tested with TRL 1.16.
"""

from __future__ import annotations

import time
from typing import Any

from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from exporters.trl_rollouts import (
    describe_rollouts,
    response_mask,
    token_arrays,
    total_rewards,
    training_settings,
)
from exporters.writer import RolloutExporter


class ExportGRPOTrainer(GRPOTrainer):
    """GRPOTrainer that writes its training rollouts, one file a rank; evaluation is not exported.

    `rollout_dir=None` exports nothing. `rollout_columns` names the dataset columns that become
    fields of the record; `rollout_run` is added to `run-{attempt}.json`.
    """

    args: Any  # declared wider by Trainer than GRPOTrainer sets them
    model: Any
    num_generations: Any
    eos_token_ids: Any
    _tokenizer: Any

    def __init__(
        self,
        *args: Any,
        rollout_dir: str | None,
        rollout_columns: tuple[str, ...] = ("ground_truth", "env"),
        rollout_run: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.rollout_dir, self.rollout_columns = rollout_dir, rollout_columns
        self.rollout_run = rollout_run or {}
        self._exported: tuple[int, set[str]] = (0, set())
        self.add_callback(_StepBoundaries(self))

    def open_rollouts(self) -> RolloutExporter:
        """Opens this rank's file. Every rank calls it, because they agree on the attempt here."""
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.exporter = RolloutExporter(
            self.rollout_dir or "",
            enabled=self.rollout_dir is not None,
            rank=self.accelerator.process_index,
            world_size=self.accelerator.num_processes,
            attempt=broadcast_object_list([now])[0],
            start_step=self.state.global_step + 1,
            temperature=self.args.temperature,
            tokenizer=self._tokenizer,
            run={"config": training_settings(self.args.to_dict()), **self.rollout_run},
        )
        return self.exporter

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        rewards = super()._calculate_rewards(inputs, prompts, completions, ids)
        first = self.accelerator.process_index * len(prompts)  # `rewards` holds those of all ranks
        # Several generations may serve one step: the micro step keeps their groups apart.
        start = self._step % self.args.gradient_accumulation_steps * len(rewards) + first
        rollouts = describe_rollouts(
            self.state.global_step + 1,
            range(start, start + len(prompts)),
            self.num_generations,
            prompts,
            completions,
            ids,
            {*self.eos_token_ids, self._tokenizer.pad_token_id},
        )
        totals = total_rewards(rewards, self.reward_weights).tolist()
        self._rollouts = list(rollouts)
        for i, (rollout, example) in enumerate(zip(self._rollouts, inputs, strict=True)):
            parts = rewards[first + i].tolist()
            rollout["reward"] = totals[first + i]
            rollout["rewards"] = dict(zip(self.reward_func_names, parts, strict=True))
            rollout |= {name: example[name] for name in self.rollout_columns if name in example}
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        # A list of one dict a row rides along TRL's shuffle and split of the batch.
        return super()._generate_and_score_completions(inputs) | {"rollouts": self._rollouts}

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        self._forward = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        return self._forward

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        loss = super()._compute_loss(model, inputs)
        if self.model.training:
            self._export(inputs)
        del self._forward
        return loss

    def _export(self, inputs: Any) -> None:
        step, rollouts = self.state.global_step + 1, inputs["rollouts"]
        ids = {rollout["rollout_id"] for rollout in rollouts}
        earlier = self._exported[1] if self._exported[0] == step else set()
        self._exported = (step, earlier | ids)
        if ids <= earlier:  # num_iterations > 1 comes back to a batch within the step
            return
        lengths = [rollout["response_length"] for rollout in rollouts]
        columns = [name for name in rollouts[0] if name != "response_length"]
        advantage = "advantage" if inputs["advantages"].ndim == 1 else "advantages"
        self.exporter.log(
            step,
            micro_step=self._step % self.args.gradient_accumulation_steps,
            prompt_ids=inputs["prompt_ids"],
            prompt_mask=inputs["prompt_mask"],
            response_ids=inputs["completion_ids"],
            response_mask=response_mask(lengths, inputs["completion_ids"].shape[1]),
            loss_mask=inputs["completion_mask"] * inputs.get("tool_mask", 1),
            meta={name: [rollout.get(name) for rollout in rollouts] for name in columns},
            **{advantage: inputs["advantages"]},
            **token_arrays(inputs, self._forward[0], self._forward[1]),
        )


class _StepBoundaries(TrainerCallback):
    """Opens and closes the file and ends the steps.

    A step's own log, where there is one, comes right after its end and goes along as its metrics.
    """

    def __init__(self, trainer: ExportGRPOTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.exporter = self.trainer.open_rollouts()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not (control.should_log and args.logging_steps == 1):
            self.exporter.end_step(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if args.logging_steps == 1 and "loss" in logs:
            self.exporter.end_step(state.global_step, **logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.exporter.close()
