"""The same prompt over the steps of a run: solved or not, lost again, newly solved, and how it wavers.

A visit is a step at which rollouts of a prompt were sampled. Missing rewards are NaN and enter no mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from board.core.kl import FloatArray

IntArray = npt.NDArray[np.int64]

SOLVED: Final = 0.5
"""A visit at which at least this share of the judged rollouts is right counts as solved."""


class Course(IntEnum):
    """How it went with a prompt; the first that holds.

    NEVER: none of its rollouts was ever right. ONCE: it was judged at one visit only. LOST: solved at a
    visit, and at the last one nothing is right. NEW: nothing right at the first visit, solved at the
    last. ALWAYS: solved at every visit. MIXED: none of these. UNKNOWN: nothing is judged.
    """

    NEVER = 0
    LOST = 1
    NEW = 2
    ALWAYS = 3
    MIXED = 4
    ONCE = 5
    UNKNOWN = 6


@dataclass(frozen=True, slots=True)
class Visits:
    """One entry per prompt and step, ordered by prompt and then by step; arrays [visits].

    rollouts: sampled; reward: their mean, lowest and highest; length: mean; right: share of the judged.
    """

    prompts: IntArray
    steps: IntArray
    rollouts: IntArray
    reward: FloatArray
    lowest: FloatArray
    highest: FloatArray
    length: FloatArray
    right: FloatArray


@dataclass(frozen=True, slots=True)
class Courses:
    """One entry per prompt, by its code, ascending; arrays [prompts].

    first, last: steps. reward: mean over visits. first_right, last_right: share that is right at the
    first and at the last judged visit. volatility: mean distance of the mean rewards of consecutive
    visits, NaN with fewer than two. courses: of Course.
    """

    prompts: IntArray
    visits: IntArray
    rollouts: IntArray
    first: IntArray
    last: IntArray
    reward: FloatArray
    first_right: FloatArray
    last_right: FloatArray
    volatility: FloatArray
    courses: npt.NDArray[np.int8]


def visits_of(
    prompts: IntArray, steps: IntArray, rewards: FloatArray, lengths: FloatArray, right: FloatArray
) -> Visits:
    """The visits of a run's rollouts; all arrays [n].

    prompts: a code per rollout, below 0 where none is known. right: 1, 0, or NaN where not judged.
    Raises ValueError on unequal lengths.
    """
    if len({len(a) for a in (prompts, steps, rewards, lengths, right)}) != 1:
        raise ValueError("prompts, steps, rewards, lengths and right are of unequal length")
    rows = np.flatnonzero(prompts >= 0)
    order = rows[np.lexsort((steps[rows], prompts[rows]))]
    changes = (np.diff(prompts[order]) != 0) | (np.diff(steps[order]) != 0)
    starts = np.flatnonzero(np.concatenate(([True], changes))) if len(order) else order
    known = np.isfinite(rewards[order])
    return Visits(
        prompts[order][starts],
        steps[order][starts],
        np.diff(np.append(starts, len(order))),
        _mean(rewards[order], starts),
        _edge(np.minimum, np.where(known, rewards[order], np.inf), starts),
        _edge(np.maximum, np.where(known, rewards[order], -np.inf), starts),
        _mean(lengths[order], starts),
        _mean(right[order], starts),
    )


def courses_of(visits: Visits) -> Courses:
    """How each prompt went; see Course."""
    starts = _starts(visits.prompts)
    count = np.diff(np.append(starts, len(visits.prompts)))
    judged = np.isfinite(visits.right)
    number = _sum(judged.astype(np.float64), starts)
    best = _edge(np.maximum, np.where(judged, visits.right, -np.inf), starts)
    worst = _edge(np.minimum, np.where(judged, visits.right, np.inf), starts)
    first, last = _first(visits.right, starts), _last(visits.right, starts)
    found = np.full(len(starts), Course.MIXED, np.int8)
    found[worst >= SOLVED] = Course.ALWAYS
    found[(first == 0) & (last >= SOLVED)] = Course.NEW
    found[(best >= SOLVED) & (last == 0)] = Course.LOST
    found[number == 1] = Course.ONCE
    found[best == 0] = Course.NEVER
    found[number == 0] = Course.UNKNOWN
    return Courses(
        visits.prompts[starts],
        count,
        _sum(visits.rollouts.astype(np.float64), starts).astype(np.int64),
        visits.steps[starts],
        visits.steps[starts + count - 1] if len(starts) else starts,
        _mean(visits.reward, starts),
        first,
        last,
        _volatility(visits, starts),
        found,
    )


def _volatility(visits: Visits, starts: IntArray) -> FloatArray:
    known = np.isfinite(visits.reward)
    prompts, reward = visits.prompts[known], visits.reward[known]
    same = np.diff(prompts) == 0
    place = np.searchsorted(visits.prompts[starts], prompts[1:][same])
    moved = np.abs(np.diff(reward))[same]
    total = np.bincount(place, weights=moved, minlength=len(starts))
    return _divided(total, np.bincount(place, minlength=len(starts)))


def _starts(codes: IntArray) -> IntArray:
    if not len(codes):
        return np.zeros(0, np.int64)
    return np.flatnonzero(np.concatenate(([True], np.diff(codes) != 0)))


def _sum(values: FloatArray, starts: IntArray) -> FloatArray:
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0)


def _mean(values: FloatArray, starts: IntArray) -> FloatArray:
    known = np.isfinite(values)
    return _divided(
        _sum(np.where(known, values, 0.0), starts), _sum(known.astype(np.float64), starts)
    )


def _edge(which: Any, values: FloatArray, starts: IntArray) -> FloatArray:
    """The lowest or highest of each stretch; NaN where it has no value."""
    found = which.reduceat(values, starts) if len(starts) else np.zeros(0)
    return np.where(np.isinf(found), np.nan, found)


def _first(values: FloatArray, starts: IntArray) -> FloatArray:
    """The first known value of each stretch."""
    return _at_edge(values, starts, np.minimum, len(values))


def _last(values: FloatArray, starts: IntArray) -> FloatArray:
    return _at_edge(values, starts, np.maximum, -1)


def _at_edge(values: FloatArray, starts: IntArray, which: Any, none: int) -> FloatArray:
    if not len(starts):
        return np.zeros(0)
    places = np.where(np.isfinite(values), np.arange(len(values)), none)
    chosen = which.reduceat(places, starts)
    return np.append(values, np.nan)[np.where(chosen == none, len(values), chosen)]


def _divided(total: FloatArray, count: npt.NDArray[Any]) -> FloatArray:
    return np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
