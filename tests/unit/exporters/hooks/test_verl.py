"""Batches as verl 0.9.1 builds them: fields and tags as `ppo/v1/agent_loop_tq.py:184-219` of its trainer
puts them, read as at `ppo/v1/trainer_base.py:1297` and `ppo/ray_trainer.py:514`.

DataProto is verl's own and TensorDict tensordict's where they can be imported.
"""

import json
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
        rollout = SimpleNamespace(temperature=0.7, name="vllm", n=2)
        correction = SimpleNamespace(bypass_mode=False)
        self.config = SimpleNamespace(
            actor_rollout_ref=SimpleNamespace(rollout=rollout),
            algorithm=SimpleNamespace(adv_estimator="grpo", rollout_correction=correction),
        )
        self.tokenizer, self.global_steps, self.total_training_steps = None, 4, last

    def _compute_metrics(self, batch: Any, metrics: Any, timing: Any, **kwargs: Any) -> None:
        metrics["actor/pg_loss"] = 0.25


class V1(ExportV1, Trainer):
    pass


class V0(ExportV0, Trainer):
    pass


class Texts(list[Any]):
    """As NonTensorStack: a list with tolist()."""

    def tolist(self) -> list[Any]:
        return list(self)


class Queued(dict[str, Any]):
    """As tensordict 0.10.0: by `[]` a stack of texts is a plain list, by `get` itself."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return list(value) if isinstance(value, Texts) else value


def jagged(*rows: list[Any]) -> Any:
    return torch.nested.nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def tensor_dict(data: dict[str, Any]) -> Any:
    import tensordict

    texts = {k: tensordict.NonTensorStack(*v) for k, v in data.items() if isinstance(v, Texts)}
    return tensordict.TensorDict({**data, **texts}, batch_size=3)


def queue(monkeypatch: pytest.MonkeyPatch, asked: list[str], made: Any = Queued) -> Any:
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
        "num_turns": Texts([2, 4, 4]),
        "extra_fields": Texts([{"reward_extra_info": {"acc": 1.0}}, {}, {}]),
    }

    def kv_batch_get(keys: Any, partition_id: str, select_fields: list[str]) -> Any:
        asked.extend(select_fields)
        return made({name: value for name, value in data.items() if name in select_fields})

    module = ModuleType("transfer_queue")
    vars(module)["kv_batch_get"] = kv_batch_get
    monkeypatch.setitem(sys.modules, "transfer_queue", module)
    tags = [{"min_global_steps": 3, "max_global_steps": 4}, {"min_global_steps": 4}]
    tags = [*tags, {"is_padding": True}]
    return SimpleNamespace(keys=["u_0_0", "u_1_0", "pad"], partition_id="train", tags=tags)


@pytest.mark.parametrize(
    "made", [dict, Queued, tensor_dict] if find_spec("tensordict") else [dict, Queued]
)
def test_v1_rollouts_are_logged_without_the_rows_that_fill_the_ranks(tmp_path, monkeypatch, made):
    asked: list[str] = []
    trainer = V1(last=4)
    batch = queue(monkeypatch, asked, made)
    trainer._compute_metrics(batch, {}, {}, global_steps=4, epoch=0)
    trainer._log_rollout_data(batch, {}, str(tmp_path))
    assert {"values", "ref_log_prob", "entropy"} <= set(asked)
    long = {"prompt_ids": [5, 6], "response_ids": [8, 9, 1], "logprobs": [-0.1, -0.2, -0.3]}
    long |= {"loss_mask": [1, 0, 1], "token_rewards": [0, 0, 1], "reward": 1, "policy_version": 3}
    long |= {"step": 4, "group_id": "u", "env": "gsm8k", "ground_truth": "9", "acc": 1}
    long |= {"rollout_id": "u_0_0", "num_turns": 2, "last_policy_version": 4}
    short = {"prompt_ids": [7], "response_ids": [10], "sampling_logprobs": [-0.41]}
    short |= {"step": 4, "reward": 0.5, "policy_version": 4}
    assert_rollouts(tmp_path, long, short)
    (file,) = tmp_path.glob("*.jsonl")
    assert '"type":"close"' in file.read_text(), "the last step closes the file"
    assert '"metrics":{"actor/pg_loss":0.25}' in file.read_text()
    (described,) = tmp_path.glob("run-*.json")
    config = json.loads(described.read_text())["config"]
    assert config["algorithm.adv_estimator"] == "grpo"
    assert config["actor_rollout_ref.rollout.n"] == 2


def test_in_bypass_mode_the_samplers_logprobs_are_not_logged_as_the_trainers(tmp_path, monkeypatch):
    """As `ppo/v1/trainer_base.py:1641` copies them."""
    trainer = V1(last=4)
    trainer.config.algorithm.rollout_correction.bypass_mode = True
    trainer._log_rollout_data(queue(monkeypatch, []), {}, str(tmp_path))
    only = {"logprobs": None}
    assert_rollouts(tmp_path, only | {"sampling_logprobs": [-0.11, -0.21, -0.31]}, only)


@pytest.mark.parametrize("temperature", [0.0, -1.0, "warm"])
def test_what_cannot_be_opened_is_told_once_and_training_goes_on(
    tmp_path, monkeypatch, caplog, temperature
):
    trainer = V1(last=4)
    folder = tmp_path / "a file"
    folder.touch()
    trainer.config.actor_rollout_ref.rollout.temperature = temperature
    for _ in range(2):
        trainer._log_rollout_data(queue(monkeypatch, []), {}, str(folder))
    assert caplog.text.count("rollouts are not exported") == 1
    assert folder.read_text() == ""


class Proto:
    """What of a DataProto the hook reads."""

    @staticmethod
    def from_dict(tensors: Any, non_tensors: Any) -> Any:
        return SimpleNamespace(batch=tensors, non_tensor_batch=non_tensors)


def padded(made: Any) -> Any:
    """Two rollouts of a step."""
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
    return made.from_dict(tensors, non_tensors)


@pytest.mark.parametrize("made", with_real(Proto, "verl.protocol", "DataProto"))
def test_v0_rollouts_are_cut_by_their_masks(tmp_path, made):
    trainer = V0(last=4)
    trainer._log_rollout_data(padded(made), {"acc": [1.0, 0.0]}, {}, str(tmp_path))
    long = {"prompt_ids": [5, 6], "response_ids": [8, 9, 1], "logprobs": [-0.1, -0.2, -0.3]}
    long |= {"token_rewards": [-0.01, 0, 1], "reward": 1, "group_id": "u", "acc": 1}
    short = {"prompt_ids": [7], "response_ids": [10], "values": [0.4]}
    short |= {"reward": 0.5, "group_id": "v", "acc": 0, "ground_truth": "3"}
    assert_rollouts(tmp_path, long, short)


class Tracking:
    """As `utils/tracking.py:191` of verl: the signature of its log."""

    def log(self, data: Any, step: Any, backend: Any = None) -> None:
        self.seen = [*getattr(self, "seen", ()), (step, dict(data))]


class Fitting(Trainer):
    """Logs as `ppo/ray_trainer.py:1442, 1724, 1802` does, in three steps."""

    def fit(self, folder: str) -> Any:
        tracker = object.__new__(sys.modules["verl.utils.tracking"].Tracking)
        tracker.logger = {}
        tracker.log(data={"val/score": 0.5}, step=0)
        for self.global_steps in (1, 2, 3):
            self._log_rollout_data(padded(Proto), {}, {}, folder)
            tracker.log(
                data={"actor/pg_loss": self.global_steps / 4, "text": "no"}, step=self.global_steps
            )
        return tracker


class FittingV0(ExportV0, Fitting):
    pass


@pytest.mark.parametrize("tracking", with_real(Tracking, "verl.utils.tracking", "Tracking"))
def test_v0_metrics_of_a_step_are_those_that_verl_tracks(tmp_path, monkeypatch, tracking):
    module = ModuleType("verl.utils.tracking")
    vars(module)["Tracking"] = tracking
    monkeypatch.setitem(sys.modules, "verl.utils.tracking", module)
    log = tracking.log
    tracker = FittingV0(last=3).fit(str(tmp_path))
    (file,) = tmp_path.glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    ends = [(line["step"], line["metrics"]) for line in lines if line["type"] == "step_end"]
    assert ends == [(step, {"actor/pg_loss": step / 4}) for step in (1, 2, 3)]
    assert lines[-1]["type"] == "close"
    assert tracking.log is log, "verl is left as it was"
    if tracking is Tracking:
        assert [step for step, _ in tracker.seen] == [0, 1, 2, 3], "and tracked all that it does"


def test_a_queue_without_the_batch_is_counted_and_does_not_raise(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transfer_queue", None)
    trainer = V1()
    batch = SimpleNamespace(keys=[], partition_id="train", tags=[])
    trainer._log_rollout_data(batch, {}, str(tmp_path))
    assert trainer.rollout_exporter.counts["errors:verl"] == 1
    trainer.rollout_exporter.close()
