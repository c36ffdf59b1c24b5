"""NeMo-RL: its logger, wrapped, so that the per-step dump of the training data is ours.

    logger = ExportLogger(logger, "runs/mine", group_size=config.grpo.num_generations_per_prompt)

right behind `setup(...)` in `run_grpo.py`. Everything else goes on to NeMo-RL's logger.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from exporters.frameworks.guard import guarded, open_guarded
from exporters.writer import RolloutExporter

# NeMo-RL's name of a [B, T] array -> the record's.
_TOKENS = {
    "prev_logprobs": "logprobs",
    "generation_logprobs": "sampling_logprobs",
    "advantages": "advantages",
}
_TRAINING_DATA = re.compile(r"train_data_step(\d+)\.jsonl")


class ExportLogger:
    """NeMo-RL's Logger, whose `log_batched_dict_as_jsonl` of training data goes to a RolloutExporter.

    Args:
        logger: NeMo-RL's.
        out_dir: the run's folder.
        group_size: rollouts of one prompt, which follow each other; None: no groups are logged.
        keep_dump: True also writes NeMo-RL's own file, which takes much longer.
        settings: RolloutExporter's; `start_step` where the run is resumed.
    """

    def __init__(
        self,
        logger: Any,
        out_dir: str,
        *,
        group_size: int | None = None,
        keep_dump: bool = False,
        **settings: Any,
    ) -> None:
        self._logger, self._group_size, self._keep_dump = logger, group_size, keep_dump
        # The driver has all rollouts of a step.
        self.exporter = open_guarded(
            lambda: RolloutExporter(out_dir, rank=0, world_size=1, **settings),
            settings.get("strict"),
        )

    def __getattr__(self, name: str) -> Any:
        """Everything else is the logger's."""
        return getattr(self._logger, name)

    def log_batched_dict_as_jsonl(self, to_log: Mapping[str, Any], filename: str) -> None:
        """Logs `train_data_step{N}.jsonl` as step N; any other file is the logger's."""
        step = _TRAINING_DATA.fullmatch(filename)
        if step is None or self._keep_dump:
            self._logger.log_batched_dict_as_jsonl(to_log, filename)
        if step is not None:
            with guarded(self.exporter, "nemo_rl", int(step[1]), lambda: to_log["token_ids"]):
                log_training_data(self.exporter, int(step[1]), to_log, self._group_size)
            self.exporter.end_step(int(step[1]))


def log_training_data(
    exporter: RolloutExporter, step: int, to_log: Mapping[str, Any], group_size: int | None
) -> None:
    """Logs NeMo-RL's training data: lists [B, T] of whole sequences, right padded.

    Column t is of token t (the first has logprob 0 by NeMo-RL's convention and is in the prompt). A
    response begins with the first trained token. `prev_logprobs` are the policy's before the step's
    updates; where NeMo-RL did not compute any, all are 0, and they are not logged. Where a sample is left
    out of the loss, so are its tokens.
    """
    if not exporter.wants(step):
        return
    ids = np.asarray(to_log["token_ids"])
    trained = np.asarray(to_log["token_loss_mask"]) != 0
    known = np.arange(ids.shape[1]) < np.asarray(to_log["input_lengths"])[:, None]
    begun = np.cumsum(trained, axis=1) > 0
    arrays: dict[str, Any] = {
        ours: np.asarray(to_log[name]) for name, ours in _TOKENS.items() if name in to_log
    }
    if not np.any(arrays.get("logprobs")):  # with force_on_policy_ratio NeMo-RL fills in zeros
        arrays.pop("logprobs", None)
    loss = trained & (np.asarray(to_log["sample_loss_mask"])[:, None] != 0)
    exporter.log(
        step,
        prompt_ids=ids,
        prompt_mask=known & ~begun,
        response_ids=ids,
        response_mask=known & begun,
        loss_mask=loss,
        rewards=to_log.get("filtered_rewards", to_log["rewards"]),
        meta=_columns(to_log, step, len(ids), group_size),
        **arrays,
    )


def _columns(
    to_log: Mapping[str, Any], step: int, size: int, group_size: int | None
) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if group_size:
        columns["group_id"] = [f"s{step}g{i // group_size}" for i in range(size)]
    for name in ("content", "agent_ref"):
        if name in to_log and len(to_log[name]) == size:
            columns[name] = to_log[name]
    return columns
