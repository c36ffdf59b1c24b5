"""How many tokens a rule of masks.py stops, for every number that its thresholds can be turned to.

Counted once where the tokens are read; another choice of numbers is then a look into a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.tokens.masks import RULES, MaskRule, Side, Threshold
from board.core.tokens.step_tokens import StepTokens

_POSITIVE, _NEGATIVE, _ZERO, _UNKNOWN = _SIGNS = range(4)
"""Signs of an advantage."""
Numbers = Mapping[str, Mapping[str, float]]
"""Thresholds by rule, then by their names."""


class SignShares(NamedTuple):
    """Of the tokens whose advantage has one sign, those beyond either bound, the lower, the upper."""

    hit: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class RuleShares:
    """How many of the loss tokens a rule of core.masks stops. Shares of the tokens with a value.

    low, high: beyond the rule's lower and upper bound, of all these tokens. positive, negative: of the
    tokens with such an advantage, those beyond each bound; NaN where there is no such token or advantages
    are not known, and where the rule stops none of that sign at that bound (of PPO's clip, say, those
    with A > 0 below the lower one).
    """

    rule: str
    tokens: int
    hit: float
    low: float
    high: float
    positive: SignShares
    negative: SignShares


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Of a rule, over the loss tokens of a step. metric: what was compared; counted: [signs] tokens with
    a value of it. beyond: by bound that the rule has, the numbers [K] ascending, and for each of them the
    tokens beyond the bound, [signs, K], NaN for signs that the rule does not stop there.
    """

    rule: str
    metric: str
    counted: IntArray
    beyond: Mapping[Side, tuple[FloatArray, FloatArray]]

    def shares(self, chosen: Mapping[str, float]) -> RuleShares:
        """What these numbers stop; the rule's own where one is left out."""
        low, high = self._hits("low", chosen), self._hits("high", chosen)
        whole, positive, negative = (
            _shares(low[signs], high[signs], int(self.counted[signs].sum()))
            for signs in ([*_SIGNS], [_POSITIVE], [_NEGATIVE])
        )
        return RuleShares(self.rule, int(self.counted.sum()), *whole, positive, negative)

    def _hits(self, side: Side, chosen: Mapping[str, float]) -> FloatArray:
        """[signs] tokens beyond a bound, at the number of the table that is nearest; NaN: not stopped."""
        if side not in self.beyond:
            return np.full(len(_SIGNS), np.nan)
        threshold, (numbers, hits) = RULES[self.rule].thresholds[side], self.beyond[side]
        number = chosen.get(threshold.name, threshold.default)
        return hits[:, np.abs(numbers - number).argmin()]


def _shares(low: FloatArray, high: FloatArray, total: int) -> SignShares:
    if not total:
        return SignShares(np.nan, np.nan, np.nan)
    hit = float(np.nansum(low) + np.nansum(high)) / total
    sides = (np.nan if np.isnan(part).all() else np.nansum(part) / total for part in (low, high))
    return SignShares(hit, *map(float, sides))


def count_rules(tokens: StepTokens, own: Numbers | None = None) -> list[RuleCounts]:
    """Counts of every rule whose metric is there. own: numbers to count for beside those of the steps
    of each threshold, such as the run's own.

    Advantages are per token where recorded, else the rollout's; rules that go by their sign are left
    out without any.
    """
    advantages = tokens.arrays.get("advantages", tokens.per_token("advantage"))
    signs = (advantages > 0, advantages < 0, advantages == 0, np.isnan(advantages))
    ordered: dict[str, list[FloatArray]] = {}
    rule_counts: list[RuleCounts] = []
    for rule in RULES.values():
        metric = rule.compared(tokens.metric_names)
        if metric is None or (rule.by_sign and not np.isfinite(advantages).any()):
            continue
        if metric not in ordered:
            values = tokens.metric(metric)
            counts = tokens.in_loss & np.isfinite(values)
            ordered[metric] = [np.sort(values[counts & sign]) for sign in signs]
        beyond: dict[Side, tuple[FloatArray, FloatArray]] = {}
        for side, threshold in rule.thresholds.items():
            numbers = numbers_of(threshold, (own or {}).get(rule.name, {}))
            beyond[side] = numbers, _beyond(rule, side, numbers, ordered[metric])
        counted = np.array([len(values) for values in ordered[metric]], np.int64)
        rule_counts.append(RuleCounts(rule.name, metric, counted, beyond))
    return rule_counts


def _beyond(
    rule: MaskRule, side: Side, numbers: FloatArray, ordered: Sequence[FloatArray]
) -> FloatArray:
    """[signs, numbers] as of RuleCounts. ordered: values ascending, by sign of the advantage."""
    threshold = rule.thresholds[side]
    bounds = threshold.offset + threshold.factor * numbers
    falling = (_NEGATIVE, _ZERO) if rule.at_zero == "low" else (_NEGATIVE,)
    stopped = (falling if side == "low" else (_POSITIVE,)) if rule.by_sign else _SIGNS
    hits = np.full((len(_SIGNS), len(numbers)), np.nan)
    for sign in stopped:
        values = ordered[sign]
        if side == "low":
            hits[sign] = np.searchsorted(values, bounds, "left")
        else:
            hits[sign] = len(values) - np.searchsorted(values, bounds, "right")
    return hits


def numbers_of(threshold: Threshold, own: Mapping[str, float]) -> FloatArray:
    """[K] the numbers a threshold can be turned to, ascending: its steps, and the run's own one."""
    count = round((threshold.highest - threshold.lowest) / threshold.step) + 1
    steps = [round(threshold.lowest + threshold.step * i, 6) for i in range(count)]
    return np.array(sorted({*steps, *([own[threshold.name]] if threshold.name in own else [])}))
