"""Samples and batches as ms-swift 4.6 (3602360a) builds them: `rl_core/data.py` and
`rlhf_trainers/grpo_trainer.py`; its own GRPOSample and GRPOBatch where they can be imported.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from opened_logs import assert_rollouts, with_real

torch = pytest.importorskip("torch")
pytest.importorskip("trl")


@dataclass
class Sample:
    messages: list[dict[str, str]]
    prompt_id: str = ""
    request_id: str = ""
    finish_reason: str | None = None
    rewards: Any = None
    encoded: Any = None


@dataclass
class Batch:
    completion_mask: Any
    truncated_mask: Any
    seq_lengths: Any
    old_per_token_logps: Any = None
    ref_per_token_logps: Any = None
    rollout_per_token_logps: Any = None
    teacher_per_token_logps: Any = None
    advantages: Any = None


DATA = "swift.rl_core.data"
TYPES = [
    *zip(with_real(Sample, DATA, "GRPOSample"), with_real(Batch, DATA, "GRPOBatch"), strict=True)
]
LOGPS = torch.tensor([[-0.1, -0.2, -0.3], [-9.0, -0.4, -0.5]])


class Trainer:
    """What of ms-swift's GRPOTrainer the hook touches: one micro batch of two samples."""

    def __init__(self) -> None:
        self.accelerator = SimpleNamespace(process_index=0, num_processes=1)
        self.state = SimpleNamespace(global_step=0)
        self.args = SimpleNamespace(temperature=0.9)
        self.template = SimpleNamespace(tokenizer=None, sequence_parallel_size=1)
        self.model = SimpleNamespace(training=True)
        self.overlong_filter = False
        self.reward_func_names, self.reward_weights = ["acc", "fmt"], torch.tensor([1.0, 0.5])
        self._rewards_per_func = torch.tensor([[1.0, 1.0], [0.0, float("nan")]])
        self.callbacks: list[Any] = []

    def add_callback(self, callback: Any) -> None:
        self.callbacks.append(callback)

    def split_by_mini_batches(self, samples: Any) -> Any:
        return [samples]

    def _postprocess_batch(self, samples: Any, batches: Any) -> None:
        batches[0]["grpo_batch"].advantages = torch.tensor([[1.0] * 3, [-1.0] * 3])

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        return LOGPS, torch.full((2, 3), 0.5)

    def _compute_loss_and_metrics(self, model: Any, model_inputs: Any, grpo_batch: Any) -> Any:
        self._get_per_token_logps_and_entropies(model, model_inputs, grpo_batch)
        return torch.tensor(0.25), {}


def hooked(*given: Any) -> Any:
    from exporters.hooks.ms_swift import ExportGRPO  # loads TRL, which takes seconds

    return type("ExportTrainer", (ExportGRPO, Trainer), {})(*given)


def samples(made: Any) -> list[Any]:
    """A prompt of 2 and a response of 3 tokens, the middle one a tool's; a prompt of 1, 2 tokens."""
    encoded = [
        {"input_ids": [5, 6, 7, 8, 1], "labels": [-100, -100, 7, -100, 1]},
        {"input_ids": [9, 10, 11], "labels": [-100, 10, 11]},
    ]
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    about = {"messages": messages, "prompt_id": "p"}
    return [
        made(**about, request_id="r0", finish_reason="stop", encoded=encoded[0]),
        made(**about, request_id="r1", finish_reason="length", encoded=encoded[1]),
    ]


@pytest.mark.parametrize(("sample", "batch"), TYPES)
def test_what_the_loss_saw_is_logged_once_a_step(tmp_path, sample, batch):
    trainer = hooked()
    trainer.rollout_dir = str(tmp_path)
    (boundaries,) = trainer.callbacks
    boundaries.on_train_begin(trainer.args, trainer.state, None)
    grpo_batch = batch(
        completion_mask=torch.tensor([[True, False, True], [False, True, True]]),
        truncated_mask=torch.tensor([False, True]),
        seq_lengths=torch.tensor([5, 3]),
        old_per_token_logps=LOGPS - 0.01,
    )
    trainer._postprocess_batch(samples(sample), [{"grpo_batch": grpo_batch}])
    for _ in range(2):  # two updates on the batch
        assert float(trainer._compute_loss_and_metrics(None, {}, grpo_batch)[0]) == 0.25
    trainer.exporter.close()

    both = {"step": 1, "group_id": "p"}
    first = {"prompt_ids": [5, 6], "response_ids": [7, 8, 1], "logprobs": [-0.1, -0.2, -0.3]}
    first |= {"loss_mask": [1, 0, 1], "reward": 1.5, "rewards.acc": 1, "is_truncated": 0}
    second = {"prompt_ids": [9], "response_ids": [10, 11], "logprobs": [-0.4, -0.5]}
    second |= {"old_logprobs": [-0.41, -0.51], "entropy": [0.5, 0.5], "advantages": [-1, -1]}
    second |= {"reward": 0, "rewards.fmt": None, "is_truncated": 1}
    assert_rollouts(tmp_path, both | first, both | second)


def test_with_sequence_parallelism_nothing_is_written(tmp_path):
    trainer = hooked()
    trainer.rollout_dir = str(tmp_path)
    trainer.template.sequence_parallel_size = 2
    assert not trainer.open_rollouts().wants(1)
    assert list(tmp_path.iterdir()) == []


def test_truncated_rollouts_that_overlong_filter_leaves_out_of_the_loss_are_masked(tmp_path):
    trainer = hooked()
    trainer.rollout_dir, trainer.overlong_filter = str(tmp_path), True
    (boundaries,) = trainer.callbacks
    boundaries.on_train_begin(trainer.args, trainer.state, None)
    grpo_batch = Batch(
        completion_mask=torch.tensor([[True, False, True], [False, True, True]]),
        truncated_mask=torch.tensor([False, True]),
        seq_lengths=torch.tensor([5, 3]),
    )
    trainer._postprocess_batch(samples(Sample), [{"grpo_batch": grpo_batch}])
    trainer._compute_loss_and_metrics(None, {}, grpo_batch)
    trainer.exporter.close()
    assert_rollouts(tmp_path, {"loss_mask": [1, 0, 1]}, {"loss_mask": [0, 0]})
