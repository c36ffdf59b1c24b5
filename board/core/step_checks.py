"""What rules ask of a run's rollouts, step by step, so that a run is looked over without reading them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from board.core.advantages import FitCounts, fit_counts
from board.core.groups import Groups, IntArray, groups_of
from board.core.kl import FloatArray


@dataclass(frozen=True, slots=True)
class StepChecks:
    """Arrays [S], ascending by step; NaN and 0 where a step has nothing of it.

    rollouts: of the step. scored: those with a finite reward; lowest, highest: of these. clock: the
    latest timestamp; started: the first one; earliest: index of the rollout of that, -1 for none. pairs:
    grouped rollouts of which reward and length are known; xx, yy, xy: sums of squares and products of
    what is left of reward (x) and length (y) after their group's means. fit: of the steps' advantages,
    None where none is recorded. rank_steps, ranks: (step, rank) of every rank that has a rollout at a
    step; rank_last: index of its last one.
    """

    steps: IntArray
    rollouts: IntArray
    scored: IntArray
    lowest: FloatArray
    highest: FloatArray
    clock: FloatArray
    started: FloatArray
    earliest: IntArray
    pairs: IntArray
    xx: FloatArray
    yy: FloatArray
    xy: FloatArray
    fit: FitCounts | None = None
    rank_steps: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    ranks: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    rank_last: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))


def step_checks(
    step_of: IntArray,
    columns: Mapping[str, FloatArray],
    groups: IntArray,
    spread: FloatArray | None = None,
) -> StepChecks:
    """Of all rollouts of some steps, in their order. step_of: [n] ascending. columns: [n] each, NaN
    where not recorded, of them reward, advantage, response_tokens, timestamp and rank. groups: [n]
    codes, below 0 for none. spread: as advantages.by_convention takes it.
    """
    steps, starts, counts = np.unique(step_of, return_index=True, return_counts=True)
    none = np.full(len(step_of), np.nan)
    reward = columns.get("reward", none)
    finite = np.isfinite(reward)
    scored = _sums(finite, starts).astype(np.int64)
    grouped = groups_of(step_of, groups, reward, none)
    together = _together(grouped, reward, columns.get("response_tokens", none), starts)
    recorded = columns.get("advantage")
    fit = None if recorded is None else fit_counts(reward, recorded, grouped, spread)
    clock = columns.get("timestamp", none)
    return StepChecks(
        steps,
        counts,
        scored,
        _reduced(np.fmin, np.where(finite, reward, np.nan), starts),
        _reduced(np.fmax, np.where(finite, reward, np.nan), starts),
        _reduced(np.fmax, clock, starts),
        _reduced(np.fmin, clock, starts),
        _earliest(clock, starts, counts),
        together[0].astype(np.int64),
        *together[1:],
        fit,
        *_presence(step_of, columns.get("rank", none), starts),
    )


def _sums(values: np.ndarray, starts: IntArray) -> FloatArray:
    return np.add.reduceat(values, starts, dtype=np.float64) if len(starts) else np.zeros(0)


def _reduced(ufunc: np.ufunc, values: FloatArray, starts: IntArray) -> FloatArray:
    return ufunc.reduceat(values, starts) if len(starts) else np.zeros(0)


def _together(
    groups: Groups, rewards: FloatArray, lengths: FloatArray, starts: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    keep, x, y = less_means(groups, rewards, lengths)
    return _sums(keep, starts), _sums(x * x, starts), _sums(y * y, starts), _sums(x * y, starts)


def less_means(
    groups: Groups, rewards: FloatArray, lengths: FloatArray
) -> tuple[npt.NDArray[np.bool_], FloatArray, FloatArray]:
    """([n] grouped rollouts of which both are known, and what is left of [n] reward and [n] length after
    their group's means, 0 for the others).
    """
    keep = (groups.of_row >= 0) & np.isfinite(rewards) & np.isfinite(lengths)
    of, count = groups.of_row[keep], len(groups.steps)
    n = np.maximum(np.bincount(of, minlength=count), 1)
    x, y = np.zeros(len(keep)), np.zeros(len(keep))
    for apart, values in ((x, rewards[keep]), (y, lengths[keep])):
        apart[keep] = values - (np.bincount(of, weights=values, minlength=count) / n)[of]
    return keep, x, y


def _earliest(clock: FloatArray, starts: IntArray, counts: IntArray) -> IntArray:
    lows = np.repeat(_reduced(np.fmin, clock, starts), counts)
    at_low = np.flatnonzero(clock == lows)
    places, first = np.unique(np.repeat(np.arange(len(starts)), counts)[at_low], return_index=True)
    found = np.full(len(starts), -1, np.int64)
    found[places] = at_low[first] - starts[places]
    return found


def _presence(
    step_of: IntArray, ranks: FloatArray, starts: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    known = np.flatnonzero(np.isfinite(ranks))[::-1]
    if not len(known):
        none = np.zeros(0, np.int64)
        return none, none, none
    names, of_rank = np.unique(ranks[known].astype(np.int64), return_inverse=True)
    of_step = np.searchsorted(step_of[starts], step_of[known])
    pairs, last = np.unique(of_step * len(names) + of_rank, return_index=True)
    places = pairs // len(names)
    return step_of[starts[places]], names[pairs % len(names)], known[last] - starts[places]
