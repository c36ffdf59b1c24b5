"""What each rule had to look at: silence for want of data must not pass for a clean bill."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from board.core.findings import RULES, Rule
from board.core.findings.thresholds import Thresholds
from board.core.metrics.definitions import REWARD_PART

State = Literal["checked", "not recorded", "off", "not read"]

_K3: Final = (("k3_mean",),)
_REWARD: Final = (("reward",),)
_GROUPS: Final = (("group_id",), ("reward",))
_RESPONSE: Final = (("response", "response_tokens"),)
# Arrays of NaN alone have no mean: their gaps are counted all the same.
_ARRAYS: Final = (("logprobs_mean", "entropy_mean", "loss_tokens", "missing_values"),)
_SAMPLER: Final = (("mismatch_kl_mean",),)

NEEDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "misaligned": (("k3_mean", "mismatch_kl_mean", "importance_ratio_mean"),),
    "duplicated_rollouts": (("rollout_id",),),
    "stopped_rank": (("rank",),),
    "missing_values": _ARRAYS,
    "unequal_arrays": _ARRAYS,
    "resumed": (),
    "clock_gap": (("timestamp",),),
    "kl_spike": _K3,
    "token_type_kl": _K3,
    "entropy_collapse": (("entropy_mean",),),
    "zero_gradient": _GROUPS,
    "advantages": (*_GROUPS, ("advantage",)),
    "hidden_env": (("env",), *_REWARD),
    "truncation": (("is_truncated",),),
    "length_without_gain": (("response_tokens",), ("reward", REWARD_PART)),
    "reward_length": (*_GROUPS, ("response_tokens",)),
    "part_falls": (*_REWARD, (REWARD_PART,)),
    "reward_outliers": _REWARD,
    "unscored": _REWARD,
    "repetition": _RESPONSE,
    "garbled": _RESPONSE,
    "foreign_script": _RESPONSE,
    "duplicates": (("group_id",), *_RESPONSE),
    "same_everywhere": (("group_id",), *_RESPONSE),
    "mismatch": _SAMPLER,
    "mismatch_drift": _SAMPLER,
}
"""Rule -> columns of the table of rollouts that it needs, one of each entry. `rewards.` is any part."""

_WORDS: Final = {
    "k3_mean": "logprobs and ref_logprobs",
    "mismatch_kl_mean": "logprobs and sampling_logprobs",
    "importance_ratio_mean": "logprobs and old_logprobs",
    "logprobs_mean": "logprobs",
    "entropy_mean": "entropy",
    "loss_tokens": "token arrays",
    "missing_values": "token arrays",
    "response_tokens": "response tokens",
    REWARD_PART: "parts of the reward",
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether a rule checked the run, and if not, why.

    about: what it looks for. missing: what is not recorded.
    """

    rule: str
    about: str
    state: State
    missing: str = ""


def coverage(
    columns: Collection[str], thresholds: Thresholds, *, tokens_read: bool
) -> list[Coverage]:
    """Of every rule. columns: of the table of rollouts. tokens_read: whether token arrays were read."""
    return [_of(rule, columns, thresholds, tokens_read=tokens_read) for rule in RULES]


def _of(
    rule: Rule, columns: Collection[str], thresholds: Thresholds, *, tokens_read: bool
) -> Coverage:
    about = (inspect.getdoc(rule.look) or rule.name).split("\n\n")[0].replace("\n", " ")
    if not thresholds[rule.name].get("enabled", 1.0):
        return Coverage(rule.name, about, "off")
    missing = [needs for needs in NEEDS.get(rule.name, ()) if not _has_one(needs, columns)]
    if missing:
        words = " and ".join(
            " or ".join(dict.fromkeys(_WORDS.get(n, n) for n in needs)) for needs in missing
        )
        return Coverage(rule.name, about, "not recorded", words)
    if rule.needs_tokens and not tokens_read:
        return Coverage(rule.name, about, "not read")
    return Coverage(rule.name, about, "checked")


def _has_one(needs: tuple[str, ...], columns: Collection[str]) -> bool:
    return any(
        any(column.startswith(REWARD_PART) for column in columns)
        if need == REWARD_PART
        else need in columns
        for need in needs
    )
