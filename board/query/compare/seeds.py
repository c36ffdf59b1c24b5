"""Runs grouped by their settings: those that differ in their seed alone are one curve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from board.core.arrays import FloatArray, IntArray
from board.core.distinct_names import distinct_names
from board.core.metrics.definitions import base_name
from board.core.metrics.seeds import (
    difference_of_runs,
    interquartile_interval,
    interquartile_mean,
    of_each_run,
    over_seeds,
)
from board.core.repeated_runs import is_of_the_setup
from board.core.run_differences import differences
from board.query.compare.paired import means_of_prompts
from board.query.run import Run

_LONGEST_NAME: Final = 60
NOT_RECORDED: Final = "not recorded"
EXPLAINED: Final = (
    "Intervals are over whole runs (Student's t over a figure of each), for three runs or more. A "
    "difference between groups of runs whose interval leaves 0 out speaks for the settings; one between "
    "two single runs may be their seeds'."
)
"""What intervals over seeds are of."""


@dataclass(frozen=True)
class SeedGroup:
    """Runs with the same values of the chosen settings. settings: those values. name: what tells it from
    the other groups.

    steps: [S] of any of them; mean, low, high: [S] over the runs, low and high NaN for fewer than three.
    scores: [runs, prompts] the mean of each prompt that all of the compared runs saw; last of all,
    its interquartile mean over runs and prompts with its 95 % interval. against_first: the mean of its
    runs' interquartile means minus that of the first group's, with its 95 % interval; NaN for fewer than
    three runs in either, and of the first group itself.
    """

    name: str
    settings: Mapping[str, Any]
    runs: tuple[Run, ...]
    steps: IntArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    scores: FloatArray
    interquartile: tuple[float, float, float]
    against_first: tuple[float, float, float] = (np.nan, np.nan, np.nan)


def _group_names(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """What tells each group of runs from the others, in words: the settings that differ between groups,
    those first that all of them record, and not all where that takes too long; of keys the last part,
    where that is one key's alone.
    """
    differing = [
        key
        for key in (settings[0] if settings else ())
        if len({repr(one[key]) for one in settings}) > 1
    ]
    missing = {key: sum(one[key] == NOT_RECORDED for one in settings) for key in differing}
    differing.sort(key=lambda key: missing[key])
    last_parts = [key.rpartition(".")[2] for key in differing]
    short = {
        key: last if last_parts.count(last) == 1 else key
        for key, last in zip(differing, last_parts, strict=True)
    }
    for count in (len(differing), *range(1, len(differing))):
        names = [_group_name(one, differing[:count], short) for one in settings]
        if len({*names}) == len(names) and max(map(len, names), default=0) <= _LONGEST_NAME:
            break
    else:
        names = [_group_name(one, differing, short) for one in settings]
    unnamed = [f"group {place}" for place in range(1, len(names) + 1)]
    if len(names) == 1:
        unnamed = ["all runs"]
    names = [name or other for name, other in zip(names, unnamed, strict=True)]
    return distinct_names(names, _LONGEST_NAME)


def _group_name(settings: Mapping[str, Any], keys: Sequence[str], short: Mapping[str, str]) -> str:
    """The recorded values of these settings. short: of a key what it is called."""
    known = (key for key in keys if settings[key] != NOT_RECORDED)
    return ", ".join(f"{short[key]} = {settings[key]}" for key in known)


def differing_settings(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """By key of a setting that differs between runs, its value in each; newest start of each run."""
    newest = {
        str(place): run.settings[max(run.settings)] if run.settings else {}
        for place, run in enumerate(runs)
    }
    return {
        path: [values.get(place, NOT_RECORDED) for place in newest]
        for path, values in differences(newest).items()
    }


def usual_keys(runs: Sequence[Run]) -> list[str]:
    """The settings that differ, but for seeds and names of a run: runs that share them are repetitions
    of one another.
    """
    return [key for key in differing_settings(runs) if is_of_the_setup(key)]


def seed_groups(runs: Sequence[Run], keys: Sequence[str], metric: str) -> list[SeedGroup]:
    """The runs grouped by the values of some settings, in the order of their first run.

    metric: of rollouts, whose curve over the steps is wanted. Raises UnreadableError.
    """
    values = differing_settings(runs)
    together: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for place in range(len(runs)):
        own = {key: values[key][place] for key in keys if key in values}
        together.setdefault(repr(own), (own, []))[1].append(place)
    scores = _scores(runs, metric)
    names = _group_names([own for own, _ in together.values()])
    groups = [
        _group(name, runs, *one, metric, scores)
        for name, one in zip(names, together.values(), strict=True)
    ]
    figures = [of_each_run(group.scores) for group in groups]
    return [
        replace(group, against_first=difference_of_runs(figures[0], of_group)) if place else group
        for place, (group, of_group) in enumerate(zip(groups, figures, strict=True))
    ]


def _group(
    name: str,
    runs: Sequence[Run],
    settings: Mapping[str, Any],
    places: list[int],
    metric: str,
    scores: FloatArray,
) -> SeedGroup:
    own = tuple(runs[place] for place in places)
    steps = np.unique(np.concatenate([np.fromiter(run.counts, np.int64) for run in own]))
    curves, column = np.full((len(own), len(steps)), np.nan), f"{base_name(metric)}_mean"
    for row, run in enumerate(own):
        if column in run.steps:
            at = np.searchsorted(steps, run.steps["step"].to_numpy(np.int64))
            curves[row, at] = run.steps[column].to_numpy(np.float64, na_value=np.nan)
    middle = interquartile_mean(scores[places])
    interval = interquartile_interval(scores[places])
    summary = (middle, *interval)
    return SeedGroup(name, settings, own, steps, *over_seeds(curves), scores[places], summary)


def _scores(runs: Sequence[Run], metric: str) -> FloatArray:
    """[runs, prompts] the mean of a metric over each prompt that all runs saw."""
    if not all(metric in run.metrics for run in runs):
        return np.empty((len(runs), 0))
    of_runs = [means_of_prompts(run, [metric]) for run in runs]
    if any(one is None for one in of_runs):
        return np.empty((len(runs), 0))
    tables = [one.table[metric] for one in of_runs if one is not None]
    common = set.intersection(*({*table.index} for table in tables))
    return np.array(
        [table.loc[sorted(common)].to_numpy(np.float64, na_value=np.nan) for table in tables]
    )
