"""Rules by which trainers leave tokens out of the loss, or cap their weight, with open thresholds.

Each rule compares one token metric with a lower and an upper bound. The board applies it to what was
recorded, so that a user sees what other thresholds would have done: to the tokens as they were
sampled, not to the training that would have followed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Literal, cast

import numpy as np

from board.core.arrays import BoolArray, FloatArray
from board.core.records import is_number
from board.core.texts.messages import as_fields

Side = Literal["low", "high"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number the user turns; the bound on the metric is `offset + factor * number`.

    default, lowest, highest, step: of the number, in the metric's own unit (of a clip range: its
    distance from 1).
    """

    name: str
    default: float
    lowest: float
    highest: float
    step: float
    offset: float = 0.0
    factor: float = 1.0

    def bound(self, number: float) -> float:
        """The bound on the metric."""
        return self.offset + self.factor * number


@dataclass(frozen=True, slots=True)
class MaskRule:
    """One rule. A token is hit below the bound of `low` or above the bound of `high`.

    metric: the token metric that is compared; stand_in: what is where that is not recorded, empty for
        nothing. low, high: None for no such bound.
    by_sign: only the upper bound counts for tokens with a positive advantage, only the lower one for
        those with a negative advantage. at_zero: which bound counts where the advantage is zero.
    effect: what happens to the tokens: "masked" or "capped".
    """

    name: str
    label: str
    metric: str
    low: Threshold | None
    high: Threshold | None
    formula: str
    source: str
    by_sign: bool = False
    at_zero: Literal["none", "low"] = "none"
    effect: Literal["masked", "capped"] = "masked"
    stand_in: str = ""

    def compared(self, known: Container[str]) -> str | None:
        """Which of the token metrics that are known the rule goes by; None where it can't be applied."""
        return next((name for name in (self.metric, self.stand_in) if name in known), None)

    @property
    def thresholds(self) -> dict[Side, Threshold]:
        """Its lower and its upper one, as far as it has them."""
        sides: dict[Side, Threshold | None] = {"low": self.low, "high": self.high}
        return {side: one for side, one in sides.items() if one is not None}

    def signs(self, bound: Side) -> str:
        """The advantages A of the tokens that a bound stops, in words; empty for all."""
        if not self.by_sign:
            return ""
        falling = "A ≤ 0" if self.at_zero == "low" else "A < 0"
        return "A > 0" if bound == "high" else falling


RULES: Final[Mapping[str, MaskRule]] = {
    rule.name: rule
    for rule in (
        MaskRule(
            "ratio_clip",
            "Ratio clip (PPO, GRPO)",
            "importance_ratio",
            Threshold("ε low", 0.2, 0.0, 1.0, 0.005, offset=1.0, factor=-1.0),
            Threshold("ε high", 0.2, 0.0, 2.0, 0.005, offset=1.0),
            "A > 0 and ratio > 1 + ε high, or A < 0 and ratio < 1 - ε low; "
            "ratio = exp(logprobs - old_logprobs)",
            "PPO, arXiv 1707.06347; ε high apart: DAPO, arXiv 2503.14476, 4.1 (0.28)",
            by_sign=True,
        ),
        MaskRule(
            "dppo",
            "DPPO, change of probability",
            "prob_delta",
            Threshold("δ low", 0.2, 0.0, 1.0, 0.005, factor=-1.0),
            Threshold("δ high", 0.2, 0.0, 1.0, 0.005),
            "A > 0 and Δ > δ high, or A ≤ 0 and Δ < -δ low; "
            "Δ = exp(logprobs) - exp(sampling_logprobs)",
            "DPPO (binary TV), arXiv 2602.04879; prime-rl@559b447 src/prime_rl/trainer/rl/loss.py",
            by_sign=True,
            at_zero="low",
        ),
        MaskRule(
            "icepop",
            "IcePop, ratio bounds",
            "engine_ratio",
            Threshold("α", 0.5, 0.0, 1.0, 0.005),
            Threshold("β", 5.0, 1.0, 10.0, 0.05),
            "ratio < α or ratio > β; ratio = exp(old_logprobs - sampling_logprobs), logprobs where "
            "old_logprobs are not recorded",
            'IcePop, arXiv 2510.18855; verl@1dda039 rollout_is_threshold "0.5_5.0"',
            stand_in="mismatch_ratio",
        ),
        MaskRule(
            "tis",
            "TIS, truncated weight",
            "engine_ratio",
            None,
            Threshold("C", 2.0, 1.0, 10.0, 0.05),
            "ratio > C, whose weight becomes C; ratio = exp(old_logprobs - sampling_logprobs), logprobs "
            "where old_logprobs are not recorded",
            "Truncated importance sampling, Yao et al. 2025, Your Efficient RL Framework Secretly "
            "Brings You Off-Policy RL Training; verl@1dda039 rollout_is_threshold 2.0",
            effect="capped",
            stand_in="mismatch_ratio",
        ),
    )
}


RECORDED: Final = ("is_masked", "is_masked_high", "is_masked_low", "clipped", "sft_mask")
"""Token metrics that are masks themselves, and are offered beside the rules."""

ChosenMask = tuple[str, tuple[float, ...]]
"""Name of a rule with its numbers, or of a recorded mask; no numbers: the rule's defaults."""

ChosenMasks = tuple[ChosenMask | None, ChosenMask | None]
"""What two masks were chosen, None for none."""

_LARGEST_NUMBER: Final = 1e6


def chosen_masks(given: object) -> ChosenMasks:
    """The choice that a browser reports: two of [name, number, ...] or None. Raises ValueError."""
    slots = cast("list[object]", given) if isinstance(given, list | tuple) else []
    if len(slots) != 2:
        raise ValueError("not two masks")
    return _chosen_mask(slots[0]), _chosen_mask(slots[1])


def _chosen_mask(slot: object) -> ChosenMask | None:
    if slot is None:
        return None
    if not isinstance(slot, list | tuple) or not slot:
        raise ValueError("not a mask's name and numbers")
    name, *numbers = cast("list[Any]", slot)
    if name in RECORDED and not numbers:
        return name, ()
    rule = RULES.get(name) if isinstance(name, str) else None
    if rule is None:
        raise ValueError(f"not one of {', '.join((*RULES, *RECORDED))}")
    bounds = len(rule.thresholds)
    if numbers and len(numbers) != bounds:
        raise ValueError(f"{name} takes {bounds} numbers")
    if not all(is_number(one) and abs(one) <= _LARGEST_NUMBER for one in numbers):
        raise ValueError("not a usable number")
    return rule.name, tuple(float(one) for one in numbers)


def masks_from_text(text: str) -> ChosenMasks:
    """`ratio_clip:0.2:0.28,is_masked` as a choice; nothing before or after the comma for no mask.

    Raises ValueError.
    """
    return chosen_masks([_slot(part) if part else None for part in text.split(",")])


def masks_text(masks: ChosenMasks) -> str:
    """The choice as `masks_from_text` reads it."""
    return ",".join("" if one is None else _slot_text(*one) for one in masks)


def _slot(text: str) -> list[Any]:
    """`name:number:number` as [name, number, number]."""
    name, *numbers = text.split(":")
    try:
        return [name, *map(float, numbers)]
    except ValueError as error:
        raise ValueError(f"not numbers: {error}"[:80]) from None


def _slot_text(name: str, numbers: Iterable[float]) -> str:
    return ":".join((name, *(f"{number:g}" for number in numbers)))


def numbers_from_text(text: str) -> dict[str, dict[str, float]]:
    """`ratio_clip:0.2:0.28,tis:3` as numbers of rules by the names of their thresholds.

    Raises ValueError for anything else, a number that a threshold does not go to included.
    """
    entries: dict[str, dict[str, float]] = {}
    for part in filter(None, text.split(",")):
        name, numbers = _chosen_mask(_slot(part)) or ("", ())
        if not numbers:
            raise ValueError("not of the form rule:number or rule:number:number")
        entries[name] = {}
        for threshold, number in zip(RULES[name].thresholds.values(), numbers, strict=True):
            if not threshold.lowest <= number <= threshold.highest:
                limits = f"{threshold.lowest:g} to {threshold.highest:g}"
                raise ValueError(f"{threshold.name} goes from {limits}")
            entries[name][threshold.name] = number
    return entries


def numbers_text(numbers: Mapping[str, Mapping[str, float]]) -> str:
    """The numbers as `numbers_from_text` reads them."""
    return ",".join(
        _slot_text(name, (chosen.get(t.name, t.default) for t in RULES[name].thresholds.values()))
        for name, chosen in numbers.items()
    )


def hit(
    rule: MaskRule,
    values: FloatArray,
    numbers: Mapping[str, float],
    advantages: FloatArray | None = None,
) -> BoolArray:
    """Which tokens a rule hits.

    values: [R] of what the rule compares. numbers: by the names of the rule's thresholds; the default
    where one is left out. advantages: [R], needed by rules that go by their sign.
    Returns [R]; False where the value or, by sign, the advantage is NaN: nothing is known to be hit.
    Raises ValueError when advantages are needed and missing, or of another length.
    """
    low, high = (
        np.nan if t is None else t.bound(numbers.get(t.name, t.default))
        for t in (rule.low, rule.high)
    )
    below, above = values < low, values > high  # both False of NaN
    if not rule.by_sign:
        return below | above
    if advantages is None or advantages.shape != values.shape:
        raise ValueError(f"{rule.name} goes by the advantage's sign: one per token is needed")
    falling = advantages <= 0 if rule.at_zero == "low" else advantages < 0
    return (above & (advantages > 0)) | (below & falling)


_CLIP_NAMES: Final = (
    ("epsilon", "epsilon_high"),  # TRL
    ("clip_ratio_low", "clip_ratio_high"),  # verl
    ("eps_clip", "eps_clip_high"),  # slime, OpenRLHF
    ("ratio_clip_min", "ratio_clip_max"),  # NeMo-RL
    ("clip_range", "clip_range"),
    ("clip_ratio", "clip_ratio"),  # verl
    ("cliprange", "cliprange"),  # TRL's PPO
    ("clip", "clip"),
)


def recorded_clip(settings: Mapping[str, Any]) -> dict[str, float] | None:
    """The clip range that a run's settings name, as numbers of RULES["ratio_clip"]; None without one.

    settings: the content of run-*.json; looked for in `thresholds`, then in `config`, then at the top.
    A missing upper range equals the lower one, as trainers have it.
    """
    parts = (settings.get("thresholds"), settings.get("config"), settings)
    for part, names in product(filter(None, map(as_fields, parts)), _CLIP_NAMES):
        low, high = map(part.get, names)
        if is_number(low):
            return {"ε low": float(low), "ε high": float(high if is_number(high) else low)}
    return None
