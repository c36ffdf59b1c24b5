"""What verl knows of a rollout beside its tensors, and of a run, in the words of the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

COLUMNS = ("uid", "data_source", "reward_model", "num_turns", "__num_turns__", "extra_fields")
# The settings that shape the training. Not all of them: the rest holds paths.
_SETTINGS = (
    *(f"algorithm.{name}" for name in ("adv_estimator", "gamma", "lam", "use_kl_in_reward")),
    *("algorithm.norm_adv_by_std_in_grpo", "algorithm.kl_ctrl.kl_coef"),
    *("algorithm.rollout_correction.bypass_mode", "algorithm.rollout_correction.rollout_is"),
    *("actor_rollout_ref.actor.optim.lr", "actor_rollout_ref.actor.ppo_mini_batch_size"),
    *("actor_rollout_ref.actor.ppo_epochs", "actor_rollout_ref.actor.entropy_coeff"),
    *("actor_rollout_ref.actor.use_kl_loss", "actor_rollout_ref.actor.kl_loss_coef"),
    *("actor_rollout_ref.actor.kl_loss_type", "actor_rollout_ref.actor.loss_agg_mode"),
    *("actor_rollout_ref.actor.clip_ratio", "actor_rollout_ref.actor.clip_ratio_low"),
    *("actor_rollout_ref.actor.clip_ratio_high", "actor_rollout_ref.rollout.n"),
    *("actor_rollout_ref.rollout.temperature", "actor_rollout_ref.rollout.top_p"),
    *("data.train_batch_size", "data.max_prompt_length", "data.max_response_length"),
    *("trainer.v1.trainer_mode", "trainer.total_epochs"),
)


def settings_of(config: Any) -> dict[str, Any]:
    """What of verl's configuration belongs in the run's document, by dotted names."""
    known = {name: _at(config, name) for name in _SETTINGS}
    return {name: value for name, value in known.items() if value is not None}


def bypasses(config: Any) -> bool:
    """Whether verl takes the sampler's log-probabilities for the old policy's (its bypass mode)."""
    return bool(_at(config, "algorithm.rollout_correction.bypass_mode"))


def numbers(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of a step that are numbers."""
    return {name: value for name, value in metrics.items() if isinstance(value, Real)}


def columns_of(known: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The record's columns of verl's."""
    columns: dict[str, list[Any]] = {}
    if "uid" in known:
        columns["group_id"] = [str(uid) for uid in known["uid"]]
    if "data_source" in known:
        columns["env"] = [str(source) for source in known["data_source"]]
    if "reward_model" in known:
        columns["ground_truth"] = [_member(row, "ground_truth") for row in known["reward_model"]]
    for name in ("num_turns", "__num_turns__"):
        if name in known:
            columns["num_turns"] = list(known[name])
    if "extra_fields" in known:
        extras = [_member(row, "reward_extra_info") or {} for row in known["extra_fields"]]
        names = dict.fromkeys(str(name) for row in extras for name in row)
        columns |= {name: [_member(row, name) for row in extras] for name in names}
    return columns


def _member(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else None


def _at(config: Any, name: str) -> Any:
    for key in name.split("."):
        config = getattr(config, key, None)
    return config
