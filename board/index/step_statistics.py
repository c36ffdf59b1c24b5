"""The per-step table: how each metric is distributed over the rollouts of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from board.core.metrics.definitions import ROLLOUT_METRICS
from board.core.records import FloatArray
from board.index.reading.file_steps import IntArray

if TYPE_CHECKING:
    import pandas as pd

QUANTILES: Final[dict[str, float]] = {
    "q00": 0.0,
    "q05": 0.05,
    "q25": 0.25,
    "q50": 0.5,
    "q75": 0.75,
    "q95": 0.95,
    "q100": 1.0,
}
"""Suffix -> quantile over the rollouts of a step; q00 is the smallest value and q100 the largest."""

_MOST_WASTE: Final = 4
"""Times as many places as values at most, where steps are sorted as rows of one table."""


def base_name(column: str) -> str:
    """The stem of a metric's columns in the step table: k3_mean -> k3, reward -> reward.

    Only the board's own means lose their ending: a framework's reward_mean is no reward.
    """
    return column.removesuffix("_mean") if column in ROLLOUT_METRICS else column


def steps_table(rollouts: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """One row per step in ascending order.

    Columns: step, rollouts; for each metric with stem m: m_mean, m_std (n - 1 in the denominator,
    missing for one rollout), m_n (rollouts that have a value) and m_q00 ... m_q100; then groups,
    groups_compared (those of 2 scores or more), zero_std_group_fraction, the share of these whose rewards
    are equal (all three only where group_id is recorded), and ranks. NaN is not recorded.
    """
    import pandas as pd  # not above: what reads batches needs names of this file, and no frames

    steps, of_row = _steps_of(rollouts["step"].to_numpy(np.int64))
    layout = _Layout.of(of_row, len(steps))
    columns: dict[str, Any] = {"step": steps, "rollouts": layout.sizes}
    for name in metrics if len(steps) else ():
        values = rollouts[name].to_numpy(np.float64, na_value=np.nan)
        columns |= _statistics(base_name(name), layout.ascending(values), layout)
    if "rank" in rollouts:
        ranks, names = pd.factorize(rollouts["rank"])
        columns["ranks"] = _different(of_row, ranks, len(steps), len(names))
    if "group_id" in rollouts and "reward" in rollouts:
        from board.index.group_ids import group_codes  # as pandas above

        groups = group_codes(rollouts)
        rewards = rollouts["reward"].to_numpy(np.float64, na_value=np.nan)
        columns |= _groups(of_row, groups, rewards, len(steps))
    return pd.DataFrame(columns)


def _steps_of(step_of: IntArray) -> tuple[IntArray, IntArray]:
    """([S] steps, ascending; [n] the place of each row's among them)."""
    changes = np.diff(step_of, prepend=step_of[:1] - 1)
    if (changes < 0).any():
        steps, of_row = np.unique(step_of, return_inverse=True)
        return steps, of_row.astype(np.int64)
    # In order they need not be sorted, which takes a hundred times as long.
    return step_of[changes > 0], np.cumsum(changes > 0) - 1


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the rollouts of each step lie. order: [n] rows by step, None where they are; sizes, starts:
    [S] of each step among these.
    """

    order: IntArray | None
    sizes: IntArray
    starts: IntArray

    @classmethod
    def of(cls, of_row: IntArray, count: int) -> Self:
        """of_row: [n] the step of each row, below count."""
        sizes = np.bincount(of_row, minlength=count).astype(np.int64)
        starts = np.append(0, np.cumsum(sizes)[:-1])[:count]
        is_ordered = not (np.diff(of_row) < 0).any()
        return cls(None if is_ordered else np.argsort(of_row, kind="stable"), sizes, starts)

    def ascending(self, values: FloatArray) -> FloatArray:
        """The values of each step in ascending order, NaN last, one step after the other."""
        ordered = values if self.order is None else values[self.order]
        widest = int(self.sizes.max(initial=0))
        if widest * len(self.sizes) > _MOST_WASTE * len(values):
            return ordered[np.lexsort((ordered, np.repeat(np.arange(len(self.sizes)), self.sizes)))]
        # Steps of about one size are sorted as rows of a table, in a tenth of the time.
        table = np.full((len(self.sizes), widest), np.nan)
        held = np.arange(widest) < self.sizes[:, None]
        table[held] = ordered
        table.sort(axis=1)
        return table[held]


def _statistics(stem: str, ordered: FloatArray, layout: _Layout) -> dict[str, Any]:
    """Mean, spread, count and quantiles by step. ordered: [n] values, ascending in each step.

    Quantiles are by linear interpolation, as numpy's default, over the recorded values of a step.
    """
    starts = layout.starts
    recorded = ~np.isnan(ordered)
    counts = np.add.reduceat(recorded, starts, dtype=np.int64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        means = np.add.reduceat(np.where(recorded, ordered, 0.0), starts) / counts
        # In place: of a step of very many rollouts each further array counts.
        apart = np.repeat(means, layout.sizes)
        np.subtract(ordered, apart, out=apart)
        apart[~recorded] = 0.0
        np.square(apart, out=apart)
        spread = np.sqrt(np.add.reduceat(apart, starts) / np.where(counts > 1, counts - 1, np.nan))
        del apart
    found = {f"{stem}_mean": means, f"{stem}_std": spread, f"{stem}_n": counts}
    return found | _quantiles(stem, ordered, starts, counts)


def _quantiles(
    stem: str, ordered: FloatArray, starts: IntArray, counts: IntArray
) -> dict[str, Any]:
    """ordered: [n] values, ascending in each step. starts, counts: [S] of those recorded."""
    found: dict[str, Any] = {}
    for suffix, q in QUANTILES.items():
        place = q * np.maximum(counts - 1, 0)
        low = np.floor(place).astype(np.int64)
        high = np.minimum(low + 1, np.maximum(counts - 1, 0))
        below, above = ordered[starts + low], ordered[starts + high]
        found[f"{stem}_{suffix}"] = below + (above - below) * (place - low)
    return found


def _different(of_row: IntArray, codes: IntArray, steps: int, names: int) -> IntArray:
    """[steps] how many different codes each has. codes: [n] below names, -1 for none."""
    known = codes >= 0
    pairs = np.unique(of_row[known] * max(names, 1) + codes[known])
    return np.bincount(pairs // max(names, 1), minlength=steps).astype(np.int64)


def _groups(of_row: IntArray, codes: IntArray, rewards: FloatArray, steps: int) -> dict[str, Any]:
    """Groups per step, and the share of those with 2 or more scores whose rewards are all equal.

    codes: [n] of groups, -1 for none. A step without a group has neither, one without a group of 2
    scores no share.
    """
    member = np.flatnonzero(codes >= 0)
    order = member[np.lexsort((codes[member], of_row[member]))]
    of_step, code, values = of_row[order], codes[order], rewards[order]
    starts = np.flatnonzero(np.append(True, (np.diff(of_step) != 0) | (np.diff(code) != 0)))
    if not len(order):
        none = np.zeros(steps, np.int64)
        return columns_of_groups(none, none, none)
    compared = np.add.reduceat(~np.isnan(values), starts, dtype=np.int64) >= 2
    equal = np.fmin.reduceat(values, starts) == np.fmax.reduceat(values, starts)
    step = of_step[starts]
    groups = np.bincount(step, minlength=steps)
    told = np.bincount(step[compared], minlength=steps)
    zero = np.bincount(step[compared & equal], minlength=steps)
    return columns_of_groups(groups, told, zero)


def columns_of_groups(groups: IntArray, told: IntArray, zero: IntArray) -> dict[str, Any]:
    """The columns of groups in the steps_table. [S] each: groups, those of 2 scores or more, and those
    of these whose rewards are equal.
    """
    held = groups if groups.all() else np.where(groups > 0, groups, np.nan)
    with np.errstate(invalid="ignore"):
        share = zero / np.where(told > 0, told, np.nan)
    return {"groups": held, "groups_compared": told, "zero_std_group_fraction": share}
