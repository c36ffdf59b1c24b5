"""Experience as in OpenRLHF 0.11 (3c3be623, `trainer/ppo_utils/experience.py`): its own where it can be
imported, else a stand-in of the same fields.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from opened_logs import assert_rollouts, with_real

torch = pytest.importorskip("torch")

from exporters.hooks.openrlhf import export_experiences  # noqa: E402 - not there without torch


@dataclass
class StandIn:
    sequences: Any = None
    attention_mask: Any = None
    action_mask: Any = None
    action_log_probs: Any = None
    base_action_log_probs: Any = None
    rollout_log_probs: Any = None
    values: Any = None
    returns: Any = None
    advantages: Any = None
    rewards: Any = None
    truncated: Any = None
    index: Any = None
    prompts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)


TYPES = with_real(StandIn, "openrlhf.trainer.ppo_utils.experience", "Experience")


def experience(made: Any) -> Any:
    """Prompt of 2 and response of 3 tokens; prompt of 1, action, tool's answer, action; padding."""
    actions = torch.tensor([[0, 1, 1, 1], [1, 0, 1, 0]])
    return made(
        sequences=torch.tensor([[5, 6, 7, 8, 1], [9, 10, 11, 12, 0]]),
        attention_mask=torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0]]),
        action_mask=actions.bool(),
        action_log_probs=-0.1 * torch.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]]) * actions,
        returns=torch.ones(2, 4),
        advantages=torch.tensor([[0.0, 1, 2, 3], [4, 5, 6, 7]]),
        rewards=torch.tensor([0.1, 0.2]),
        truncated=torch.tensor([False, True]),
        index=[0, 1],
        prompts=["a", "b"],
        labels=["x", "y"],
        info={"reward": torch.tensor([1.0, 0.0]), "kl": torch.zeros(2), "fmt": torch.ones(2)},
    )


def trainer() -> Any:
    arguments = SimpleNamespace(rollout=SimpleNamespace(n_samples_per_prompt=2))
    return SimpleNamespace(args=arguments, tokenizer=None)


@pytest.mark.parametrize("made", TYPES)
def test_experiences_come_apart_at_their_action_masks(tmp_path, made):
    owner = trainer()
    export_experiences(owner, [experience(made)], 4, str(tmp_path), strict=True)
    owner.rollout_exporter.close()
    both = {"step": 5, "group_id": "s5g0", "fmt": 1, "values": None}  # there was no critic
    whole = {"prompt_ids": [5, 6], "response_ids": [7, 8, 1], "logprobs": [-0.2, -0.3, -0.4]}
    whole |= {"advantages": [1, 2, 3], "reward": 1, "is_truncated": 0, "ground_truth": "x"}
    with_tool = {"prompt_ids": [9], "response_ids": [10, 11, 12], "logprobs": [-0.5, 0, -0.7]}
    with_tool |= {"loss_mask": [1, 0, 1], "reward": 0, "is_truncated": 1, "ground_truth": "y"}
    assert_rollouts(tmp_path, both | whole, both | with_tool)


def test_every_step_goes_to_the_same_file(tmp_path):
    owner = trainer()
    for step in range(3):
        export_experiences(owner, [experience(StandIn), experience(StandIn)], step, str(tmp_path))
    owner.rollout_exporter.close()
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    assert_rollouts(tmp_path, *({"step": step} for step in (1, 2, 3) for _ in range(4)))


def test_what_is_no_experience_is_counted_and_does_not_raise(tmp_path):
    owner = trainer()
    export_experiences(owner, [SimpleNamespace()], 0, str(tmp_path), strict=False)
    assert owner.rollout_exporter.counts["errors:export_experiences"] == 1
    owner.rollout_exporter.close()
