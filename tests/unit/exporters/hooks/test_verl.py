"""Batches as verl 1dda039b builds them: `ppo/v1/trainer_base.py`, `ppo/ray_trainer.py` of its trainer.

DataProto is verl's own and TensorDict tensordict's where they can be imported.
"""

import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from opened_logs import assert_rollouts, with_real

torch = pytest.importorskip("torch")

from exporters.hooks.verl import ExportV1  # noqa: E402 - not there without torch
from exporters.hooks.verl_v0 import ExportV0  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors.*:UserWarning")


class Trainer:
    """What of verl's trainers the hook touches."""

    def __init__(self, last: int = 9) -> None:
        rollout = SimpleNamespace(temperature=0.7, name="vllm")
        self.config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=rollout))
        self.tokenizer, self.global_steps, self.total_training_steps = None, 4, last


class V1(ExportV1, Trainer):
    pass


class V0(ExportV0, Trainer):
    pass


class Texts(list[Any]):
    """As NonTensorStack: a list with tolist()."""

    def tolist(self) -> list[Any]:
        return list(self)


def jagged(*rows: list[Any]) -> Any:
    return torch.nested.nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def tensor_dict(data: dict[str, Any]) -> Any:
    import tensordict

    texts = {k: tensordict.NonTensorStack(*v) for k, v in data.items() if isinstance(v, Texts)}
    return tensordict.TensorDict({**data, **texts}, batch_size=3)


def queue(monkeypatch: pytest.MonkeyPatch, asked: list[str], made: Any = dict) -> Any:
    """Three rows, of which the last only fills the ranks."""
    data = {
        "prompts": jagged([5, 6], [7], [7]),
        "responses": jagged([8, 9, 1], [10], [10]),
        "response_mask": jagged([1, 0, 1], [1], [1]),
        "old_log_probs": jagged([-0.1, -0.2, -0.3], [-0.4], [-0.4]),
        "rollout_log_probs": jagged([-0.11, -0.21, -0.31], [-0.41], [-0.41]),
        "advantages": jagged([1.0, 1.0, 1.0], [-1.0], [-1.0]),
        "rm_scores": jagged([0.0, 0.0, 1.0], [0.5], [0.5]),
        "uid": Texts(["u", "u", "u"]),
        "data_source": Texts(["gsm8k"] * 3),
        "reward_model": Texts([{"ground_truth": "9"}] * 3),
    }

    def kv_batch_get(keys: Any, partition_id: str, select_fields: list[str]) -> Any:
        asked.extend(select_fields)
        return made({name: value for name, value in data.items() if name in select_fields})

    module = ModuleType("transfer_queue")
    vars(module)["kv_batch_get"] = kv_batch_get
    monkeypatch.setitem(sys.modules, "transfer_queue", module)
    tags = [{"min_global_steps": 3}, {"min_global_steps": 4}, {"is_padding": True}]
    return SimpleNamespace(keys=["u_0_0", "u_1_0", "pad"], partition_id="train", tags=tags)


@pytest.mark.parametrize("made", [dict, tensor_dict] if find_spec("tensordict") else [dict])
def test_v1_rollouts_are_logged_without_the_rows_that_fill_the_ranks(tmp_path, monkeypatch, made):
    asked: list[str] = []
    trainer = V1(last=4)
    trainer._log_rollout_data(queue(monkeypatch, asked, made), {}, str(tmp_path))
    assert {"values", "ref_log_prob", "entropy"} <= set(asked)
    long = {"prompt_ids": [5, 6], "response_ids": [8, 9, 1], "logprobs": [-0.1, -0.2, -0.3]}
    long |= {"loss_mask": [1, 0, 1], "token_rewards": [0, 0, 1], "reward": 1, "policy_version": 3}
    long |= {"step": 4, "group_id": "u", "env": "gsm8k", "ground_truth": "9"}
    short = {"prompt_ids": [7], "response_ids": [10], "sampling_logprobs": [-0.41]}
    short |= {"step": 4, "reward": 0.5, "policy_version": 4}
    assert_rollouts(tmp_path, long, short)
    (file,) = tmp_path.glob("*.jsonl")
    assert '"type":"close"' in file.read_text(), "the last step closes the file"


class Proto:
    """What of a DataProto the hook reads."""

    @staticmethod
    def from_dict(tensors: Any, non_tensors: Any) -> Any:
        return SimpleNamespace(batch=tensors, non_tensor_batch=non_tensors)


@pytest.mark.parametrize("made", with_real(Proto, "verl.protocol", "DataProto"))
def test_v0_rollouts_are_cut_by_their_masks(tmp_path, made):
    tensors = {
        "prompts": torch.tensor([[5, 6], [0, 7]]),
        "responses": torch.tensor([[8, 9, 1], [10, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 0]]),
        "response_mask": torch.tensor([[1, 0, 1], [1, 0, 0]]),
        "old_log_probs": torch.tensor([[-0.1, -0.2, -0.3], [-0.4, 0, 0]]),
        "values": torch.tensor([[0.1, 0.2, 0.3], [0.4, 0, 0]]),
        "token_level_scores": torch.tensor([[0.0, 0, 1], [0.5, 0, 0]]),
        "token_level_rewards": torch.tensor([[-0.01, 0, 1], [0.5, 0, 0]]),
    }
    truth = np.array([{"ground_truth": "9"}, {"ground_truth": "3"}], dtype=object)
    non_tensors = {"uid": np.array(["u", "v"], dtype=object), "reward_model": truth}
    trainer = V0(last=4)
    batch = made.from_dict(tensors, non_tensors)
    trainer._log_rollout_data(batch, {"acc": [1.0, 0.0]}, {}, str(tmp_path))
    long = {"prompt_ids": [5, 6], "response_ids": [8, 9, 1], "logprobs": [-0.1, -0.2, -0.3]}
    long |= {"token_rewards": [-0.01, 0, 1], "reward": 1, "group_id": "u", "acc": 1}
    short = {"prompt_ids": [7], "response_ids": [10], "values": [0.4]}
    short |= {"reward": 0.5, "group_id": "v", "acc": 0, "ground_truth": "3"}
    assert_rollouts(tmp_path, long, short)


def test_a_queue_without_the_batch_is_counted_and_does_not_raise(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transfer_queue", None)
    trainer = V1()
    batch = SimpleNamespace(keys=[], partition_id="train", tags=[])
    trainer._log_rollout_data(batch, {}, str(tmp_path))
    assert trainer.rollout_exporter.counts["errors:verl"] == 1
    trainer.rollout_exporter.close()
