"""The series of a run in which a change is looked for: one number of each step, of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.findings.digest import Digest
from board.core.metrics.change_points import Change, changes
from board.core.metrics.definitions import Direction, rollout_metric

Scope = Literal["", "env", "rank"]

RATE: Final = 0.05
"""False alarms: in so many of runs in which nothing changes, any of their series is said to. Half of it
is spent on the means over all rollouts, which are few, and half on all others."""


@dataclass(frozen=True, slots=True)
class Series:
    """values: [S], NaN where a step has none. name: unique but for scope and value; column: of the
    rollouts, which a page can show; words: what it is. scope, value: the environment or rank that it is
    of, "" for all rollouts. better: the direction most runs want. is_input: of prompts, not of what the
    policy made of them.
    """

    name: str
    words: str
    values: FloatArray
    column: str = ""
    scope: Scope = ""
    value: str = ""
    better: Direction = "neither"
    is_input: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from all others."""
        return self.name, self.scope, self.value


@dataclass(frozen=True, slots=True)
class Changes:
    """Series with the changes that were found in them."""

    series: Sequence[Series] = ()
    hits: Sequence[Change] = ()


def changes_of(series: Sequence[Series], rate: float = RATE) -> Changes:
    """Where series change, those left out that are another one over again: the trainer's mean of the
    reward, or the reward of the only environment.
    """
    unique = without_copies(series)
    if not unique:
        return Changes()
    is_first = np.array([one.name == one.column and not one.scope for one in unique])
    count = int(is_first.sum())
    rates = np.where(
        is_first, rate / 2 / max(count, 1), rate / 2 / max(len(unique) - count, 1)
    ).astype(np.float64)
    hits = changes(np.stack([one.values for one in unique]), rates, is_first)
    return Changes(unique, [one for one in hits if _is_worth_telling(unique[one.series], one)])


_LEAST: Final = 0.2
"""Part of its level by which a series has to change that is no mean of all rollouts."""


def _is_worth_telling(series: Series, change: Change) -> bool:
    """Whether a change is more than a detail: a count that was 7.9 and is 8 is nothing."""
    if series.name == series.column and not series.scope:
        return True
    size = max(abs(change.before), abs(change.after))
    return change.kind == "spread" or abs(change.after - change.before) >= _LEAST * size


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
    return Series(column, metric.label, values, column, scope, value, metric.better, is_input)


def digest_series(steps: IntArray, digests: Sequence[Digest]) -> list[Series]:
    """What was read of tokens: kinds of tokens, and how far sampler and trainer are apart."""
    if not digests:
        return []
    of = np.searchsorted(steps, [digest.step for digest in digests])

    def placed(numbers: Sequence[float]) -> FloatArray:
        values = np.full(len(steps), np.nan)
        values[of] = numbers
        return values

    kinds = dict.fromkeys(kind for digest in digests for kind in digest.kind_shares)
    unit = digests[0].unit
    series = [
        Series(
            f"kind:{k}",
            f"share of {k} {unit}",
            placed([d.kind_shares.get(k, 0.0) for d in digests]),
        )
        for k in kinds
    ]
    apart = [d.engine.multiplicative - 1 if d.engine else np.nan for d in digests]
    words = "mean exp|d| - 1 of sampler and trainer"
    series.append(Series("engine", words, placed(apart), "mismatch_kl_mean", better="down"))
    return series


def share_series(
    kind: str, words: str, shares: Mapping[str, FloatArray], *, is_input: bool
) -> list[Series]:
    """Shares of the rollouts that have each value of a column. words: with a place for the value."""
    return [
        Series(f"{kind}={name}", words.format(name), values, is_input=is_input)
        for name, values in shares.items()
    ]
