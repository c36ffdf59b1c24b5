"""The metrics the board knows: what each one is called, its unit, its formula and where it is from.

Two families. Rollout metrics are numbers of one rollout (columns of the rollouts table; a curve
shows their distribution over the rollouts of a step). Token metrics are arrays over the response
tokens [R], recorded or derived here from what is recorded. Labels name the estimator and both
policies: never a bare "KL" or "ratio".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from board.core.metrics import kl
from board.core.metrics.kl import FloatArray, td_error

Kind = Literal["diverging", "sequential", "flag"]
Direction = Literal["up", "down", "neither"]


@dataclass(frozen=True, slots=True)
class Metric:
    """What a user needs to read a number right.

    name: column or array name. label: words on screen. unit: "nats", "tokens", "" for none.
    formula: one line, in the record's own field names. kind: diverging around zero, sequential, or a
    0/1 flag. better: the direction most runs want, "neither" where it depends. source: paper or tool.
    """

    name: str
    label: str
    unit: str = ""
    formula: str = ""
    kind: Kind = "sequential"
    better: Direction = "neither"
    source: str = ""


_SCHULMAN: Final = "Schulman 2020, Approximating KL Divergence"
_MASKED_MEAN: Final = (
    " Mean over the tokens with loss_mask 1 (all response tokens where none is recorded)."
)

TOKEN_METRICS: Final[Mapping[str, Metric]] = {
    m.name: m
    for m in (
        Metric(
            "k1",
            "KL(policy‖ref), k1",
            "nats",
            "logprobs - ref_logprobs, the log-ratio",
            "diverging",
            "down",
            _SCHULMAN,
        ),
        Metric(
            "k2", "KL(policy‖ref), k2", "nats", "(logprobs - ref_logprobs)² / 2", source=_SCHULMAN
        ),
        Metric(
            "k3",
            "KL(policy‖ref), k3",
            "nats",
            "exp(-d) - 1 + d, d = logprobs - ref_logprobs",
            "sequential",
            "down",
            _SCHULMAN,
        ),
        Metric(
            "k3_clamped",
            "KL(policy‖ref), k3 as trainers clamp it",
            "nats",
            "min(k3, 10), with d = logprobs - ref_logprobs clamped to ±20",
            "sequential",
            "down",
            "verl, low_var_kl",
        ),
        Metric("logprobs", "Log-probability, policy", "nats", "log p_policy(token | before)"),
        Metric("prob", "Probability, policy", "", "exp(logprobs)"),
        Metric("ref_logprobs", "Log-probability, reference", "nats", "log p_ref(token | before)"),
        Metric("ref_prob", "Probability, reference", "", "exp(ref_logprobs)"),
        Metric("sampling_prob", "Probability, sampling engine", "", "exp(sampling_logprobs)"),
        Metric(
            "old_logprobs",
            "Log-probability, policy before the step's updates",
            "nats",
            "as recorded",
        ),
        Metric("sampling_logprobs", "Log-probability, sampling engine", "nats", "as recorded"),
        Metric(
            "importance_ratio",
            "Importance ratio, policy / old policy",
            "",
            "exp(logprobs - old_logprobs)",
            source="PPO, arXiv 1707.06347",
        ),
        Metric(
            "mismatch_ratio",
            "Mismatch ratio, trainer / sampler",
            "",
            "exp(logprobs - sampling_logprobs)",
        ),
        Metric(
            "engine_ratio",
            "Engine ratio, old policy / sampler",
            "",
            "exp(old_logprobs - sampling_logprobs)",
            source="TIS, Yao et al. 2025; IcePop, arXiv 2510.18855",
        ),
        Metric(
            "mismatch_kl",
            "KL(sampler‖trainer), mismatch",
            "nats",
            "r - 1 - log r, r = exp(logprobs - sampling_logprobs)",
            "sequential",
            "down",
            "prime-rl",
        ),
        Metric(
            "prob_delta",
            "Change of probability, trainer - sampler",
            "",
            "exp(logprobs) - exp(sampling_logprobs)",
            "diverging",
            source="DPPO, arXiv 2602.04879",
        ),
        Metric("entropy", "Entropy, policy", "nats", "over the full vocabulary, as recorded"),
        Metric("values", "Value", "", "critic's estimate, as recorded", "diverging"),
        Metric("returns", "Return", "", "as recorded", "diverging"),
        Metric("advantages", "Advantage", "", "as recorded", "diverging"),
        Metric("token_rewards", "Token reward", "", "as recorded", "diverging"),
        Metric(
            "td_error",
            "TD error of the value",
            "",
            "token_rewards[t] + γ values[t+1] - values[t], values 0 after the last token; "
            "γ from the run's settings, else 1",
            "diverging",
            source="GAE, arXiv 1506.02438",
        ),
        Metric("loss_mask", "In the loss", "", "1 = the token enters the loss", "flag"),
        Metric("is_masked", "Masked by the trainer", "", "trust-region mask, as recorded", "flag"),
        Metric("is_masked_high", "Masked high", "", "ratio above its bound, as recorded", "flag"),
        Metric("is_masked_low", "Masked low", "", "ratio below its bound, as recorded", "flag"),
        Metric(
            "clipped",
            "Clipped by the ratio's range",
            "",
            "A > 0 and ratio > 1 + ε high, or A < 0 and ratio < 1 - ε low; "
            "ratio = exp(logprobs - old_logprobs), ε from the run's settings",
            "flag",
            source="PPO, arXiv 1707.06347",
        ),
        Metric("sft_mask", "SFT token", "", "1 = trained with cross-entropy, as recorded", "flag"),
    )
}


Reduction = Literal["mean", "max"]

REDUCTIONS: Final[tuple[tuple[str, str, Reduction], ...]] = (
    ("k1_mean", "k1", "mean"),
    ("k2_mean", "k2", "mean"),
    ("k3_mean", "k3", "mean"),
    ("k1_max", "k1", "max"),
    ("k3_max", "k3", "max"),
    ("mismatch_kl_mean", "mismatch_kl", "mean"),
    ("mismatch_kl_max", "mismatch_kl", "max"),
    ("mismatch_ratio_mean", "mismatch_ratio", "mean"),
    ("importance_ratio_mean", "importance_ratio", "mean"),
    ("entropy_mean", "entropy", "mean"),
    ("logprobs_mean", "logprobs", "mean"),
)
"""(column, token metric, reduction) of every per-rollout aggregate."""


def _over_tokens(column: str, metric: str, reduction: Reduction) -> Metric:
    base = TOKEN_METRICS[metric]
    is_mean = reduction == "mean"
    label = base.label if is_mean else f"{base.label}, largest token"
    formula = f"{base.formula}.{_MASKED_MEAN if is_mean else ' Largest over the same tokens.'}"
    return replace(base, name=column, label=label, formula=formula)


ROLLOUT_METRICS: Final[Mapping[str, Metric]] = {
    m.name: m
    for m in (
        Metric("reward", "Reward", "", "scalar total, as recorded", "diverging", "up"),
        Metric(
            "ref_reward", "Reference reward", "", "reward of ref_response, as recorded", "diverging"
        ),
        Metric(
            "reward_gap", "Reward gap to reference", "", "reward - ref_reward", "diverging", "up"
        ),
        Metric("valid_reward", "Validation reward", "", "as recorded", "diverging", "up"),
        Metric("ref_valid_reward", "Reference validation reward", "", "as recorded", "diverging"),
        Metric("advantage", "Advantage", "", "per rollout, as recorded", "diverging"),
        Metric("response_tokens", "Response length", "tokens", "number of response tokens"),
        Metric("response_chars", "Response length in characters", "characters", "len(response)"),
        Metric("prompt_tokens", "Prompt length", "tokens", "number of prompt tokens"),
        Metric("loss_tokens", "Tokens in the loss", "tokens", "sum of loss_mask"),
        Metric(
            "is_truncated", "Truncated", "share", "1 = stopped by the length limit", "flag", "down"
        ),
        *(_over_tokens(*reduction) for reduction in REDUCTIONS),
        Metric(
            "zero_std_group_fraction",
            "Zero-std groups",
            "share",
            "share of groups of 2 or more scored rollouts whose rewards are all equal",
            "flag",
            "down",
            "DAPO, arXiv 2503.14476; TRL frac_reward_zero_std",
        ),
    )
}

REWARD_PART: Final = "rewards."
"""Prefix of the columns that hold the named parts of the reward."""


def rollout_metric(name: str) -> Metric:
    """The rollout metric of that column; one made from the name where the board does not know it."""
    if known := ROLLOUT_METRICS.get(name):
        return known
    if name.startswith(REWARD_PART):
        part = name.removeprefix(REWARD_PART)
        return Metric(
            name, f"Reward part: {part}", "", f"rewards[{part!r}], as recorded", "diverging", "up"
        )
    return Metric(name, name, "", "logged by the framework under this name")


def token_metric(name: str) -> Metric:
    """The token metric of that array; one made from the name where the board does not know it."""
    return TOKEN_METRICS.get(name) or Metric(
        name, name, "", "logged by the framework under this name"
    )


@dataclass(frozen=True, slots=True)
class Derived:
    """A token metric computed from recorded arrays of equal length [R]."""

    needs: tuple[str, ...]
    compute: Callable[..., FloatArray]


DERIVED: Final[Mapping[str, Derived]] = {
    "k1": Derived(("logprobs", "ref_logprobs"), kl.k1),
    "k2": Derived(("logprobs", "ref_logprobs"), kl.k2),
    "k3": Derived(("logprobs", "ref_logprobs"), kl.k3),
    "importance_ratio": Derived(("logprobs", "old_logprobs"), kl.importance_ratio),
    "mismatch_ratio": Derived(("logprobs", "sampling_logprobs"), kl.mismatch_ratio),
    "engine_ratio": Derived(("old_logprobs", "sampling_logprobs"), kl.engine_ratio),
    "mismatch_kl": Derived(("logprobs", "sampling_logprobs"), kl.mismatch_kl),
    "k3_clamped": Derived(("logprobs", "ref_logprobs"), kl.k3_clamped),
    "prob_delta": Derived(("logprobs", "sampling_logprobs"), kl.prob_delta),
    "td_error": Derived(("token_rewards", "values"), td_error),
    "prob": Derived(("logprobs",), kl.probability),
    "ref_prob": Derived(("ref_logprobs",), kl.probability),
    "sampling_prob": Derived(("sampling_logprobs",), kl.probability),
}

RATIOS: Final = frozenset({"importance_ratio", "mismatch_ratio", "engine_ratio"})
"""Token metrics that are exp of the difference of the two arrays they need, and 1 where these agree."""


def token_metrics(recorded: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """All token metrics that `recorded` allows: the derived ones, then the recorded ones.

    recorded: arrays by name, each [its own length]. A derived metric is left out when one of its
    inputs is missing or their lengths differ: two arrays of unequal length have no known alignment.
    """
    values: dict[str, FloatArray] = {}
    for name, derived in DERIVED.items():
        inputs = [recorded[need] for need in derived.needs if need in recorded]
        if len(inputs) == len(derived.needs) and len({len(a) for a in inputs}) == 1:
            values[name] = derived.compute(*inputs)
    order = {name: i for i, name in enumerate(TOKEN_METRICS)}
    values.update({name: np.asarray(a, np.float64) for name, a in recorded.items()})
    return dict(sorted(values.items(), key=lambda item: order.get(item[0], len(order))))


def is_zero_std(rewards: FloatArray) -> bool | None:
    """True when all scored rewards [n] of a group are equal, so that the group gives no gradient.

    NaN entries (not scored) are left out. None where fewer than two are scored: nothing to compare.
    Equality is exact: rewards of one group come from one function. TRL's frac_reward_zero_std lets the
    standard deviation be up to 1e-8 (torch.isclose, trl@f2cd577 trl/trainer/grpo_trainer.py).
    """
    scored = rewards[np.isfinite(rewards)]
    return None if len(scored) < 2 else bool(scored.max() == scored.min())


def reward_parts(columns: Iterable[str]) -> list[str]:
    """The columns that are parts of the reward."""
    return [column for column in columns if column.startswith(REWARD_PART)]


def base_name(column: str) -> str:
    """The stem of a metric's columns in the table of steps: k3_mean -> k3, reward -> reward.

    Only the board's own means lose their ending: a framework's reward_mean is not the reward.
    """
    return column.removesuffix("_mean") if column in ROLLOUT_METRICS else column


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """Where a token metric is listed.

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
_OTHER: Final = MenuEntry("Other", "")
_MENU: Final[Mapping[str, MenuEntry]] = {
    metric: MenuEntry(group, name, axis)
    for group, metrics in _GROUPS.items()
    for metric, (name, axis) in metrics.items()
}


def menu_entry(metric: str) -> MenuEntry:
    """Where the token metric of that name is listed; the group "Other" for one that is not known."""
    return _MENU.get(metric, _OTHER)


def in_menu_order(metrics: Iterable[str]) -> list[str]:
    """Names of token metrics by group, the most useful first; unknown ones last, as they come."""
    order = {name: rank for rank, name in enumerate(_MENU)}
    return sorted(metrics, key=lambda name: order.get(name, len(order)))
