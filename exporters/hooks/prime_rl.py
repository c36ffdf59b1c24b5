"""prime-rl's token exporter, as a drop-in: the calls are its own, the files are ours.

In `prime_rl/trainer/rl/train.py` import `setup_token_exporter` from here and switch it on with
`enable_token_export`. For prime-rl up to August 2026; later versions replaced their exporter by trace
annotations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exporters.frameworks.guard import guarded, open_guarded
from exporters.writer import RolloutExporter

# prime-rl's name of a tensor [1, T] of the micro batch -> the record's.
_BATCH = {
    "advantages": "advantages",
    "inference_logprobs": "sampling_logprobs",
    "ref_logprobs": "ref_logprobs",
    "rl_weights": "rl_weights",
    "ce_weights": "ce_weights",
    "ref_kl_weights": "ref_kl_weights",
}
_MASKS = ("is_masked", "is_masked_high", "is_masked_low")
_THRESHOLDS = ("type", "dppo_mask_low", "dppo_mask_high", "kl_tau", "adv_tau")


class TokenExporter:
    """prime-rl's TokenExporter, writing to `output_dir/rollouts`.

    Its derived columns (ratios, mismatch KL) are derived when the log is read. Its is_masked columns
    are not derived again from the loss's settings: where the loss puts its masks [1, T] into
    `model_output`, they are logged.

    Args:
        output_dir: prime-rl's. rank: which of the exporting ranks. settings: RolloutExporter's.
    """

    def __init__(self, output_dir: Path, rank: int, **settings: Any) -> None:
        self.output_dir = Path(output_dir) / "rollouts"
        self.exporter = open_guarded(
            lambda: RolloutExporter(self.output_dir, rank=rank, **settings), settings.get("strict")
        )
        self._open_steps: list[int] = []

    def export(
        self,
        step: int,
        micro_step: int,
        micro_batch: Mapping[str, Any],
        model_output: Mapping[str, Any],
        sequence_lengths: list[int],
        loss_config: Any,
    ) -> None:
        """Logs one packed micro batch; one without a trained token, which prime-rl adds to keep ranks
        in step, is left out.
        """
        if step not in self._open_steps:
            self._open_steps.append(step)
        if not self.exporter.wants(step):
            return
        with guarded(self.exporter, "export", step, lambda: sequence_lengths):
            if not bool(micro_batch["loss_mask"].any()):
                return
            envs = micro_batch["env_names"]
            lengths = without_padding(sequence_lengths, envs)
            starts = [sum(sequence_lengths[:i]) for i in range(len(lengths))]
            named = {_BATCH[key]: micro_batch.get(key) for key in _BATCH}
            self.exporter.log_packed(
                step,
                micro_step=micro_step,
                input_ids=micro_batch["input_ids"],
                seq_lens=lengths,
                loss_mask=micro_batch["loss_mask"],
                meta={"env": [envs[start] or None for start in starts]},
                logprobs=model_output["logprobs"],
                entropy=model_output.get("entropy"),
                **named,
                **{name: model_output.get(name) for name in _MASKS},
                positions=dict.fromkeys(("rl_weights", "ce_weights", "ref_kl_weights"), "token"),
            )

    def mark_stable(self) -> None:
        """Ends the steps exported so far; no barrier is needed before."""
        while self._open_steps:
            self.exporter.end_step(self._open_steps.pop(0))

    def close(self) -> None:
        """Ends what is open and closes the file."""
        self.mark_stable()
        self.exporter.close()


def setup_token_exporter(
    config: Any, parallel_dims: Any, world: Any, logger: Any, **settings: Any
) -> TokenExporter:
    """An exporter under prime-rl's own condition: `config.enable_token_export`, context-parallel rank 0.

    The context-parallel ranks lie next to each other, so that every `cp`-th rank writes.
    """
    cp_rank, rank = world.rank % parallel_dims.cp, world.rank // parallel_dims.cp
    settings.setdefault("world_size", world.world_size // parallel_dims.cp)
    settings.setdefault("enabled", bool(config.enable_token_export) and cp_rank == 0)
    loss = {name: getattr(config.loss, name, None) for name in _THRESHOLDS}
    settings.setdefault("run", {"thresholds": {k: v for k, v in loss.items() if v is not None}})
    exporter = TokenExporter(config.output_dir, rank, **settings)
    if settings["enabled"]:
        logger.info(f"Writing rollouts under {exporter.output_dir}")
    return exporter


def without_padding(lengths: Sequence[int], env_names: Sequence[str]) -> list[int]:
    """The lengths of the packed sequences; padding, which has no env, is part of the last only."""
    padding = 0
    while padding < len(env_names) and not env_names[-1 - padding]:
        padding += 1
    return [*lengths[:-1], max(lengths[-1] - padding, 0)]
