"""OpenRLHF: one line in `BasePPOTrainer.train_step`, behind `make_experience_batch`.

    export_experiences(self, experiences, global_step, "runs/mine")

The trainer is a Ray actor that offers no hook, so that line has to be added to its file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from exporters.frameworks.guard import guarded, open_guarded
from exporters.writer import RolloutExporter

# Experience's name of a [B, A] tensor -> the record's.
_TOKENS = {
    "action_log_probs": "logprobs",
    "base_action_log_probs": "ref_logprobs",
    "rollout_log_probs": "sampling_logprobs",
    "values": "values",
    "returns": "returns",
    "advantages": "advantages",
}
_NOT_COLUMNS = ("reward", "kl", "logprobs_diff", "return", "response_clip_ratio")


def export_experiences(
    trainer: Any, experiences: Sequence[Any], global_step: int, out_dir: str, **settings: Any
) -> None:
    """Logs the experiences of one step; opens `out_dir` at the first.

    Args:
        trainer: OpenRLHF's BasePPOTrainer.
        experiences: what `make_experience_batch` returned: all rollouts of the step, on the CPU.
        global_step: as `train_step` got it. The step is logged as `global_step + 1`, as OpenRLHF's own
            logs count it.
        out_dir: the run's folder.
        **settings: RolloutExporter's.
    """
    step = global_step + 1
    exporter = getattr(trainer, "rollout_exporter", None)
    if exporter is None:
        exporter = open_guarded(
            lambda: _new_exporter(trainer, step, out_dir, settings), settings.get("strict")
        )
        trainer.rollout_exporter = exporter
    for micro_step, experience in enumerate(experiences):
        with guarded(exporter, "export_experiences", step, partial(_rows, experience)):
            group_size = int(trainer.args.rollout.n_samples_per_prompt)
            log_experience(exporter, step, micro_step, experience, group_size)
    exporter.end_step(step)
    exporter.flush()  # the trainer is a Ray actor, which may be ended without a word


def _rows(experience: Any) -> Any:
    return experience.sequences


def _new_exporter(
    trainer: Any, step: int, out_dir: str, settings: Mapping[str, Any]
) -> RolloutExporter:
    known = {
        "start_step": step,
        "tokenizer": trainer.tokenizer,
        "temperature": getattr(trainer.args.rollout, "temperature", None) or None,
    }
    # One process has all rollouts of the step: its rank among Ray's workers means nothing here.
    return RolloutExporter(out_dir, rank=0, world_size=1, **{**known, **settings})


def log_experience(
    exporter: RolloutExporter, step: int, micro_step: int, experience: Any, group_size: int
) -> None:
    """Logs one Experience: `sequences` [B, T] with the prompts, right padded, the rest [B, A].

    Column i of the [B, A] tensors is of the token in column T - A + i of `sequences`. A response
    begins with its first action; what tools answered in between is part of it, but not trained.
    """
    actions = experience.action_mask.bool()
    width = actions.shape[1]
    begun = actions.cumsum(1) > 0
    known = experience.attention_mask.bool()
    prompt = known.clone()
    prompt[:, -width:] &= ~begun
    scores = experience.info.get("reward")
    named = {_TOKENS[name]: getattr(experience, name, None) for name in _TOKENS}
    exporter.log(
        step,
        micro_step=micro_step,
        prompt_ids=experience.sequences,
        prompt_mask=prompt,
        response_ids=experience.sequences[:, -width:],
        response_mask=known[:, -width:] & begun,
        loss_mask=actions,
        rewards=experience.rewards if scores is None else scores,
        meta=_columns(experience, step, group_size),
        is_truncated=experience.truncated,
        **named,
    )


def _columns(experience: Any, step: int, group_size: int) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    if experience.index is not None:
        columns["group_id"] = [f"s{step}g{i // group_size}" for i in experience.index]
        columns["rollout_id"] = [f"s{step}r{i}" for i in experience.index]
    size = len(experience.sequences)
    texts = {"prompt": experience.prompts, "ground_truth": experience.labels}
    columns |= {name: list(values) for name, values in texts.items() if len(values) == size}
    for name, values in experience.info.items():
        if name not in _NOT_COLUMNS and len(values) == size:
            columns[name] = [float(value) for value in values]
    return columns
