"""The same prompt over the steps of a training: never solved, newly solved, lost again, volatile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from board.core.group_sums import GroupSums, judged_by_part, judged_by_reward
from board.core.groups import IntArray
from board.core.kl import FloatArray

BoolArray = npt.NDArray[np.bool_]
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Visits:
    """Every time a prompt was tried, ordered by prompt and then by step; arrays [visits].

    prompts: its code. steps: when. rewards: mean over its rollouts of that step; solve_rate: share
    that is right. NaN where nothing is scored or judged. rollouts: how many.
    """

    prompts: IntArray
    steps: IntArray
    rewards: FloatArray
    solve_rate: FloatArray
    rollouts: IntArray

    def of(self, prompt: int) -> slice:
        """Where the visits of a prompt stand."""
        return slice(
            int(np.searchsorted(self.prompts, prompt)),
            int(np.searchsorted(self.prompts, prompt, side="right")),
        )


@dataclass(frozen=True, slots=True)
class Prompts:
    """One entry per prompt; arrays [prompts]. visits: steps with a judged rollout.

    never_solved: two visits or more, nothing right in any. newly_solved: nothing right at the first
    visit, something at the last. lost_again: nothing right at the last visit, something before.
    volatility: standard deviation (n - 1) of the mean rewards of its visits, NaN for one visit.
    """

    codes: IntArray
    visits: IntArray
    first: FloatArray
    last: FloatArray
    best: FloatArray
    never_solved: BoolArray
    newly_solved: BoolArray
    lost_again: BoolArray
    volatility: FloatArray


def visits_of(sums: GroupSums, part: str | None, ends: tuple[float, float]) -> Visits:
    """The visits of prompts, in the order of the sums, all of which are of prompts.

    part: name of the score that says what is right; None: by the reward. ends: the lowest and the
    highest of it in the whole run, NaN without one.
    """
    if part is None:
        judged, right = judged_by_reward(sums.reward, *ends)
    else:
        judged, right = judged_by_part(sums.parts[part], *ends)
    means, rates = np.full((2, len(sums.codes)), np.nan)
    np.divide(sums.total, sums.reward.known, out=means, where=sums.reward.known > 0)
    np.divide(right, judged, out=rates, where=judged > 0)
    return Visits(sums.codes, sums.steps, means, rates, sums.size)


def prompts_of(visits: Visits) -> Prompts:
    """What became of each prompt. Solve rates of its first, its last and its best visit."""
    known = np.flatnonzero(np.isfinite(visits.solve_rate))
    of_prompt, rates = visits.prompts[known], visits.solve_rate[known]
    if not len(known):
        none, empty = np.zeros(0, np.int64), np.zeros(0)
        never = np.zeros(0, bool)
        return Prompts(none, none, empty, empty, empty, never, never, never, empty)
    starts = np.flatnonzero(np.concatenate(([True], np.diff(of_prompt) != 0)))
    counts = np.diff(np.append(starts, len(known)))
    first, last = rates[starts], rates[starts + counts - 1]
    best = np.maximum.reduceat(rates, starts)
    several = counts > 1
    means = np.add.reduceat(visits.rewards[known], starts) / counts
    squares = (visits.rewards[known] - np.repeat(means, counts)) ** 2
    spread = np.sqrt(np.add.reduceat(squares, starts) / np.where(several, counts - 1, np.nan))
    # Equal means of rewards that were summed in another order differ in their last bits.
    spread[spread < _ROUNDING * np.abs(means)] = 0.0
    return Prompts(
        of_prompt[starts],
        counts,
        first,
        last,
        best,
        several & (best == 0),
        several & (first == 0) & (last > 0),
        several & (last == 0) & (best > 0),
        spread,
    )
