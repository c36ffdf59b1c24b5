"""Proximal policy optimisation over tokens: rewards, advantages and losses (Schulman et al. 2017).

All tensors are [B, R], aligned with the response tokens; `mask` is 1 at a token of the response.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class Critic(nn.Module):
    """V of the state before each response token: what is still to come, seen from its prefix."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body  # a transformer without a head
        self.head = nn.Linear(body.config.hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, ids: Tensor, attention_mask: Tensor, prompt_width: int) -> Tensor:
        """[B, R] of ids [B, P + R]: value i is read where token i is about to be chosen."""
        hidden = self.body(input_ids=ids, attention_mask=attention_mask).last_hidden_state
        return self.head(hidden[:, prompt_width - 1 : -1])[..., 0]


def token_rewards(
    scores: Tensor, logprobs: Tensor, ref_logprobs: Tensor, mask: Tensor, kl_weight: float
) -> Tensor:
    """The score [B] at the last token, and at every token -kl_weight * (log p - log p_ref)."""
    rewards = -kl_weight * (logprobs - ref_logprobs) * mask
    last = mask.long().sum(1, keepdim=True) - 1
    return rewards.scatter_add(1, last, scores[:, None].to(rewards))


def advantages_and_returns(
    rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, decay: float
) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation (Schulman et al. 2016), and what the critic should have said.

    delta_t = r_t + gamma * V_(t+1) - V_t; A_t = delta_t + gamma * decay * A_(t+1); the return is
    A + V. V is 0 behind the end.
    """
    values, rewards = values * mask, rewards * mask
    advantages = torch.zeros_like(values)
    after, value_after = torch.zeros(len(values)), torch.zeros(len(values))
    for t in reversed(range(values.shape[1])):
        delta = rewards[:, t] + gamma * value_after - values[:, t]
        after = (delta + gamma * decay * after) * mask[:, t]
        advantages[:, t], value_after = after, values[:, t]
    return advantages, advantages + values


def whitened(values: Tensor, mask: Tensor) -> Tensor:
    """Mean 0 and standard deviation 1 over the tokens of the mask; 0 elsewhere."""
    known = values[mask]
    return ((values - known.mean()) / (known.std() + 1e-8)) * mask


class PolicyLoss(NamedTuple):
    """loss: a number with a gradient. clipped_high, clipped_low: tokens whose gradient was cut."""

    loss: Tensor
    clipped_high: Tensor
    clipped_low: Tensor


def policy_loss(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, mask: Tensor, clip: float
) -> PolicyLoss:
    """-mean over tokens of min(r A, clamp(r, 1 - clip, 1 + clip) A), r = p / p_old."""
    ratio = torch.exp(logprobs - old_logprobs)
    gain = torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)
    high = (ratio > 1 + clip) & (advantages > 0) & mask
    low = (ratio < 1 - clip) & (advantages < 0) & mask
    return PolicyLoss(-gain[mask].mean(), high, low)


def value_loss(values: Tensor, returns: Tensor, mask: Tensor) -> Tensor:
    """Half the mean squared error of the critic over the tokens of the mask."""
    return 0.5 * (values - returns)[mask].square().mean()
