"""Token metrics as the reader lists them: headings, order, names below a heading, and shared axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """Where a token metric stands.

    group: the heading. name: its name below that heading, "" for its own label. axis: what it
    measures; metrics of one axis share the axis of the strip chart, "" shares it with none.
    """

    group: str
    name: str
    axis: str = ""


_GROUPS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "KL(policy‖ref)": {
        "k3": ("k3", "KL estimate"),
        "k1": ("k1 = log-ratio", ""),
        "k2": ("k2", "KL estimate"),
        "k3_clamped": ("k3, clamped", "KL estimate"),
    },
    "Probabilities": {
        "prob": ("policy", "probability"),
        "ref_prob": ("reference", "probability"),
        "sampling_prob": ("sampler", "probability"),
        "logprobs": ("log, policy", "log-probability"),
        "ref_logprobs": ("log, reference", "log-probability"),
        "old_logprobs": ("log, old policy", "log-probability"),
        "sampling_logprobs": ("log, sampler", "log-probability"),
    },
    "Entropy": {"entropy": ("policy", "")},
    "Advantage and value": {
        "advantages": ("advantage", ""),
        "values": ("value", "reward"),
        "returns": ("return", "reward"),
        "token_rewards": ("token reward", "reward"),
        "td_error": ("TD error", "reward"),
    },
    "Masks": {
        "loss_mask": ("in the loss", ""),
        "clipped": ("clipped", ""),
        "is_masked": ("masked by the trainer", ""),
        "is_masked_high": ("masked high", ""),
        "is_masked_low": ("masked low", ""),
        "sft_mask": ("SFT token", ""),
    },
    "Mismatch and ratios": {
        "mismatch_kl": ("KL(sampler‖trainer)", ""),
        "mismatch_ratio": ("trainer / sampler", "ratio"),
        "importance_ratio": ("policy / old policy", "ratio"),
        "engine_ratio": ("old policy / sampler", "ratio"),
        "prob_delta": ("change of probability", ""),
    },
}
_OTHER: Final = Place("Other", "")
_PLACES: Final[Mapping[str, Place]] = {
    metric: Place(group, name, axis)
    for group, metrics in _GROUPS.items()
    for metric, (name, axis) in metrics.items()
}


def place_of(metric: str) -> Place:
    """Where the token metric of that name stands; the group "Other" for one that is not known."""
    return _PLACES.get(metric, _OTHER)


def in_menu_order(metrics: Iterable[str]) -> list[str]:
    """Names of token metrics by group, the most useful first; unknown ones last, as they come."""
    order = {name: rank for rank, name in enumerate(_PLACES)}
    return sorted(metrics, key=lambda name: order.get(name, len(order)))
