"""How many tokens a rule of core.masks stops, for every number that its thresholds can be turned to.

Counted once where the tokens are read; another choice of numbers is then a look into a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.kl import FloatArray
from board.core.masks import RULES, BoolArray, MaskRule, Threshold
from board.core.metrics import DERIVED
from board.core.step_tokens import StepTokens

_SIGNS: Final = 4
_POSITIVE, _NEGATIVE, _ZERO, _UNKNOWN = range(_SIGNS)
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
    """Of a rule, over the loss tokens of a step. counted: [signs] tokens with a value."""

    rule: str
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
    signs = _signs(advantages)
    of_sign = [tokens.in_loss & (signs == sign) for sign in range(_SIGNS)]
    found: list[RuleCounts] = []
    for rule in RULES.values():
        needs = DERIVED[rule.metric].needs
        if any(n not in tokens.arrays for n in needs) or (rule.by_sign and not has_advantages):
            continue
        values = tokens.metric(rule.metric)
        found.append(_counts(rule, values, of_sign, (own or {}).get(rule.name, {})))
    return found


def _counts(
    rule: MaskRule,
    values: FloatArray,
    of_sign: Sequence[BoolArray],
    own: Mapping[str, float],
) -> RuleCounts:
    ordered = [_ordered(values[own_sign]) for own_sign in of_sign]
    falling = frozenset((_NEGATIVE, _ZERO) if rule.at_zero == "low" else (_NEGATIVE,))
    rising, every = frozenset((_POSITIVE,)), frozenset(range(_SIGNS))
    return RuleCounts(
        rule.name,
        np.array([len(part) for part in ordered], np.int64),
        _beyond(rule.low, ordered, falling if rule.by_sign else every, own, below=True),
        _beyond(rule.high, ordered, rising if rule.by_sign else every, own, below=False),
    )


def _ordered(values: FloatArray) -> FloatArray:
    return np.sort(values[np.isfinite(values)])


def _signs(advantages: FloatArray) -> npt.NDArray[np.int8]:
    signs = np.full(len(advantages), _UNKNOWN, np.int8)
    signs[advantages > 0], signs[advantages < 0], signs[advantages == 0] = (
        _POSITIVE,
        _NEGATIVE,
        _ZERO,
    )
    return signs


def _beyond(
    threshold: Threshold | None,
    ordered: Sequence[FloatArray],
    stopped: frozenset[int],
    own: Mapping[str, float],
    *,
    below: bool,
) -> _Beyond | None:
    """Counts at every number; of signs that the rule does not stop, none. ordered: ascending values."""
    if threshold is None:
        return None
    numbers = numbers_of(threshold, own)
    bounds = np.array([threshold.bound(number) for number in numbers.tolist()])
    hits = np.zeros((_SIGNS, len(numbers)), np.uint32)
    for sign in stopped:
        values = ordered[sign]
        if below:
            hits[sign] = np.searchsorted(values, bounds, side="left")
        else:
            hits[sign] = len(values) - np.searchsorted(values, bounds, side="right")
    return _Beyond(numbers, hits, stopped)


def numbers_of(threshold: Threshold, own: Mapping[str, float]) -> FloatArray:
    """[K] the numbers a threshold can be turned to, ascending: its steps, and the run's own one."""
    count = round((threshold.highest - threshold.lowest) / threshold.step) + 1
    steps = [round(threshold.lowest + threshold.step * i, 6) for i in range(count)]
    return np.array(sorted({*steps, *([own[threshold.name]] if threshold.name in own else [])}))
