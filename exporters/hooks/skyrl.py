"""SkyRL: a callback for the steps, and a few lines on the trainer for what it drops before them.

    class Trainer(ExportRewards, RayPPOTrainer): ...
    class Callback(ExportCallback, TrainingCallback): ...

SkyRL removes rewards and prompt ids from the batch before `on_step_end`; ExportRewards keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporters.frameworks.guard import guarded, open_guarded
from exporters.writer import RolloutExporter

# SkyRL's name of a [B, R] tensor -> the record's.
_TOKENS = {
    "action_log_probs": "logprobs",
    "base_action_log_probs": "ref_logprobs",
    "rollout_logprobs": "sampling_logprobs",
    "values": "values",
    "returns": "returns",
    "advantages": "advantages",
}
_Base: Any = object


class ExportRewards(_Base):
    """For RayPPOTrainer: keeps, until the step ends, what it drops from the batch."""

    def convert_to_training_input(self, generator_output: Any, uids: Any) -> Any:
        """SkyRL's; keeps uids, total rewards and stop reasons, one a sequence."""
        try:
            self.rollout_columns = columns_of(generator_output, uids)
        except Exception as error:  # counted where the step is logged
            self.rollout_columns = error
        return super().convert_to_training_input(generator_output, uids)

    def compute_advantages_and_returns(self, data: Any) -> Any:
        """SkyRL's; keeps the token rewards as the advantages saw them, [B, R]."""
        self.rollout_token_rewards = data.get("rewards")
        return super().compute_advantages_and_returns(data)


class ExportCallback(_Base):
    """For SkyRL's TrainingCallback: opens the file, logs every step, closes.

    `action_log_probs` are the policy's before the step's updates. `settings` are RolloutExporter's.
    """

    def __init__(self, out_dir: str, **settings: Any) -> None:
        super().__init__()
        self.out_dir, self.settings = out_dir, settings

    def on_train_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Opens the run; `global_step` is the last one done."""
        self.exporter = open_guarded(
            lambda: self._new_exporter(trainer, callback_input), self.settings.get("strict")
        )

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Logs the step's batch; its metrics go along."""
        step, batch = callback_input.global_step, callback_input.batch
        with guarded(self.exporter, "skyrl", step, lambda: batch["sequences"]):
            log_batch(self.exporter, step, trainer, batch)
        with guarded(self.exporter, "skyrl", step):
            self.exporter.end_step(step, **(callback_input.metrics or {}))

    def on_train_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Closes the run."""
        self.exporter.close()

    def _new_exporter(self, trainer: Any, callback_input: Any) -> RolloutExporter:
        algorithm = getattr(getattr(trainer.cfg, "trainer", None), "algorithm", None)
        settings = {
            "start_step": callback_input.global_step + 1,
            "tokenizer": trainer.tokenizer,
            "temperature": getattr(algorithm, "temperature", None) or None,
            **self.settings,
        }
        return RolloutExporter(self.out_dir, rank=0, world_size=1, **settings)


def columns_of(generator_output: Any, uids: Any) -> dict[str, list[Any]]:
    """The record's columns of what SkyRL generated; a reward is a number, or one a token."""
    rewards = generator_output["rewards"]
    reasons = generator_output.get("stop_reasons")
    return {
        "group_id": [str(uid) for uid in uids],
        "reward": [float(sum(r) if isinstance(r, Sequence) else r) for r in rewards],
        "finish_reason": [None] * len(uids) if reasons is None else list(reasons),
    }


def log_batch(exporter: RolloutExporter, step: int, trainer: Any, batch: Any) -> None:
    """Logs a TrainingInputBatch: `sequences` [B, T] left padded, the rest the last R columns of it.

    In those a prompt's end may come before a short response: the masks say so. Rows that SkyRL added to
    fill the ranks, at the end, are left out.
    """
    if isinstance(trainer.rollout_columns, Exception):
        raise trainer.rollout_columns
    size = len(batch["sequences"]) - batch.metadata.get("pad_size", 0)
    sequences, known = batch["sequences"][:size], batch["attention_mask"][:size].bool()
    response = batch["response_mask"][:size].bool()
    width = response.shape[1]
    prompt = known.clone()
    prompt[:, -width:] &= ~response
    named = {_TOKENS[name]: batch.get(name) for name in _TOKENS}
    named["token_rewards"] = trainer.rollout_token_rewards
    exporter.log(
        step,
        prompt_ids=sequences,
        prompt_mask=prompt,
        response_ids=sequences[:, -width:],
        response_mask=response,
        loss_mask=batch["loss_mask"][:size],
        meta=trainer.rollout_columns,
        **{name: value[:size] for name, value in named.items() if value is not None},
    )
