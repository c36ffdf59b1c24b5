"""The metrics the board knows: what each one is called, its unit, its formula and where it is from.

Two families. Rollout metrics are numbers of one rollout (columns of the rollouts table; a curve
shows their distribution over the rollouts of a step). Token metrics are arrays over the response
tokens [R], recorded or derived here from what is recorded. Labels name the estimator and both
policies: never a bare "KL" or "ratio". The words are in metrics.toml.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Final, Literal

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics import kl
from board.core.metrics.own_metrics import own_metric

Kind = Literal["diverging", "sequential", "flag"]
Direction = Literal["up", "down", "neither"]


@dataclass(frozen=True, slots=True)
class Metric:
    """What a user needs to read a number right.

    name: column or array name. label: words on screen. unit: "nats", "tokens", "" for none.
    formula: one line, in the record's own field names. kind: diverging around zero, sequential, or a
    0/1 flag. better: the direction most runs want, "neither" where it depends. source: paper or tool.
    group: the heading below which a token metric is listed; short: its name there, "" for its label.
    axis: what it measures; metrics of one axis share the axis of the strip chart, "" shares it with none.
    least, most: what no value is beyond; see `possible`.
    """

    name: str
    label: str
    unit: str = ""
    formula: str = ""
    kind: Kind = "sequential"
    better: Direction = "neither"
    source: str = ""
    group: str = "Other"
    short: str = ""
    axis: str = ""
    least: float = -math.inf
    most: float = math.inf

    @property
    def possible(self) -> tuple[float, float]:
        """Between what all values are; infinite where nothing bounds them."""
        return (0.0, 1.0) if self.unit == "share" else (self.least, self.most)

    @property
    def unit_after_label(self) -> str:
        """The unit, where label and number do not say it: "" of a share, which is written in percent."""
        return "" if self.unit == "share" or self.unit in self.label else self.unit

    @property
    def label_with_unit(self) -> str:
        """The label as a heading: Entropy, nats."""
        return ", ".join(filter(None, (self.label, self.unit_after_label)))


_KNOWN: Final = tomllib.loads(
    resources.files("board.core.metrics").joinpath("metrics.toml").read_text(encoding="utf-8")
)
_OVER_TOKENS: Final = {
    "mean": "Mean over the tokens with loss_mask 1 (all response tokens where none is recorded).",
    "max": "Largest over the same tokens.",
}


def _metrics(family: str) -> dict[str, Metric]:
    return {name: Metric(name, **about) for name, about in _KNOWN[family].items()}


TOKEN_METRICS: Final[Mapping[str, Metric]] = _metrics("token")


Reduction = Literal["mean", "max"]

REDUCTIONS: Final[tuple[tuple[str, str, Reduction], ...]] = (
    ("k1_mean", "k1", "mean"),
    ("k2_mean", "k2", "mean"),
    ("k3_mean", "k3", "mean"),
    ("k1_max", "k1", "max"),
    ("k3_max", "k3", "max"),
    ("k3_by_ratio_mean", "k3_by_ratio", "mean"),
    ("mismatch_kl_mean", "mismatch_kl", "mean"),
    ("mismatch_kl_max", "mismatch_kl", "max"),
    ("mismatch_ratio_mean", "mismatch_ratio", "mean"),
    ("importance_ratio_mean", "importance_ratio", "mean"),
    ("entropy_mean", "entropy", "mean"),
    ("logprobs_mean", "logprobs", "mean"),
    ("is_masked_mean", "is_masked", "mean"),
    ("is_masked_high_mean", "is_masked_high", "mean"),
    ("is_masked_low_mean", "is_masked_low", "mean"),
    ("clipped_mean", "clipped", "mean"),
)
"""(column, token metric, reduction) of every per-rollout aggregate."""
MEAN_COLUMNS: Final = {metric: column for column, metric, how in REDUCTIONS if how == "mean"}
"""Token metric -> the column of its mean over a rollout."""


def _over_tokens(column: str, metric: str, reduction: Reduction) -> Metric:
    base = TOKEN_METRICS[metric]
    label = base.label if reduction == "mean" else f"{base.label}, largest token"
    unit = "share" if base.kind == "flag" else base.unit
    formula = f"{base.formula}. {_OVER_TOKENS[reduction]}"
    return replace(base, name=column, label=label, unit=unit, formula=formula)


ROLLOUT_METRICS: Final[Mapping[str, Metric]] = {
    **_metrics("rollout"),
    **{reduction[0]: _over_tokens(*reduction) for reduction in REDUCTIONS},
    **_metrics("step"),
}

REWARD_PART: Final = "rewards."
"""Prefix of the columns that hold the named parts of the reward."""


def rollout_metric(name: str) -> Metric:
    """The rollout metric of that column; one made from the name where the board does not know it."""
    if known := ROLLOUT_METRICS.get(name):
        return known
    if name.startswith(REWARD_PART):
        part = name.removeprefix(REWARD_PART)
        formula = f"rewards[{part!r}], as recorded"
        return Metric(name, f"Reward part: {part}", "", formula, "diverging", "up")
    return _of_log(name)


def token_metric(name: str) -> Metric:
    """The token metric of that array; one made from the name where the board does not know it."""
    return TOKEN_METRICS.get(name) or _of_log(name)


def _of_log(name: str) -> Metric:
    """A metric that only the log knows, in the user's words where they have some."""
    metric = Metric(name, name, "", "logged by the framework under this name")
    own = own_metric(name)
    if own is None:
        return metric
    kind = "diverging" if own.diverging else "sequential"
    return replace(metric, label=own.label, unit=own.unit, kind=kind)


@dataclass(frozen=True, slots=True)
class Derived:
    """A token metric computed from recorded arrays of equal length [R]."""

    needs: tuple[str, ...]
    compute: Callable[..., FloatArray]


DERIVED: Final[Mapping[str, Derived]] = {
    "k1": Derived(("logprobs", "ref_logprobs"), kl.k1),
    "k2": Derived(("logprobs", "ref_logprobs"), kl.k2),
    "k3": Derived(("logprobs", "ref_logprobs"), kl.k3),
    "k3_by_ratio": Derived(("logprobs", "ref_logprobs", "old_logprobs"), kl.k3_by_ratio),
    "importance_ratio": Derived(("logprobs", "old_logprobs"), kl.ratio),
    "mismatch_ratio": Derived(("logprobs", "sampling_logprobs"), kl.ratio),
    "engine_ratio": Derived(("old_logprobs", "sampling_logprobs"), kl.ratio),
    "mismatch_kl": Derived(("logprobs", "sampling_logprobs"), kl.mismatch_kl),
    "k3_clamped": Derived(("logprobs", "ref_logprobs"), kl.k3_clamped),
    "prob_delta": Derived(("logprobs", "sampling_logprobs"), kl.prob_delta),
    "td_error": Derived(("token_rewards", "values"), kl.td_error),
    "prob": Derived(("logprobs",), kl.probability),
    "ref_prob": Derived(("ref_logprobs",), kl.probability),
    "sampling_prob": Derived(("sampling_logprobs",), kl.probability),
}

RATIOS: Final = frozenset(name for name, own in DERIVED.items() if own.compute is kl.ratio)
"""Token metrics that are 1 where the two arrays that they need agree."""

LOW_IS_NOTABLE: Final = frozenset(
    (
        *("logprobs", "old_logprobs", "sampling_logprobs", "ref_logprobs"),
        *("prob", "ref_prob", "sampling_prob"),
    )
)
"""Token metrics of which the smallest values are the ones to look at: the rare tokens."""


def token_metrics(recorded: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """All token metrics that `recorded` allows: the derived ones, then the recorded ones.

    recorded: arrays by name, each [its own length]. A derived metric is left out when one of its
    inputs is missing or their lengths differ: two arrays of unequal length have no known alignment.
    """
    values: dict[str, FloatArray] = {}
    for name, derived in DERIVED.items():
        inputs = [recorded[need] for need in derived.needs if need in recorded]
        if len(inputs) == len(derived.needs) and len({*map(len, inputs)}) == 1:
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


_MENU: Final = (
    *("k3", "k1", "k2", "k3_clamped", "k3_by_ratio"),
    *("prob", "ref_prob", "sampling_prob"),
    *("logprobs", "ref_logprobs", "old_logprobs", "sampling_logprobs"),
    "entropy",
    *("advantages", "values", "returns", "token_rewards", "td_error"),
    *("loss_mask", "clipped", "is_masked", "is_masked_high", "is_masked_low", "sft_mask"),
    *("mismatch_kl", "mismatch_ratio", "importance_ratio", "engine_ratio", "prob_delta"),
)


def in_menu_order(metrics: Iterable[str]) -> list[str]:
    """Names of token metrics by group, the most useful first; unknown ones last, as they come."""
    order = {name: rank for rank, name in enumerate(_MENU)}
    return sorted(metrics, key=lambda name: order.get(name, len(order)))
