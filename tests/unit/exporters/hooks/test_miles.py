"""Samples of miles 31f1ca961 (`miles/utils/types.py:23`), handed over as at
`miles/ray/rollout/metrics.py:75`: its own Sample where it can be imported.
"""

from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest
from opened_logs import assert_rollouts, with_real

from exporters.hooks.miles import MilesExport

ARGS = SimpleNamespace(reward_key=None, rollout_temperature=0.8, num_rollout=8)


@dataclass
class StandIn:
    class Status(Enum):
        COMPLETED = "completed"
        TRUNCATED = "truncated"

    group_index: int | None = None
    index: int | None = None
    prompt: Any = ""
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    label: str | None = None
    reward: Any = None
    loss_mask: list[int] | None = None
    weight_versions: list[str] = field(default_factory=list)
    rollout_log_probs: list[float] | None = None
    teacher_log_probs: list[float] | None = None
    remove_sample: bool = False
    status: Any = Status.COMPLETED


SAMPLES = with_real(StandIn, "miles.utils.types", "Sample")


def samples(made: Any) -> list[Any]:
    about = {"group_index": 3, "label": "9", "prompt": "q"}
    return [
        made(
            **about,
            index=6,
            tokens=[5, 6, 7, 8],
            response_length=2,
            loss_mask=[1, 0],
            reward=1.0,
            rollout_log_probs=[-0.1, -0.2],
            weight_versions=["11", "10"],
            status=made.Status.COMPLETED,
        ),
        made(
            **about,
            index=7,
            tokens=[9, 10],
            response_length=1,
            reward=0.0,
            remove_sample=True,
            status=made.Status.TRUNCATED,
        ),
    ]


@pytest.mark.parametrize("made", SAMPLES)
def test_the_samples_of_a_step_are_logged_and_miles_goes_on_to_log_its_own_numbers(tmp_path, made):
    export = MilesExport(str(tmp_path), strict=True)
    first, second = samples(made)
    assert export(7, ARGS, [first, [second]], {"rollout/extra": 0.5}, 1.0) is False
    assert not export.exporter.wants(8), "the last rollout closes the file"
    both = {"step": 7, "group_id": "g3", "ground_truth": "9"}
    whole = {"prompt_ids": [5, 6], "response_ids": [7, 8], "loss_mask": [1, 0], "reward": 1}
    whole |= {"sampling_logprobs": [-0.1, -0.2], "policy_version": 10, "logprobs": None}
    removed = {"response_ids": [10], "loss_mask": [0], "reward": 0, "is_truncated": 1}
    assert_rollouts(tmp_path, both | whole, both | removed)
    assert '"rollout/extra":0.5' in export.exporter.path.read_text()


@pytest.mark.parametrize("made", SAMPLES)
def test_a_reward_of_parts_is_logged_with_the_part_that_is_the_total(tmp_path, made):
    export = MilesExport(str(tmp_path), strict=True)
    first, _ = samples(made)
    first.reward = {"score": 0.5, "format": 1.0}
    export(7, SimpleNamespace(reward_key="score", num_rollout=8), [first], None, 1.0)
    assert_rollouts(tmp_path, {"reward": 0.5, "rewards.score": 0.5, "rewards.format": 1})


def test_samples_that_are_not_understood_are_counted_and_do_not_raise(tmp_path):
    export = MilesExport(str(tmp_path), strict=False)
    assert export(1, ARGS, [object(), object()], None, 1.0) is False
    assert export.exporter.counts["lost"] == 2
    export.exporter.close()
