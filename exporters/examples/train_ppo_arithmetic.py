"""PPO with a critic on the CPU, in a loop of its own, with every rollout exported.

    python -m exporters.examples.train_ppo_arithmetic --out runs/ppo

The task and the model are those of train_grpo_arithmetic. Logged per token: the policy's logprobs
as the last update on the token saw them, the old policy's, the sampler's and the reference's,
entropy, the critic's values, token rewards (KL penalty, and the score at the end), advantages,
returns, and which tokens the clipping cut off.
"""

from __future__ import annotations

import argparse
import copy
import random
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen2ForCausalLM

from exporters.examples.arithmetic import REWARDS, draw_problem
from exporters.examples.ppo import (
    Critic,
    advantages_and_returns,
    policy_loss,
    token_rewards,
    value_loss,
    whitened,
)
from exporters.examples.small_model import (
    EOS_ID,
    Bfloat16Sampler,
    greedy_accuracy,
    make_warmed_up,
    train_tokenizer,
)
from exporters.hooks.generic import log_generated, up_to_end
from exporters.token_stats import token_stats
from exporters.writer import RolloutExporter

MINI_BATCHES = 2
CLIP = 0.2
GAMMA, DECAY = 1.0, 0.95
GROUP = 4


class Rollouts(NamedTuple):
    """One step's rollouts as sampled and scored; [B, ...] each."""

    ids: Tensor  # [B, P + R]
    attention: Tensor  # [B, P + R]
    prompt_width: int
    mask: Tensor  # [B, R]
    sampling_logprobs: Tensor  # [B, R]
    scores: Tensor  # [B]
    meta: dict[str, list[Any]]


def main() -> None:
    """Warms up, measures, trains with PPO, measures again."""
    options = parse_options()
    torch.manual_seed(options.seed)
    tokenizer = train_tokenizer(options.seed)
    started = time.time()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.warmed_up or scratch)
        make_warmed_up(folder, tokenizer, options.warm_up_steps, options.seed + 1)
        model = Qwen2ForCausalLM.from_pretrained(folder)
    print(f"warm-up: {time.time() - started:.0f} s", flush=True)
    print(f"greedy accuracy before PPO: {greedy_accuracy(model, tokenizer, options.seed + 3):.3f}")
    started = time.time()
    train(model, tokenizer, options)
    print(f"PPO: {time.time() - started:.0f} s", flush=True)
    print(f"greedy accuracy after PPO: {greedy_accuracy(model, tokenizer, options.seed + 3):.3f}")


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", required=True, help="folder of the run's log")
    add("--steps", type=int, default=50)
    add("--prompts", type=int, default=8, help=f"prompts a step, {GROUP} rollouts each")
    add("--problems", type=int, default=48, help="how many problems PPO trains on")
    add("--max-tokens", type=int, default=34, help="length limit of a response")
    add("--epochs", type=int, default=2, help="uses of every rollout")
    add("--learning-rate", type=float, default=1e-4)
    add("--critic-learning-rate", type=float, default=5e-4)
    add("--kl-weight", type=float, default=0.02, help="of the penalty in the token rewards")
    add("--warm-up-steps", type=int, default=400, help="supervised steps of 32 solutions")
    add("--warmed-up", help="folder of the warmed-up model: made if missing, else started from")
    add("--seed", type=int, default=17)
    return parser.parse_args()


def train(model: Any, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace) -> None:
    """PPO in one process, rollouts exported to `options.out`."""
    rng = random.Random(options.seed + 2)
    problems = [draw_problem(rng) for _ in range(options.problems)]
    trainer = Trainer(model, tokenizer, options)
    paths = ("out", "warmed_up")
    settings = {name: value for name, value in vars(options).items() if name not in paths}
    settings |= {"clip": CLIP, "gamma": GAMMA, "gae_lambda": DECAY, "group_size": GROUP}
    versions = {m.__name__: m.__version__ for m in (torch, transformers)}
    run = {"algorithm": "PPO", "config": settings, "versions": versions}
    with RolloutExporter(options.out, tokenizer=tokenizer, run=run, start_step=1) as exporter:
        for step in range(1, options.steps + 1):
            drawn = rng.sample(problems, options.prompts)
            rollouts = trainer.sample(step, [p for p in drawn for _ in range(GROUP)])
            trainer.update(exporter, step, rollouts)


class Trainer:
    """Policy, frozen reference and critic, and one step of PPO."""

    def __init__(
        self, model: Any, tokenizer: PreTrainedTokenizerFast, options: argparse.Namespace
    ) -> None:
        self.policy, self.tokenizer, self.options = model, tokenizer, options
        self.reference = copy.deepcopy(model).eval()
        self.critic = Critic(copy.deepcopy(model.model))
        self.sampler = Bfloat16Sampler(model, options.max_tokens)
        self.optimizers = (
            torch.optim.AdamW(model.parameters(), lr=options.learning_rate, weight_decay=0),
            torch.optim.AdamW(
                self.critic.parameters(), lr=options.critic_learning_rate, weight_decay=0
            ),
        )

    def sample(self, step: int, problems: list[Any]) -> Rollouts:
        """Rollouts of `problems`, one each, with their scores."""
        self.sampler.copy.load_state_dict(self.policy.state_dict())
        batch: Any = self.tokenizer([p.prompt for p in problems], return_tensors="pt", padding=True)
        responses, logprobs = self.sampler.sample(batch["input_ids"], batch["attention_mask"])
        mask = up_to_end(responses, {EOS_ID})
        texts = [
            self.tokenizer.decode(row[valid], skip_special_tokens=True)
            for row, valid in zip(responses, mask, strict=True)
        ]
        truths = [str(problem.answer) for problem in problems]
        parts = {
            function.__name__: function(completions=texts, ground_truth=truths)
            for function in REWARDS["honest"]
        }
        rewards = [
            dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)
        ]
        return Rollouts(
            torch.cat([batch["input_ids"], responses], 1),
            torch.cat([batch["attention_mask"], mask.long()], 1),
            batch["input_ids"].shape[1],
            mask,
            logprobs,
            torch.tensor([sum(reward.values()) for reward in rewards]),
            {
                "prompt": [problem.prompt for problem in problems],
                "response": texts,
                "ground_truth": truths,
                "env": [problem.env for problem in problems],
                "rewards": rewards,
                "group_id": [f"s{step}g{i // GROUP}" for i in range(len(problems))],
                "rollout_id": [f"s{step}r{i}" for i in range(len(problems))],
                "policy_version": [step] * len(problems),
            },
        )

    def forward(self, model: Any, rollouts: Rollouts, rows: Any = slice(None)) -> Tensor:
        """Logits [B, R, V] that predict the responses of `rows`."""
        logits = model(input_ids=rollouts.ids[rows], attention_mask=rollouts.attention[rows]).logits
        return logits[:, rollouts.prompt_width - 1 : -1]

    def update(self, exporter: RolloutExporter, step: int, rollouts: Rollouts) -> None:
        """Scores every token, trains policy and critic on them, and logs what they saw."""
        start, mask = rollouts.prompt_width, rollouts.mask
        responses = rollouts.ids[:, start:]
        with torch.no_grad():
            old = token_stats(self.forward(self.policy, rollouts), responses)
            ref = token_stats(self.forward(self.reference, rollouts), responses, entropy=False)
            values = self.critic(rollouts.ids, rollouts.attention, start)
        rewards = token_rewards(
            rollouts.scores, old.logprobs, ref.logprobs, mask, self.options.kl_weight
        )
        advantages, returns = advantages_and_returns(rewards, values, mask, GAMMA, DECAY)
        advantages = whitened(advantages, mask)
        seen = self._learn(rollouts, old.logprobs, advantages, returns)
        log_generated(
            exporter,
            step,
            rollouts.ids,
            start,
            eos_ids={EOS_ID},
            attention_mask=rollouts.attention,
            response_mask=mask,
            rewards=rollouts.scores,
            meta=rollouts.meta,
            old_logprobs=old.logprobs,
            ref_logprobs=ref.logprobs,
            sampling_logprobs=rollouts.sampling_logprobs,
            entropy=old.entropy,
            values=values,
            token_rewards=rewards,
            advantages=advantages,
            returns=returns,
            **seen,
        )
        losses = {name: float(value) for name, value in self.losses.items()}
        exporter.end_step(step, reward=float(rollouts.scores.mean()), **losses)
        if step % 10 == 0:
            print(f"step {step}: reward {rollouts.scores.mean():.3f}, {losses}", flush=True)

    def _learn(
        self, rollouts: Rollouts, old: Tensor, advantages: Tensor, returns: Tensor
    ) -> dict[str, Any]:
        """Trains on every rollout `epochs` times; returns what the last time saw, [B, R] each."""
        seen = {"logprobs": torch.zeros_like(old)}
        seen |= {name: torch.zeros_like(rollouts.mask) for name in ("high", "low")}
        for _ in range(self.options.epochs):
            for rows in torch.randperm(len(old)).chunk(MINI_BATCHES):
                mask, responses = rollouts.mask[rows], rollouts.ids[rows, rollouts.prompt_width :]
                log_probs = self.forward(self.policy, rollouts, rows).log_softmax(-1)
                logprobs = log_probs.gather(-1, responses[..., None])[..., 0]
                policy = policy_loss(logprobs, old[rows], advantages[rows], mask, CLIP)
                values = self.critic(
                    rollouts.ids[rows], rollouts.attention[rows], rollouts.prompt_width
                )
                critic = value_loss(values, returns[rows], mask)
                self._descend(policy.loss + critic)
                self.losses = {"policy_loss": policy.loss.detach(), "value_loss": critic.detach()}
                seen["logprobs"][rows] = logprobs.detach()
                seen["high"][rows], seen["low"][rows] = policy.clipped_high, policy.clipped_low
        high, low = seen.pop("high"), seen.pop("low")
        return {**seen, "is_masked": high | low, "is_masked_high": high, "is_masked_low": low}

    def _descend(self, loss: Tensor) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for network, optimizer in zip((self.policy, self.critic), self.optimizers, strict=True):
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()


if __name__ == "__main__":
    main()
