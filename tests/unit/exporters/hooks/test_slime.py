"""`rollout_data` as slime 624b824a builds it (`ray/rollout.py`, `backends/megatron_utils/actor.py`)."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from opened_logs import assert_rollouts

torch = pytest.importorskip("torch")

from exporters.hooks.slime import SlimeExport  # noqa: E402 - not there without torch

ARGS = SimpleNamespace(n_samples_per_prompt=2, rollout_temperature=0.8)


def rollout_data() -> dict[str, Any]:
    """Shard 1 of 2: samples 2 and 3 of 4."""
    return {
        "partition": [2, 3],
        "tokens": [torch.tensor([5, 6, 7, 8]), torch.tensor([9, 10])],
        "response_lengths": [2, 1],
        "total_lengths": [4, 2],
        "rewards": [0.7, -0.7],
        "raw_reward": [0.0, 0.0, 1.0, 0.5],
        "truncated": [0, 1],
        "sample_indices": [2, 3],
        "rollout_ids": [2, 3],
        "loss_masks": [torch.tensor([1, 1]), torch.tensor([0])],
        "rollout_log_probs": [torch.tensor([-0.1, -0.2]), torch.tensor([-0.3])],
        "log_probs": [torch.tensor([-0.15, -0.25]), torch.tensor([-0.35])],
        "advantages": [torch.tensor([1.0, 1.0]), torch.tensor([-1.0])],
        "source_names": ["math", "math"],
    }


def fake_megatron(monkeypatch: pytest.MonkeyPatch, **ranks: int) -> list[bool]:
    """Megatron's groups and slime's gathering; returns which calls kept the restored samples."""
    mpu = SimpleNamespace(
        get_data_parallel_rank=lambda with_context_parallel: ranks.get("data", 1),
        get_data_parallel_world_size=lambda with_context_parallel: 2,
        get_tensor_model_parallel_rank=lambda: ranks.get("tensor", 0),
        get_context_parallel_rank=lambda: ranks.get("context", 0),
        get_pipeline_model_parallel_rank=lambda: ranks.get("pipeline", 1),
        get_pipeline_model_parallel_world_size=lambda: 2,
    )
    sampled_groups: list[bool] = []

    def restore(data: Any, gather: Any, *, keep_restored: bool) -> Any:
        sampled_groups.append(keep_restored)
        return data if keep_restored else None

    contents = {
        "megatron.core": {"mpu": mpu},
        "slime.backends.megatron_utils.cp_utils": {"all_gather_with_cp": None},
        "slime.observability.train_data_utils": {"restore_context_parallel_fields_to_cpu": restore},
    }
    for name, members in contents.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
        for parent in name.split("."):
            sys.modules.setdefault(parent, ModuleType(parent))
    return sampled_groups


def test_a_data_shard_is_logged_by_one_rank(tmp_path, monkeypatch):
    fake_megatron(monkeypatch)
    export = SlimeExport(str(tmp_path), attempt="a", strict=True)
    export(ARGS, 7, rollout_data())
    assert (export.exporter.rank, export.exporter.world_size) == (1, 2)
    export.exporter.close()
    both = {"step": 7, "group_id": "g1", "env": "math"}
    first = {"prompt_ids": [5, 6], "response_ids": [7, 8], "logprobs": [-0.15, -0.25]}
    first |= {"sampling_logprobs": [-0.1, -0.2], "reward": 1, "is_truncated": 0}  # the raw reward
    second = {"prompt_ids": [9], "response_ids": [10], "loss_mask": [0]}
    second |= {"reward": 0.5, "is_truncated": 1}
    assert_rollouts(tmp_path, both | first, both | second)


@pytest.mark.parametrize("other", [{"tensor": 1}, {"context": 1}, {"pipeline": 0}])
def test_ranks_with_the_same_samples_write_nothing_but_come_along_to_the_gathering(
    tmp_path, monkeypatch, other
):
    sampled_groups = fake_megatron(monkeypatch, **other)
    export = SlimeExport(str(tmp_path), attempt="a", strict=True)
    export(ARGS, 7, rollout_data())
    assert sampled_groups == [False]
    assert list(tmp_path.iterdir()) == []


def test_log_probs_that_slime_left_to_its_loss_are_not_recorded(tmp_path, monkeypatch):
    fake_megatron(monkeypatch)
    data = rollout_data()
    del data["log_probs"]
    export = SlimeExport(str(tmp_path), attempt="a", strict=True)
    export(ARGS, 0, data)
    export.exporter.close()
    assert_rollouts(tmp_path, {"logprobs": None}, {"logprobs": None})
