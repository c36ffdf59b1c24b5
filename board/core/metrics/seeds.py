"""Runs that differ in their seed alone, as one: mean with interval, interquartile mean, profiles.

The figures are those of Agarwal et al. 2021, Deep reinforcement learning at the edge of the statistical
precipice, arXiv 2108.13264 (rliable). Their intervals are not: rliable draws runs for each task apart, as
of games that each have agents of their own. Here a run answers all prompts, and is better or worse on all
of them, so that runs are what is sampled: Student's t over a figure of each. It asks that these figures
are about normal, and that runs were not chosen by them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from board.core.arrays import FloatArray
from board.core.metrics.intervals import Z, student_t, wilson_bounds

LEAST: Final = 3
"""Fewer runs are lines: two say nothing of their spread."""
_ROUNDING: Final = 1e-12


def over_seeds(curves: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean and 95 % interval of curves [seeds, S] at each step; NaN: not recorded.

    Student's t over the seeds that have a value; NaN as interval where these are fewer than LEAST, or
    all alike: they say nothing of how another would differ.
    """
    known = np.isfinite(curves)
    count = known.sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, curves, 0.0).sum(axis=0) / count
        squares = np.where(known, (curves - mean) ** 2, 0.0).sum(axis=0)
        error = np.sqrt(squares / (count - 1) / count)
        is_known = (count >= LEAST) & (error > _ROUNDING * np.abs(mean))
        reach = np.where(is_known, student_t(count - 1) * error, np.nan)
    return mean, mean - reach, mean + reach


def interquartile_mean(scores: FloatArray) -> float:
    """The mean of the middle half of all scores, any shape, as rliable has it (scipy.stats.trim_mean): of
    n values the n // 4 smallest and largest are left out. NaN is left out, too.
    """
    values = np.sort(scores[np.isfinite(scores)])
    cut = len(values) // 4
    return float(values[cut : len(values) - cut].mean()) if len(values) else float("nan")


def of_each_run(scores: FloatArray) -> FloatArray:
    """[runs] the interquartile mean of each run's scores [runs, tasks]."""
    return np.array([interquartile_mean(row) for row in scores])


def interquartile_interval(scores: FloatArray) -> tuple[float, float]:
    """The 95 % interval of the interquartile mean of scores [runs, tasks]: Student's t by the spread of
    that of each run. NaN for fewer than LEAST runs, or where all are alike.
    """
    figures = of_each_run(scores)
    figures = figures[np.isfinite(figures)]
    if len(figures) < LEAST or not np.ptp(figures) > _ROUNDING:
        return float("nan"), float("nan")
    value, error = interquartile_mean(scores), figures.std(ddof=1) / np.sqrt(len(figures))
    reach = float(student_t(np.array([len(figures) - 1.0]))[0] * error)
    return value - reach, value + reach


def difference_of_runs(first: FloatArray, second: FloatArray) -> tuple[float, float, float]:
    """The second minus the first mean of figures of runs [n], with its 95 % interval (Welch 1947):
    whether settings differ, and not only runs. NaN for fewer than LEAST runs on a side, or all alike.
    """
    sides = [figures[np.isfinite(figures)] for figures in (first, second)]
    if min(map(len, sides)) < LEAST:
        return float("nan"), float("nan"), float("nan")
    squares = np.array([figures.var(ddof=1) / len(figures) for figures in sides])
    difference, error = float(sides[1].mean() - sides[0].mean()), float(np.sqrt(squares.sum()))
    if not error > _ROUNDING:
        return difference, float("nan"), float("nan")
    freedom = squares.sum() ** 2 / (squares**2 / [len(figures) - 1 for figures in sides]).sum()
    reach = float(student_t(np.array([freedom]))[0]) * error
    return difference, difference - reach, difference + reach


def performance_profile(scores: FloatArray, thresholds: FloatArray) -> FloatArray:
    """[thresholds] the share of scores [runs, tasks] that are above each; NaN is left out."""
    values = np.sort(scores[np.isfinite(scores)])
    if not len(values):
        return np.full(len(thresholds), np.nan)
    return 1 - np.searchsorted(values, thresholds, side="right") / len(values)


def profile_interval(scores: FloatArray, thresholds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[thresholds] the 95 % interval of the profile of scores [runs, tasks], at each threshold by itself.

    Wilson's, of so many scores as have the spread of the runs' shares, times (z / t)² for few runs (Korn
    and Graubard 1998); where no run differs, of all scores. NaN for fewer than LEAST runs.
    """
    runs, tasks = scores.shape
    if runs < LEAST or not tasks:
        return np.full(len(thresholds), np.nan), np.full(len(thresholds), np.nan)
    shares = np.array([performance_profile(row, thresholds) for row in scores])
    mean, squares = shares.mean(axis=0), shares.var(axis=0, ddof=1) / runs
    every = float(np.isfinite(scores).sum())
    independent = mean * (1 - mean)
    size = np.divide(independent, squares, out=np.full(len(mean), every), where=squares > 0)
    shrink = (Z / float(student_t(np.array([runs - 1.0]))[0])) ** 2
    return wilson_bounds(mean, size * shrink)
