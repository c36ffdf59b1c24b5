"""The methods and inputs are those of TRL 0.24's GRPOTrainer as Unsloth 015bdef0 rewrites it
(`models/rl_replacements.py`).
"""

from types import SimpleNamespace
from typing import Any

import pytest
from opened_logs import assert_rollouts

torch = pytest.importorskip("torch")
pytest.importorskip("trl")


class Trainer:
    """What of the GRPOTrainer the hook touches: one batch of two rollouts."""

    def __init__(self, with_old: bool) -> None:
        self.with_old = with_old
        self.accelerator = SimpleNamespace(process_index=0, num_processes=1)
        self.state = SimpleNamespace(global_step=0)
        self.args = SimpleNamespace(
            temperature=1.0, gradient_accumulation_steps=1, to_dict=lambda: {"beta": 0.1}
        )
        self.model = SimpleNamespace(training=True)
        self.processing_class = SimpleNamespace(
            eos_token_id=1, pad_token_id=0, name_or_path="t", vocab_size=12
        )
        self.reward_func_names, self.reward_weights = ["acc"], torch.ones(1)
        self.num_generations, self._step = 2, 0
        self.callbacks: list[Any] = []

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
        return torch.tensor([[1.0], [0.0]])

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        prompts = [row["prompt"] for row in inputs]
        self._calculate_rewards(inputs, prompts, ["x", "y"], [[7, 8, 1], [9]])
        output = {
            "prompt_ids": torch.tensor([[5, 6], [5, 6]]),
            "prompt_mask": torch.ones(2, 2),
            "completion_ids": torch.tensor([[7, 8, 1], [9, 0, 0]]),
            "completion_mask": torch.tensor([[1, 1, 1], [1, 0, 0]]),
            "advantages": torch.tensor([1.0, -1.0]),
            "sampling_per_token_logps": torch.tensor([[-0.1, -0.2, -0.3], [-0.4, 0, 0]]),
        }
        old = {"old_per_token_logps": torch.tensor([[-0.11, -0.21, -0.31], [-0.41, 0, 0]])}
        return output | (old if self.with_old else {})

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        inputs.pop("completion_ids")  # whatever it does with its inputs is its own affair
        return torch.tensor(0.5)


@pytest.mark.parametrize("with_old", [True, False])
def test_what_the_loss_was_given_is_logged_once_a_step(tmp_path, monkeypatch, with_old):
    from exporters.hooks.unsloth import ExportGRPO  # loads TRL, which takes seconds

    # There is no tokenizer to describe.
    monkeypatch.setattr("exporters.launch.opening.describe_run", lambda *_: None)
    trainer: Any = type("ExportTrainer", (ExportGRPO, Trainer), {})(with_old)
    trainer.rollout_dir = str(tmp_path)
    (boundaries,) = trainer.callbacks
    boundaries.on_train_begin(trainer.args, trainer.state, None)
    rows = [{"prompt": "q", "ground_truth": "x"}] * 2
    batch = trainer._generate_and_score_completions(rows)
    for _ in range(2):  # two updates on the batch
        assert float(trainer.compute_loss(None, dict(batch))) == 0.5
    boundaries.on_train_end(trainer.args, trainer.state, None)
    first = {"response_ids": [7, 8, 1], "sampling_logprobs": [-0.1, -0.2, -0.3], "reward": 1}
    first |= {"logprobs": [-0.11, -0.21, -0.31] if with_old else None, "old_logprobs": None}
    first |= {"prompt_ids": [5, 6], "advantage": 1, "is_truncated": 0, "ground_truth": "x"}
    second = {"response_ids": [9], "logprobs": [-0.41] if with_old else None, "reward": 0}
    second |= {"prompt_ids": [5, 6], "advantage": -1, "is_truncated": 1}
    assert_rollouts(tmp_path, first, second)
