"""The dump is that of NeMo-RL 7ea279ab (`algorithms/grpo.py`): lists of whole sequences, right padded."""

from typing import Any

from opened_logs import assert_rollouts

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


def test_training_data_goes_to_the_exporter_instead_of_the_dump(tmp_path):
    theirs = Logger()
    logger = ExportLogger(theirs, str(tmp_path), group_size=2, strict=True)
    logger.log_batched_dict_as_jsonl(training_data(), "train_data_step3.jsonl")
    logger.log_metrics({"loss": 1.0}, 3)
    logger.exporter.close()
    assert (theirs.dumped, theirs.metrics) == ([], [3])

    both = {"step": 3, "group_id": "s3g0"}
    whole = {"prompt_ids": [5, 6], "response_ids": [7, 8, 1], "logprobs": [-0.15, -0.25, -0.35]}
    whole |= {"sampling_logprobs": [-0.1, -0.2, -0.3], "advantages": [0.5] * 3, "reward": 1}
    with_tool = {"prompt_ids": [9], "response_ids": [10, 11, 12], "loss_mask": [0] * 3, "reward": 0}
    assert_rollouts(tmp_path, both | whole | {"loss_mask": None}, both | with_tool)


def test_zeros_in_the_place_of_logprobs_that_were_not_computed_are_not_logged(tmp_path):
    """As with `force_on_policy_ratio: true`: 7ea279ab, `algorithms/grpo.py:3247`."""
    logger = ExportLogger(Logger(), str(tmp_path), strict=True)
    data = training_data() | {"prev_logprobs": [[0.0] * 5] * 2}
    logger.log_batched_dict_as_jsonl(data, "train_data_step3.jsonl")
    logger.exporter.close()
    nothing = {"logprobs": None}
    assert_rollouts(tmp_path, nothing | {"sampling_logprobs": [-0.1, -0.2, -0.3]}, nothing)


def test_other_files_and_a_dump_that_is_kept_are_the_loggers(tmp_path):
    theirs = Logger()
    logger = ExportLogger(theirs, str(tmp_path), keep_dump=True, strict=True)
    for name in ("val_data_step3.jsonl", "train_data_step3.jsonl"):
        logger.log_batched_dict_as_jsonl(training_data(), name)
    logger.exporter.close()
    assert theirs.dumped == ["val_data_step3.jsonl", "train_data_step3.jsonl"]
    assert_rollouts(tmp_path, {}, {})


def test_with_dynamic_sampling_the_rewards_are_those_of_the_samples_kept(tmp_path):
    logger = ExportLogger(Logger(), str(tmp_path), strict=True)
    data = training_data() | {"rewards": [1.0, 0.0, 0.0, 0.0], "filtered_rewards": [1.0, 0.25]}
    logger.log_batched_dict_as_jsonl(data, "train_data_step1.jsonl")
    logger.exporter.close()
    assert_rollouts(tmp_path, {"reward": 1}, {"reward": 0.25})


def test_a_dump_that_is_not_understood_is_counted_and_does_not_raise(tmp_path):
    logger = ExportLogger(Logger(), str(tmp_path), strict=False)
    logger.log_batched_dict_as_jsonl({"content": []}, "train_data_step1.jsonl")
    assert logger.exporter.counts["errors:nemo_rl"] == 1
    logger.exporter.close()
