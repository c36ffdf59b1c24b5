"""The series of a run in which a change is looked for: one number of each step, of any kind."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.change_points import Change, changes
from board.core.metrics.definitions import (
    ROLLOUT_METRICS,
    Direction,
    rollout_metric,
)

Scope = Literal["", "env", "rank", "kind", "value"]

RATE: Final = 0.05
"""False alarms: in so many of runs in which nothing changes, any of their series is said to. Half of it
is spent on the means over all rollouts, which are few, and half on all others."""


@dataclass(frozen=True, slots=True)
class Series:
    """values: [S], NaN where a step has none. name: unique but for scope and value; column: of the
    rollouts, which a page can show; words: what it is. scope, value: the environment or rank that it is
    of, "" for all rollouts. better: the direction most runs want. is_input: of prompts, not of what the
    policy made of them. least: what changes by less is not told. is_learnt: it grows as training goes on.
    """

    name: str
    words: str
    values: FloatArray
    column: str = ""
    scope: Scope = ""
    value: str = ""
    better: Direction = "neither"
    is_input: bool = False
    least: float = 0.0
    is_learnt: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from all others."""
        return self.name, self.scope, self.value

    @property
    def is_share(self) -> bool:
        """Whether each value is a part of its step."""
        return self.words.startswith("share of")

    def even(self) -> FloatArray:
        """[S] values whose noise is as large at any level: of a share the arcsine of its root."""
        return np.arcsin(np.sqrt(np.clip(self.values, 0, 1))) if self.is_share else self.values

    def as_is(self, value: float) -> float:
        """What `even`, or Fisher's z of a correlation, was made of."""
        if self.words.startswith("correlation of"):
            return float(np.tanh(value))
        return float(np.sin(value) ** 2) if self.is_share else value


@dataclass(frozen=True, slots=True)
class Changes:
    """Series with the changes that were found in them."""

    series: Sequence[Series] = ()
    hits: Sequence[Change] = ()

    def with_others(self, others: Changes) -> Changes:
        """Both together."""
        moved = (replace(hit, series=hit.series + len(self.series)) for hit in others.hits)
        return Changes((*self.series, *others.series), (*self.hits, *moved))


def changes_of(series: Sequence[Series], rate: float = RATE, candidates: int = 0) -> Changes:
    """Where series change, those left out that are another one over again: the trainer's mean of the
    reward, or the reward of the only environment. candidates: of how many series these were chosen for
    how they change.
    """
    unique = without_copies(series)
    if not unique:
        return Changes()
    is_first = np.array([one.name == one.column and not one.scope for one in unique])
    count = int(is_first.sum())
    rest = max(len(unique) - count, candidates, 1)
    rates = np.where(is_first, rate / 2 / max(count, 1), rate / 2 / rest).astype(np.float64)
    may_grow = np.array([not one.is_learnt for one in unique])
    of_all = changes(np.stack([one.even() for one in unique]), rates, is_first, may_grow)
    hits = [_as_is(unique[hit.series], hit) for hit in of_all]
    return Changes(unique, [one for one in hits if _is_worth_telling(unique[one.series], one)])


def _as_is(series: Series, hit: Change) -> Change:
    if hit.kind == "spread":
        return hit
    return replace(hit, before=series.as_is(hit.before), after=series.as_is(hit.after))


_TIMES: Final = 2.0
_LEAST: Final = 0.2
"""Part of its level by which a series has to change that is no mean of all rollouts."""


def _is_worth_telling(series: Series, change: Change) -> bool:
    """Whether a change is more than a detail: a count that was 7.9 and is 8 is nothing. Slopes are told
    where they are no counter's, and where less is not what one hopes for: a policy that learns makes
    much less by and by.
    """
    moved = abs(change.after - change.before)
    if change.kind == "slope" and (
        _is_counter(series) or (change.after < change.before and series.better != "up")
    ):
        return False
    is_mean = series.name == series.column and not series.scope
    if change.kind == "spread":
        return max(change.before, change.after) >= _TIMES * min(change.before, change.after)
    if change.kind == "level" and is_mean:
        return True
    size = max(abs(change.before), abs(change.after))
    return moved >= max(_LEAST * size, series.least)


def _is_counter(series: Series) -> bool:
    """Whether it never falls: an epoch, tokens seen so far."""
    known = series.values[np.isfinite(series.values)]
    return bool((np.diff(known) >= 0).all())


def without_copies(series: Sequence[Series]) -> list[Series]:
    """The first of all series that have the same values up to rounding and a factor."""
    unique: dict[bytes, Series] = {}
    for one in series:
        known = one.values[np.isfinite(one.values)]
        if len(known) and (deviation := known.std()) > 0:
            alike: FloatArray = np.nan_to_num((one.values - known.mean()) / deviation, nan=99.0)
            unique.setdefault(alike.round(4).tobytes(), one)
        elif len(known):
            unique.setdefault(repr(one.key).encode(), one)
    return [*unique.values()]


_LEARNT: Final = re.compile(
    r"(?i)entropy|(?<![a-z])lr(?![a-z])|learning_rate|loss|grad|reward|score|acc|correct|advantage|length"
    r"|tokens|logprob|weights|step"
)
"""Names of numbers that grow where all is well."""


_KL: Final = re.compile(r"(?i)(?<![a-z])(?:kl|k[123])(?![a-z])")
_LEAST_KL: Final = 0.05
"""Nats: a policy that learns leaves its reference, by less."""


def least_growth(name: str) -> float:
    """By how much a number has to grow to be told."""
    return _LEAST_KL if _KL.search(name) else 0.0


def is_learnt(name: str) -> bool:
    """Whether a number grows or sinks as training goes on."""
    return not _KL.search(name) and (name in ROLLOUT_METRICS or bool(_LEARNT.search(name)))


def metric_series(
    column: str,
    values: FloatArray,
    scope: Scope = "",
    value: str = "",
    *,
    is_input: bool = False,
) -> Series:
    """The means of a column of the rollouts."""
    metric = rollout_metric(column)
    least, learnt = least_growth(column), is_learnt(column)
    return Series(
        column, metric.label, values, column, scope, value, metric.better, is_input, least, learnt
    )


def share_series(
    kind: str, words: str, shares: Mapping[str, FloatArray], *, is_input: bool
) -> list[Series]:
    """Shares of the rollouts that have each value of a column. words: with a place for the value."""
    return [
        Series(f"{kind}={name}", words.format(name), values, is_input=is_input)
        for name, values in shares.items()
    ]
