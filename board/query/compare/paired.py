"""Two runs, paired by prompt: means of both on the prompts that both saw, at matched steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import pandas as pd

from board.core.arrays import FloatArray, IntArray, divided
from board.core.groups.right import RightRule
from board.core.metrics.definitions import reward_parts, rollout_metric
from board.core.metrics.paired import (
    PairedDifference,
    false_discovery_rates,
    paired_difference,
)
from board.core.metrics.shares import of_many
from board.index.segments import PROMPT_KEY
from board.index.storage import StepRange
from board.query import groups
from board.query.compare.matching import Match, matched_steps
from board.query.run import Run

SOLVE_RATE = "solve_rate"
"""The share of right rollouts, among those of which it is known."""
_ZERO_MEAN = "advantage"
"""Its mean is 0 in each group: what differs is rounding."""
TOTALS = ("reward", "ref_reward", "valid_reward", "ref_valid_reward", "reward_gap")
"""Sums of the parts of a reward: where the parts are others, other quantities."""


@dataclass(frozen=True)
class PairedRuns:
    """What two runs A and B did on the prompts that both saw.

    matched: how their steps were chosen. steps: the first and last compared step of each; None where they
    have none in common. keys, envs: [n] of the prompts, envs with None for those without. differences: by
    metric, B minus A. deltas: by metric [n] of each prompt, NaN: not in both. most: by metric the most
    that they can be, infinite where that is not known. reward_note: why totals of
    rewards are not one quantity in both; empty where they are. obstacle: why there are no differences.
    right_note: by which rule rollouts of both are right, and how many are not judged.
    """

    matched: Match
    steps: tuple[StepRange, StepRange] | None
    keys: IntArray
    envs: Sequence[str | None]
    differences: Mapping[str, PairedDifference]
    deltas: Mapping[str, FloatArray]
    most: Mapping[str, float]
    reward_note: str = ""
    obstacle: str = ""
    right_note: str = ""

    @property
    def steps_text(self) -> str:
        """The compared steps in words."""
        if self.steps is None:
            return "no common steps"
        first, second = ("{} to {}".format(*ends) for ends in self.steps)
        if first != second:
            return f"steps {first} of A, {second} of B"
        low, high = self.steps[0]
        return f"step {low}" if low == high else f"steps {first}"


def paired_runs(
    first: Run,
    second: Run,
    columns: Sequence[str] | None = None,
    matched: Match = "steps",
    shift: int = 0,
    among: Sequence[Run] = (),
) -> PairedRuns:
    """The paired differences of metrics that both runs have; columns: of these alone. shift: added to
    the steps of the second, where they are matched by steps. among: other runs of the comparison; what
    is right is one rule for all of them.

    first, second: may be narrowed to a split or environments. Raises UnreadableError.
    """
    steps = matched_steps(first, second, matched, shift)
    shared = [name for name in first.metrics if name in second.metrics and name != _ZERO_MEAN]
    note = _reward_note(first, second)
    wanted = [name for name in shared if columns is None or name in columns]
    # What rewards say first; parts that both have before totals, which may be of different parts.
    ranks = dict.fromkeys(reward_parts(wanted), 0) | dict.fromkeys(TOTALS, 1 if note else -1)
    wanted.sort(key=lambda name: ranks.get(name, 2))
    rule = groups.rule_of(first, (second, *among)) if "reward" in first.metrics else None
    means = _means(first, second, steps, wanted, rule) if steps else None
    if means is None:
        obstacle = _obstacle(first, second, matched, has_steps=steps is not None)
        return PairedRuns(matched, steps, np.array([], np.int64), (), {}, {}, {}, note, obstacle)
    tables = [one.table for one in means]
    both = tables[0].index.intersection(tables[1].index, sort=False)
    own, other = tables[0].loc[both], tables[1].loc[both]
    deltas = {
        name: _numbers(other[name]) - _numbers(own[name])
        for name in (SOLVE_RATE, *wanted)
        if name in own and name in other
    }
    if note and rule is not None and rule.column == "reward":
        deltas.pop(SOLVE_RATE, None)  # right by totals, of other parts in each
    deltas = {name: values for name, values in deltas.items() if np.isfinite(values).any()}
    most = {name: max(_largest_gap(one, name) for one in means) for name in deltas}
    differences = {name: paired_difference(values, most[name]) for name, values in deltas.items()}
    envs = own["env"].astype(object).where(own["env"].notna(), None).tolist()
    keys = both.to_numpy(np.int64)
    obstacle = "" if differences else "no prompt is in both runs at these steps"
    right_note = _right_note(rule, means) if rule and SOLVE_RATE in deltas else ""
    return PairedRuns(
        matched, steps, keys, envs, differences, deltas, most, note, obstacle, right_note
    )


def _largest_gap(means: PromptMeans, metric: str) -> float:
    """Between two means of a metric: 1 of shares, 2 where all values are -1, 0 or 1; else infinite."""
    if metric == SOLVE_RATE or rollout_metric(metric).unit == "share":
        return 1.0
    return 2.0 if metric in means.of_three else inf


def _right_note(rule: RightRule, means: Sequence[PromptMeans]) -> str:
    left = [
        f"{of_many(one.scored - one.judged, one.scored)} of {name}"
        for name, one in zip("AB", means, strict=True)
        if one.scored > one.judged
    ]
    return "; rollouts not judged: ".join([rule.text, *([", ".join(left)] if left else [])])


def _obstacle(first: Run, second: Run, matched: Match, *, has_steps: bool) -> str:
    """Why nothing of two runs can be compared."""
    if not all(PROMPT_KEY in run.rows.names for run in (first, second)):
        return "prompts are not recorded in both runs"
    if has_steps:
        return "no prompt is in both runs at these steps"
    if matched == "steps":
        return "no step is in both runs; compare them at the same tokens or time"
    what = "response tokens" if matched == "tokens" else "timestamps"
    return f"{what} are not recorded in both runs"


@dataclass(frozen=True, slots=True)
class PromptMeans:
    """table: a row for each prompt, its key as index: the mean of each metric over its rollouts, its
    solve rate where that is known, and env, its environment. scored: rollouts with a score; judged: of
    these. of_three: the metrics all of whose values are -1, 0 or 1.
    """

    table: pd.DataFrame
    scored: int
    judged: int
    of_three: frozenset[str]


def _means(
    first: Run,
    second: Run,
    steps: tuple[StepRange, StepRange],
    columns: Sequence[str],
    rule: RightRule | None,
) -> tuple[PromptMeans, PromptMeans] | None:
    """The means of both runs' prompts. Those of the first's whole run are cached, for its other pairs."""

    def means() -> PromptMeans | None:
        return means_of_prompts(first.where(steps=steps[0]), columns, rule)

    # Of a part of the run each pair may have another one: too many to cache.
    is_whole = steps[0] == (min(first.counts), max(first.counts))
    own = first.remembered(f"means of prompts {columns} {rule}", means) if is_whole else means()
    other = means_of_prompts(second.where(steps=steps[1]), columns, rule)
    return None if own is None or other is None else (own, other)


@dataclass(frozen=True, slots=True)
class EnvDifference:
    """The difference on the prompts of an environment. rate: of false discoveries, over all of them."""

    env: str
    paired: PairedDifference
    rate: float | None


def tested_metrics(first: Run, second: Run, paired: PairedRuns) -> tuple[str, ...]:
    """The metrics that are asked when the runs diverged: those of the prompts, else all of both."""
    names = tuple(name for name in paired.differences if name != SOLVE_RATE)
    return names or tuple(m for m in first.metrics if m in second.metrics and m != _ZERO_MEAN)


def by_environment(runs: PairedRuns, metric: str) -> list[EnvDifference]:
    """The difference of a metric in each environment; none where there are fewer than two of them."""
    envs = np.array([env or "" for env in runs.envs])
    names = sorted({env for env in runs.envs if env})
    if len(names) < 2:
        return []
    deltas, most = runs.deltas[metric], runs.most[metric]
    compared = [paired_difference(deltas[envs == name], most) for name in names]
    p = np.array([np.nan if one.p is None else one.p for one in compared])
    rates = [None if np.isnan(rate) else rate for rate in false_discovery_rates(p).tolist()]
    return [EnvDifference(*one) for one in zip(names, compared, rates, strict=True)]


def _reward_note(first: Run, second: Run) -> str:
    """Why the totals of two runs' rewards are not one quantity."""
    parts = [{*reward_parts(run.metrics)} for run in (first, second)]
    if parts[0] == parts[1]:
        return ""
    words = [
        ", ".join(sorted(one.removeprefix("rewards.") for one in own)) or "none" for own in parts
    ]
    names = f"A: {words[0]}; B: {words[1]}"
    return f"the rewards have different parts ({names}): compare those that both have"


def means_of_prompts(
    run: Run, columns: Sequence[str], rule: RightRule | None = None
) -> PromptMeans | None:
    """The means of each prompt. rule: what is right, for solve rates; None: without these. None where no
    prompt is recorded. Raises UnreadableError.
    """
    if PROMPT_KEY not in run.rows.names:
        return None
    means = "".join(
        f", avg(v{i}) AS m{i}, bool_and(v{i} IN (-1, 0, 1)) AS three{i}"
        for i in range(len(columns))
    )
    values = "".join(
        f", CAST({run.column(name)} AS DOUBLE) AS v{i}" for i, name in enumerate(columns)
    )
    judged = f", {groups.score_of(run, rule)} AS score" if rule else ""
    counts = f", count(*) FILTER (isfinite(score)) AS scored, {groups.RIGHT_COUNTS}" if rule else ""
    bounds = f"CROSS JOIN ({groups.right_bounds(rule)})" if rule else ""
    table = run.table(f"""
        WITH rollouts AS (
            SELECT {run.column(PROMPT_KEY)} AS key, {run.column("env")} AS env{judged}{values}
            FROM {run.view}
            WHERE {run.condition} AND {run.column(PROMPT_KEY)} IS NOT NULL)
        SELECT key, min(env) AS env{means}{counts} FROM rollouts {bounds} GROUP BY key
    """).to_pandas()
    names = {f"m{i}": name for i, name in enumerate(columns)}
    table = table.rename(columns=names).set_index("key")
    of_three = frozenset(
        name
        for i, name in enumerate(columns)
        if table.pop(f"three{i}").fillna(value=True).astype(bool).all()
    )
    if not rule:
        return PromptMeans(table, 0, 0, of_three)
    scored, graded, solved = (
        table.pop(name).to_numpy(np.float64) for name in ("scored", "graded", "right")
    )
    table[SOLVE_RATE] = divided(solved, graded)
    return PromptMeans(table, int(scored.sum()), int(graded.sum()), of_three)


def _numbers(column: pd.Series) -> FloatArray:
    return column.to_numpy(np.float64, na_value=np.nan)
