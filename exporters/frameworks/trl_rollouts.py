"""What TRL's trainers know of a rollout, in the words of the record: for `trl.py` and its kin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback

from exporters.frameworks.guard import open_guarded
from exporters.writer import RolloutExporter

# TRL's name of a per-token input of the loss -> the record's.
_TOKEN_INPUTS = {
    "old_per_token_logps": "old_logprobs",
    "ref_per_token_logps": "ref_logprobs",
    "sampling_per_token_logps": "sampling_logprobs",
}
# The settings that shape the training. Not all of them: the rest holds paths and tokens.
_SETTINGS = (
    *("learning_rate", "lr_scheduler_type", "max_grad_norm", "max_steps", "seed", "bf16"),
    *("per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation"),
    *("num_generations", "num_iterations", "max_completion_length", "mask_truncated_completions"),
    *("temperature", "top_p", "top_k", "min_p", "use_vllm", "beta", "epsilon", "epsilon_high"),
    *("delta", "loss_type", "scale_rewards", "importance_sampling_level", "reward_weights"),
    *(
        "use_bias_correction_kl",
        "vllm_importance_sampling_correction",
        "multi_objective_aggregation",
    ),
)


def open_exporter(
    trainer: Any,
    folder: Callable[[], str | None],
    settings: Callable[[], Mapping[str, Any]],
) -> RolloutExporter:
    """The rank's exporter. Every rank calls it, because they agree on the attempt here."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    attempt = broadcast_object_list([now])[0]

    def new_exporter() -> RolloutExporter:
        out_dir = folder()
        return RolloutExporter(
            out_dir or "",
            rank=trainer.accelerator.process_index,
            world_size=trainer.accelerator.num_processes,
            attempt=attempt,
            start_step=trainer.state.global_step + 1,
            temperature=trainer.args.temperature or None,
            **{"enabled": out_dir is not None, **settings()},
        )

    return open_guarded(new_exporter)


class StepBoundaries(TrainerCallback):
    """Opens and closes the file of a trainer and ends the steps.

    A step's own log, where there is one, comes right after its end and goes along as its metrics.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Opens the file."""
        self.exporter = self.trainer.open_rollouts()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends the step, unless its log is about to."""
        if not (control.should_log and args.logging_steps == 1):
            self.exporter.end_step(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Ends the step with its log."""
        if args.logging_steps == 1 and "loss" in (logs or {}):
            self.exporter.end_step(state.global_step, **logs)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Closes the file."""
        self.exporter.close()


def describe_batch(
    trainer: Any,
    inputs: Any,
    prompts: Any,
    completions: Any,
    ids: Any,
    rewards: torch.Tensor,
    stop_ids: Set[int],
) -> list[dict[str, Any]]:
    """One dict of record fields for each rollout that this rank generated.

    `rewards` [N, F] holds those of all ranks, this rank's in one piece. A response that does not end
    with one of `stop_ids` was cut off.
    """
    first = trainer.accelerator.process_index * len(prompts)
    # Several generations may serve one step: the micro step keeps their groups apart.
    micro_step = trainer._step % trainer.args.gradient_accumulation_steps
    start = micro_step * len(rewards) + first
    rollouts = describe_rollouts(
        trainer.state.global_step + 1,
        range(start, start + len(prompts)),
        trainer.num_generations,
        prompts,
        completions,
        ids,
        stop_ids,
    )
    totals = total_rewards(rewards, trainer.reward_weights).tolist()
    described = list(rollouts)
    for i, (rollout, example) in enumerate(zip(described, inputs, strict=True)):
        parts = rewards[first + i].tolist()
        rollout["reward"] = totals[first + i]
        rollout["rewards"] = dict(zip(trainer.reward_func_names, parts, strict=True))
        rollout |= {name: example[name] for name in trainer.rollout_columns if name in example}
    return described


def add_advantage_rewards(
    rollouts: Sequence[dict[str, Any]],
    output: Mapping[str, Any],
    beta: float,
    clip: Sequence[float] | None,
) -> None:
    """Adds the reward that RLOO makes a rollout's advantage of: TRL 1.16's `rloo_trainer.py:1660`.

    output: what TRL generated, with old and reference logprobs [B, R] where `beta` is not 0.
    """
    rewards = torch.tensor([rollout["reward"] for rollout in rollouts])
    if clip:
        rewards = rewards.clamp(clip[0], clip[1])
    if beta:
        ratio = (output["old_per_token_logps"] - output["ref_per_token_logps"]).detach().cpu()
        rewards = rewards - beta * (ratio * output["completion_mask"].cpu()).sum(-1)
    for rollout, reward in zip(rollouts, rewards.tolist(), strict=True):
        rollout["advantage_reward"] = reward


def loss_batch(inputs: Mapping[str, Any], forward: Sequence[Any]) -> dict[str, Any]:
    """The arguments of `RolloutExporter.log` for the inputs of one loss and its forward pass."""
    rollouts = inputs["rollouts"]
    lengths = [rollout["response_length"] for rollout in rollouts]
    columns = [name for name in rollouts[0] if name != "response_length"]
    advantage = "advantage" if inputs["advantages"].ndim == 1 else "advantages"
    return {
        "prompt_ids": inputs["prompt_ids"],
        "prompt_mask": inputs["prompt_mask"],
        "response_ids": inputs["completion_ids"],
        "response_mask": response_mask(lengths, inputs["completion_ids"].shape[1]),
        "loss_mask": inputs["completion_mask"] * inputs.get("tool_mask", 1),
        "meta": {name: [rollout.get(name) for rollout in rollouts] for name in columns},
        advantage: inputs["advantages"],
        **token_arrays(inputs, forward[0], forward[1]),
    }


def training_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a GRPOConfig or RLOOConfig that belongs in the run's document."""
    return {name: config[name] for name in _SETTINGS if name in config}


def total_rewards(parts: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """[N] weighted sums of the parts [N, F] as TRL takes them.

    Parts without a value (NaN) are left out; where none has one the total is NaN.
    """
    return (parts * weights.to(parts)).nansum(1).where(~parts.isnan().all(1), torch.nan)


def describe_rollouts(
    step: int,
    numbers: Sequence[int],
    group_size: int,
    prompts: Sequence[Any],
    completions: Sequence[Any],
    response_ids: Sequence[Sequence[int]],
    stop_ids: Set[int],
) -> Iterator[dict[str, Any]]:
    """One dict of record fields a rollout.

    `numbers` count the rollouts of the step over all ranks; consecutive `group_size` of them share
    a prompt. `policy_version` is the step that generated, so that what is trained on at once has
    staleness 0.
    """
    for number, prompt, completion, ids in zip(
        numbers, prompts, completions, response_ids, strict=True
    ):
        group, member = divmod(number, group_size)
        is_truncated = not ids or ids[-1] not in stop_ids
        yield {
            "group_id": f"s{step}g{group}",
            "rollout_id": f"s{step}g{group}r{member}",
            "split": "train",
            "policy_version": step,
            "generation": step,
            **_texts(prompt, completion),
            "is_truncated": is_truncated,
            "finish_reason": "length" if is_truncated else "stop",
            "response_length": len(ids),
        }


def token_arrays(
    inputs: Mapping[str, Any], logprobs: torch.Tensor, entropy: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """[B, R] arrays of the loss, NaN where TRL computed nothing: it has 0.0 there, a legal logprob."""
    trained = inputs["completion_mask"].bool()
    arrays = {name: inputs.get(key) for key, name in _TOKEN_INPUTS.items()}
    arrays |= {"logprobs": logprobs, "entropy": entropy}
    return {k: v.detach().where(trained, torch.nan) for k, v in arrays.items() if v is not None}


def response_mask(lengths: Sequence[int], width: int) -> torch.Tensor:
    """[B, R], 1 = a token of the response.

    TRL's own mask is all zero for the truncated responses that it leaves out of the loss.
    """
    return torch.arange(width)[None] < torch.tensor(lengths)[:, None]


def _texts(prompt: Any, completion: Any) -> dict[str, Any]:
    """Plain text as the reward functions saw it; of a conversation its contents, and the messages."""
    if isinstance(prompt, str):
        return {"prompt": prompt, "response": completion}
    plain = ["\n".join(str(m.get("content")) for m in part) for part in (prompt, completion)]
    return {"prompt": plain[0], "response": plain[1], "messages": [*prompt, *completion]}
