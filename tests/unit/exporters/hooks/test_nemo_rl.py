"""The dump is that of NeMo-RL 7ea279ab (`algorithms/grpo.py`): lists of whole sequences, right padded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opened_logs import opened

from exporters.hooks.nemo_rl import ExportLogger


class Logger:
    def __init__(self) -> None:
        self.dumped: list[str] = []
        self.metrics: list[int] = []

    def log_batched_dict_as_jsonl(self, to_log: Any, filename: str) -> None:
        self.dumped.append(filename)

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.metrics.append(step)


def training_data() -> dict[str, Any]:
    """Prompt 2 and response 3 tokens; prompt 1, response, tool, response; the second left out."""
    return {
        "content": [["a", "b"], ["c", "d"]],
        "rewards": [1.0, 0.0],
        "input_lengths": [5, 4],
        "token_ids": [[5, 6, 7, 8, 1], [9, 10, 11, 12, 0]],
        "token_loss_mask": [[0, 0, 1, 1, 1], [0, 1, 0, 1, 0]],
        "sample_loss_mask": [1.0, 0.0],
        "advantages": [[0.5] * 5, [-0.5] * 5],
        "generation_logprobs": [[0.0, 0.0, -0.1, -0.2, -0.3], [0.0, -0.4, 0.0, -0.5, 0.0]],
        "prev_logprobs": [[0.0, -9.0, -0.15, -0.25, -0.35], [0.0, -0.45, -9.0, -0.55, 0.0]],
    }


def test_training_data_goes_to_the_exporter_instead_of_the_dump(tmp_path: Path) -> None:
    theirs = Logger()
    logger = ExportLogger(theirs, str(tmp_path), group_size=2, strict=True)
    logger.log_batched_dict_as_jsonl(training_data(), "train_data_step3.jsonl")
    logger.log_metrics({"loss": 1.0}, 3)
    logger.exporter.close()
    assert (theirs.dumped, theirs.metrics) == ([], [3])

    whole, with_tool = opened(tmp_path)
    assert (whole.step, with_tool.step) == (3, 3)
    assert (whole.prompt_ids, whole.response_ids) == ([5, 6], [7, 8, 1])
    assert (with_tool.prompt_ids, with_tool.response_ids) == ([9], [10, 11, 12])
    assert whole.tokens["logprobs"] == pytest.approx([-0.15, -0.25, -0.35])
    assert whole.tokens["sampling_logprobs"] == pytest.approx([-0.1, -0.2, -0.3])
    assert "loss_mask" not in whole.tokens or whole.tokens["loss_mask"] == [1, 1, 1]
    assert with_tool.tokens["loss_mask"] == [0, 0, 0]
    assert whole.tokens["advantages"] == [0.5] * 3
    assert [r.fields["reward"] for r in (whole, with_tool)] == [1, 0]
    assert whole.fields["group_id"] == with_tool.fields["group_id"]


def test_other_files_and_a_dump_that_is_kept_are_the_loggers(tmp_path: Path) -> None:
    theirs = Logger()
    logger = ExportLogger(theirs, str(tmp_path), keep_dump=True, strict=True)
    for name in ("val_data_step3.jsonl", "train_data_step3.jsonl"):
        logger.log_batched_dict_as_jsonl(training_data(), name)
    logger.exporter.close()
    assert theirs.dumped == ["val_data_step3.jsonl", "train_data_step3.jsonl"]
    assert len(opened(tmp_path)) == 2


def test_with_dynamic_sampling_the_rewards_are_those_of_the_samples_kept(tmp_path: Path) -> None:
    logger = ExportLogger(Logger(), str(tmp_path), strict=True)
    data = training_data() | {"rewards": [1.0, 0.0, 0.0, 0.0], "filtered_rewards": [1.0, 0.25]}
    logger.log_batched_dict_as_jsonl(data, "train_data_step1.jsonl")
    logger.exporter.close()
    assert [rollout.fields["reward"] for rollout in opened(tmp_path)] == [1, 0.25]


def test_a_dump_that_is_not_understood_is_counted_and_does_not_raise(tmp_path: Path) -> None:
    logger = ExportLogger(Logger(), str(tmp_path), strict=False)
    logger.log_batched_dict_as_jsonl({"content": []}, "train_data_step1.jsonl")
    assert logger.exporter.counts["errors:nemo_rl"] == 1
    logger.exporter.close()
