"""What TRL's trainer knows of a rollout, in the words of the record: pure functions for `trl.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import torch

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
)


def training_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a GRPOConfig that belongs in the run's document."""
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
    found = {name: inputs.get(key) for key, name in _TOKEN_INPUTS.items()}
    found |= {"logprobs": logprobs, "entropy": entropy}
    return {k: v.detach().where(trained, torch.nan) for k, v in found.items() if v is not None}


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
