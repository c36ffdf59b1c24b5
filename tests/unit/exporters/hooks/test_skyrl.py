"""The batch is laid out as by SkyRL a9564572 (`train/dataset/preprocess.py`, `train/trainer.py`): by its
own function where it can be imported, else by one that does the same.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from opened_logs import assert_rollouts, with_real

torch = pytest.importorskip("torch")

from exporters.hooks.skyrl import ExportCallback, ExportRewards  # noqa: E402 - needs torch

PROMPTS, RESPONSES = [[5, 6], [7]], [[8, 9, 1], [10]]
REWARDS = [[0.0, 0.0, 1.0], [0.25]]
LOGPROBS = [[-0.1, -0.2, -0.3], [-0.4]]
MASKS = [[1, 0, 1], [1]]


def right_aligned(rows: list[list[Any]], width: int) -> Any:
    return torch.tensor([[0] * (width - len(row)) + row for row in rows])


def laid_out(
    pad: Padding, prompts: Any, responses: Any, rewards: Any, masks: Any, logprobs: Any
) -> tuple[Any, ...]:
    whole = [p + r for p, r in zip(prompts, responses, strict=True)]
    total, width = max(map(len, whole)), max(map(len, responses))
    ones = [[1] * len(row) for row in responses]
    return (
        right_aligned(whole, total),
        right_aligned([[1] * len(row) for row in whole], total),
        *(right_aligned(rows, width) for rows in (ones, rewards, masks, logprobs)),
    )


PREPROCESS = "skyrl.train.dataset.preprocess", "convert_prompts_responses_to_batch_tensors"


class Padding(int):
    """Id 0, and a tokenizer of that padding, which SkyRL 0.3.0 takes in its place."""

    pad_token_id = 0


class Batch(dict[str, Any]):
    metadata: dict[str, Any]


class Trainer:
    """What of RayPPOTrainer the hook touches."""

    tokenizer = None
    cfg = SimpleNamespace(
        trainer=SimpleNamespace(algorithm=SimpleNamespace(temperature=0.9))
    )  # train/config/config.py:1189 of 0.3.0

    def __init__(self, layout: Any) -> None:
        self.layout = layout

    def convert_to_training_input(self, generator_output: Any, uids: Any) -> Batch:
        parts = self.layout(
            Padding(), PROMPTS, RESPONSES, generator_output["rewards"], MASKS, LOGPROBS
        )
        names = (
            *("sequences", "attention_mask", "response_mask"),
            *("rewards", "loss_mask", "rollout_logprobs"),
        )
        rows = {name: torch.cat([part, part[:1]]) for name, part in zip(names, parts, strict=False)}
        batch = Batch(rows)  # a third row, that only fills the ranks
        batch.metadata = {"uids": uids, "pad_size": 1}
        return batch

    def compute_advantages_and_returns(self, data: Batch) -> Batch:
        data["advantages"] = data["rewards"] * 2
        return data


class ExportTrainer(ExportRewards, Trainer):
    pass


@pytest.mark.parametrize("layout", with_real(laid_out, *PREPROCESS))
def test_a_step_is_logged_with_what_skyrl_drops_before_its_end(tmp_path, layout):
    trainer = ExportTrainer(layout)
    callback = ExportCallback(str(tmp_path), strict=True)
    state = SimpleNamespace(global_step=3, batch=None, metrics=None)
    callback.on_train_start(trainer, state, None)
    output = {"rewards": REWARDS, "stop_reasons": ["stop", "length"]}
    batch = trainer.convert_to_training_input(output, ["u", "u"])
    batch["action_log_probs"] = batch["rollout_logprobs"] - 0.01
    batch["values"] = None
    batch = trainer.compute_advantages_and_returns(batch)
    del batch["rewards"], batch.metadata["uids"]
    state = SimpleNamespace(global_step=4, batch=batch, metrics={"loss": 0.5})
    callback.on_step_end(trainer, state, None)
    callback.on_train_end(trainer, state, None)

    long = {"step": 4, "prompt_ids": [5, 6], "response_ids": [8, 9, 1], "loss_mask": [1, 0, 1]}
    long |= {"sampling_logprobs": [-0.1, -0.2, -0.3], "token_rewards": [0, 0, 1], "values": None}
    long |= {"reward": 1, "is_truncated": 0, "group_id": "u"}
    short = {"step": 4, "prompt_ids": [7], "response_ids": [10], "logprobs": [-0.41]}
    short |= {"advantages": [0.5], "reward": 0.25, "is_truncated": 1}
    assert_rollouts(tmp_path, long, short)


def test_an_error_in_the_hook_is_counted_and_the_step_goes_on(tmp_path):
    callback = ExportCallback(str(tmp_path), strict=False)
    state = SimpleNamespace(global_step=0, batch=None, metrics=None)
    trainer = ExportTrainer(laid_out)
    callback.on_train_start(trainer, state, None)
    callback.on_step_end(trainer, state, None)
    callback.on_train_end(trainer, state, None)
    assert callback.exporter.counts["errors:skyrl"] == 1
