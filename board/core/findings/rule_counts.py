"""How many tokens a rule of core.masks stops, for every number that its thresholds can be turned to.

Counted once where the tokens are read; another choice of numbers is then a look into a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.metrics.definitions import DERIVED, RATIOS
from board.core.metrics.kl import FloatArray
from board.core.tokens.masks import RULES, MaskRule, Threshold
from board.core.tokens.step_tokens import StepTokens

_SIGNS: Final = 4
_POSITIVE, _NEGATIVE, _ZERO, _UNKNOWN = range(_SIGNS)
_OUTSIDE: Final = np.int8(_SIGNS)
"""Of tokens that are not in the loss."""
Numbers = Mapping[str, Mapping[str, float]]
"""Thresholds by rule, then by their names."""


@dataclass(frozen=True, slots=True)
class SignShares:
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
class _Beyond:
    """Tokens beyond a bound. numbers: [K] ascending; hits: [signs of the advantage, K]; stopped: signs
    that the rule stops there, the hits of others being 0.
    """

    numbers: FloatArray
    hits: npt.NDArray[np.uint32]
    stopped: frozenset[int]

    def at(self, number: float) -> npt.NDArray[np.int64]:
        """[signs] for the number of the table that is nearest."""
        return self.hits[:, int(np.abs(self.numbers - number).argmin())].astype(np.int64)


@dataclass(frozen=True, slots=True)
class RuleCounts:
    """Of a rule, over the loss tokens of a step. metric: what was compared; counted: [signs] tokens with
    a value of it.
    """

    rule: str
    metric: str
    counted: npt.NDArray[np.int64]
    low: _Beyond | None
    high: _Beyond | None

    def shares(self, chosen: Mapping[str, float]) -> RuleShares:
        """What these numbers stop; the rule's own where one is left out."""
        rule = RULES[self.rule]
        low, high = _hits(self.low, rule.low, chosen), _hits(self.high, rule.high, chosen)
        total = int(self.counted.sum())
        nan = float("nan")
        return RuleShares(
            self.rule,
            total,
            _share((low + high).sum(), total),
            nan if self.low is None else _share(low.sum(), total),
            nan if self.high is None else _share(high.sum(), total),
            self._of_sign(_POSITIVE, low, high),
            self._of_sign(_NEGATIVE, low, high),
        )

    def _of_sign(
        self, sign: int, low: npt.NDArray[np.int64], high: npt.NDArray[np.int64]
    ) -> SignShares:
        total, nan = int(self.counted[sign]), float("nan")
        return SignShares(
            _share(low[sign] + high[sign], total),
            _share(low[sign], total) if self.low is not None and sign in self.low.stopped else nan,
            _share(high[sign], total)
            if self.high is not None and sign in self.high.stopped
            else nan,
        )


def _hits(
    beyond: _Beyond | None, threshold: Threshold | None, chosen: Mapping[str, float]
) -> npt.NDArray[np.int64]:
    if beyond is None or threshold is None:
        return np.zeros(_SIGNS, np.int64)
    return beyond.at(chosen.get(threshold.name, threshold.default))


def _share(hits: int, among: int) -> float:
    return float(hits / among) if among else float("nan")


def count_rules(tokens: StepTokens, own: Numbers | None = None) -> list[RuleCounts]:
    """Counts of every rule whose metric is there. own: numbers to count for beside those of the steps
    of each threshold, such as the run's own.

    Advantages are per token where recorded, else the rollout's; rules that go by their sign are left
    out without any.
    """
    advantages = tokens.arrays.get("advantages", tokens.per_token("advantage"))
    has_advantages = bool(np.isfinite(advantages).any())
    signs = np.where(tokens.in_loss, _signs(advantages), _OUTSIDE)
    places = [np.flatnonzero(signs == sign) for sign in range(_SIGNS)]
    values: dict[str, list[FloatArray]] = {}
    rule_counts: list[RuleCounts] = []
    for rule in RULES.values():
        metric = rule.compared(tokens.metric_names)
        if metric is None or (rule.by_sign and not has_advantages):
            continue
        if metric not in values:
            compared = _compared(tokens, metric)
            values[metric] = [_finite(compared[place]) for place in places]
        rule_counts.append(_counts(rule, metric, values[metric], (own or {}).get(rule.name, {})))
    return rule_counts


def _compared(tokens: StepTokens, metric: str) -> FloatArray:
    """[T] what is compared with bounds: of a ratio its logarithm, which has the same order."""
    d = tokens.log_ratio(*DERIVED[metric].needs) if metric in RATIOS else None
    return tokens.metric(metric) if d is None else d


def _finite(values: FloatArray) -> FloatArray:
    finite = np.isfinite(values)
    return values if finite.all() else values[finite]


def _counts(
    rule: MaskRule, metric: str, of_sign: Sequence[FloatArray], own: Mapping[str, float]
) -> RuleCounts:
    """of_sign: the values of `_compared` by sign of the advantage."""
    falling = frozenset((_NEGATIVE, _ZERO) if rule.at_zero == "low" else (_NEGATIVE,))
    rising, every = frozenset((_POSITIVE,)), frozenset(range(_SIGNS))
    low, high = (_numbers_and_bounds(one, metric, own) for one in (rule.low, rule.high))
    return RuleCounts(
        rule.name,
        metric,
        np.array([len(part) for part in of_sign], np.int64),
        low and _beyond(*low, of_sign, falling if rule.by_sign else every, below=True),
        high and _beyond(*high, of_sign, rising if rule.by_sign else every, below=False),
    )


def _numbers_and_bounds(
    threshold: Threshold | None, metric: str, own: Mapping[str, float]
) -> tuple[FloatArray, FloatArray] | None:
    if threshold is None:
        return None
    numbers = numbers_of(threshold, own)
    bounds = np.array([threshold.bound(number) for number in numbers.tolist()])
    if metric not in RATIOS:
        return numbers, bounds
    with np.errstate(divide="ignore"):  # no ratio is below 0
        return numbers, np.log(bounds)


def _signs(advantages: FloatArray) -> npt.NDArray[np.int8]:
    signs = np.full(len(advantages), _UNKNOWN, np.int8)
    signs[advantages > 0], signs[advantages < 0], signs[advantages == 0] = (
        _POSITIVE,
        _NEGATIVE,
        _ZERO,
    )
    return signs


def _beyond(
    numbers: FloatArray,
    bounds: FloatArray,
    of_sign: Sequence[FloatArray],
    stopped: frozenset[int],
    *,
    below: bool,
) -> _Beyond:
    """Counts at every number; of signs that the rule does not stop, none."""
    hits = np.zeros((_SIGNS, len(numbers)), np.uint32)
    for sign in stopped:
        values = of_sign[sign]
        hits[sign] = _above(-values, -bounds) if below else _above(values, bounds)
    return _Beyond(numbers, hits, stopped)


def _above(values: FloatArray, bounds: FloatArray) -> npt.NDArray[np.int64]:
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
