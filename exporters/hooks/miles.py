"""miles: `--custom-rollout-log-function-path my_hook.export`.

    # my_hook.py
    from exporters.hooks.miles import MilesExport
    export = MilesExport("runs/mine")

Called in the rollout manager with what was sampled. miles hands the training ranks' data to no function
(its `--rollout-data-postprocess-path` gets the arguments only), so that the log holds the sampler's
log-probabilities and rewards, but no trainer's log-probabilities and no advantages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exporters.frameworks.guard import guarded, open_guarded
from exporters.writer import RolloutExporter


class MilesExport:
    """The function that miles calls. `settings` are RolloutExporter's; the first call opens the file."""

    def __init__(self, out_dir: str, **settings: Any) -> None:
        self.out_dir, self.settings = out_dir, settings
        self.exporter: RolloutExporter | None = None

    def __call__(
        self, rollout_id: int, args: Any, samples: Any, extra_metrics: Any, seconds: Any
    ) -> bool:
        """Logs the samples of one rollout step. False: miles logs its own numbers as well."""
        if self.exporter is None:
            self.exporter = open_guarded(
                lambda: self._open(args, rollout_id), self.settings.get("strict")
            )
        exporter = self.exporter
        with guarded(exporter, "miles", rollout_id, lambda: list(_flat(samples))):
            log_samples(
                exporter, rollout_id, list(_flat(samples)), getattr(args, "reward_key", None)
            )
        with guarded(exporter, "miles", rollout_id):
            exporter.end_step(rollout_id, **(extra_metrics or {}))
        # A Ray actor may be ended without a word.
        if rollout_id + 1 == getattr(args, "num_rollout", None):
            exporter.close()
        else:
            exporter.flush()
        return False

    def _open(self, args: Any, rollout_id: int) -> RolloutExporter:
        temperature = getattr(args, "rollout_temperature", None) or None
        settings = {"start_step": rollout_id, "temperature": temperature, "engine": "sglang"}
        # The rollout manager is one process.
        return RolloutExporter(
            self.out_dir, **{"rank": 0, "world_size": 1, **settings, **self.settings}
        )


def log_samples(
    exporter: RolloutExporter, rollout_id: int, samples: Sequence[Any], reward_key: str | None
) -> None:
    """Logs miles's Samples. reward_key: which part of a reward of parts is the total."""
    exporter.log_ragged(
        rollout_id,
        token_ids=[sample.tokens for sample in samples],
        response_lengths=[sample.response_length for sample in samples],
        loss_mask=[_loss_mask(sample) for sample in samples],
        rewards=[_total(sample.reward, reward_key) for sample in samples],
        sampling_logprobs=[sample.rollout_log_probs for sample in samples],
        teacher_logprobs=[getattr(sample, "teacher_log_probs", None) for sample in samples],
        meta=_columns(samples),
    )


def _columns(samples: Sequence[Any]) -> dict[str, list[Any]]:
    statuses = [getattr(sample.status, "value", None) for sample in samples]
    columns: dict[str, list[Any]] = {
        "group_id": [_named("g", sample.group_index) for sample in samples],
        "rollout_id": [_named("r", sample.index) for sample in samples],
        "prompt": [sample.prompt if isinstance(sample.prompt, str) else None for sample in samples],
        "response": [sample.response for sample in samples],
        "ground_truth": [sample.label for sample in samples],
        "finish_reason": statuses,
        "is_truncated": [status == "truncated" for status in statuses],
        "policy_version": [_oldest(sample.weight_versions) for sample in samples],
    }
    if any(isinstance(sample.reward, Mapping) for sample in samples):
        columns["rewards"] = [
            dict(sample.reward) if isinstance(sample.reward, Mapping) else {} for sample in samples
        ]
    return columns


def _flat(samples: Any) -> Iterator[Any]:
    """A rollout of several sequences may come as a list of its own."""
    for sample in samples:
        if isinstance(sample, list | tuple):
            yield from _flat(sample)
        else:
            yield sample


def _loss_mask(sample: Any) -> list[int] | None:
    return [0] * sample.response_length if sample.remove_sample else sample.loss_mask


def _total(reward: Any, key: str | None) -> Any:
    return reward.get(key) if isinstance(reward, Mapping) else reward


def _named(letter: str, number: int | None) -> str | None:
    return None if number is None else f"{letter}{number}"


def _oldest(versions: Sequence[str]) -> int | None:
    """Miles counts versions of the weights, which engines report as text."""
    numbers = [int(version) for version in versions if str(version).isdigit()]
    return min(numbers) if numbers else None
