"""How many tokens a rule of core.masks stops, for every number that its thresholds can be turned to.

Counted once where the tokens are read; another choice of numbers is then a look into a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from board.core.metrics.definitions import DERIVED, RATIOS
from board.core.metrics.kl import FloatArray
from board.core.tokens.masks import RULES, MaskRule, Side, Threshold
from board.core.tokens.step_tokens import IntArray, StepTokens

_POSITIVE, _NEGATIVE, _ZERO, _UNKNOWN = _SIGNS = range(4)
"""Signs of an advantage."""
_NOT_STOPPED: Final = -1
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
    tokens beyond the bound, [signs, K], _NOT_STOPPED for signs that the rule does not stop there.
    """

    rule: str
    metric: str
    counted: IntArray
    beyond: Mapping[Side, tuple[FloatArray, npt.NDArray[np.int32]]]

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
        threshold = getattr(RULES[self.rule], side)
        if threshold is None:
            return np.full(len(_SIGNS), np.nan)
        numbers, hits = self.beyond[side]
        number = chosen.get(threshold.name, threshold.default)
        nearest = hits[:, np.abs(numbers - number).argmin()]
        return np.where(nearest == _NOT_STOPPED, np.nan, nearest)


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
    places = [np.flatnonzero(sign & tokens.in_loss) for sign in signs]
    values: dict[str, list[FloatArray]] = {}
    rule_counts: list[RuleCounts] = []
    for rule in RULES.values():
        metric = rule.compared(tokens.metric_names)
        if metric is None or (rule.by_sign and not np.isfinite(advantages).any()):
            continue
        if metric not in values:
            compared = _compared(tokens, metric)
            by_sign = [compared[place] for place in places]
            values[metric] = [part[np.isfinite(part)] for part in by_sign]
        counted = np.array([len(part) for part in values[metric]], np.int64)
        thresholds: dict[Side, Threshold | None] = {"low": rule.low, "high": rule.high}
        numbers = (own or {}).get(rule.name, {})
        beyond: dict[Side, tuple[FloatArray, npt.NDArray[np.int32]]] = {
            side: _beyond(rule, side, threshold, metric, values[metric], numbers)
            for side, threshold in thresholds.items()
            if threshold is not None
        }
        rule_counts.append(RuleCounts(rule.name, metric, counted, beyond))
    return rule_counts


def _compared(tokens: StepTokens, metric: str) -> FloatArray:
    """[T] what is compared with bounds: of a ratio its logarithm, which has the same order."""
    d = tokens.log_ratio(*DERIVED[metric].needs) if metric in RATIOS else None
    return tokens.metric(metric) if d is None else d


def _beyond(
    rule: MaskRule,
    side: Side,
    threshold: Threshold,
    metric: str,
    of_sign: Sequence[FloatArray],
    own: Mapping[str, float],
) -> tuple[FloatArray, npt.NDArray[np.int32]]:
    """The numbers of a threshold, and the tokens beyond the bound at each. of_sign: values of
    `_compared` by sign of the advantage.
    """
    numbers = numbers_of(threshold, own)
    bounds = np.array([threshold.bound(number) for number in numbers.tolist()])
    if metric in RATIOS:
        with np.errstate(divide="ignore"):  # no ratio is below 0
            bounds = np.log(bounds)
    falling = (_NEGATIVE, _ZERO) if rule.at_zero == "low" else (_NEGATIVE,)
    stopped = (falling if side == "low" else (_POSITIVE,)) if rule.by_sign else _SIGNS
    hits = np.full((len(_SIGNS), len(numbers)), _NOT_STOPPED, np.int32)
    factor = -1 if side == "low" else 1
    for sign in stopped:
        hits[sign] = _count_above(factor * of_sign[sign], factor * bounds)
    return numbers, hits


def _count_above(values: FloatArray, bounds: FloatArray) -> IntArray:
    """How many values are above each of the bounds. Most are beyond the first bound alone, if at all:
    only the others need an order.
    """
    first, second = np.unique(bounds)[:2]
    far = np.sort(values[values > second])
    hits = len(far) - np.searchsorted(far, bounds, side="right")
    hits[bounds == first] = np.count_nonzero(values > first)
    return hits


def numbers_of(threshold: Threshold, own: Mapping[str, float]) -> FloatArray:
    """[K] the numbers a threshold can be turned to, ascending: its steps, and the run's own one."""
    count = round((threshold.highest - threshold.lowest) / threshold.step) + 1
    steps = [round(threshold.lowest + threshold.step * i, 6) for i in range(count)]
    return np.array(sorted({*steps, *([own[threshold.name]] if threshold.name in own else [])}))
