"""Rewards that mislead: up while a part of them falls, out of their range, not there, paid for length;
and responses that grow: into the limit, or without getting better.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray
from board.core.findings.facts import Facts, StepChecks
from board.core.findings.finding import Evidence, Limits, Match, Target, first_index, rounded
from board.core.findings.trailing import (
    Period,
    periods,
    trailing_error,
    trailing_mean,
    window_periods,
    window_words,
)
from board.core.metrics.definitions import REWARD_PART
from board.core.metrics.shares import number, of_many, percent


def part_falls(facts: Facts, limits: Limits) -> Iterator[Match]:
    """The reward rises, and a part of it falls to a fraction of what it was."""
    reward = facts.curve("reward_mean")
    steps = int(limits["steps"])
    if reward is None or len(reward) < 2 * steps:
        return
    rise, rise_error = _changes(reward, steps)
    rises = rise > limits["errors"] * rise_error
    for column in facts.parts:
        part = facts.curve(f"{column}_mean")
        if part is None:
            continue
        for period, value, fell in _losses(facts, part, limits, limits["errors"], rises):
            paid = _paid_without(facts, period.most, column) if period.is_named else ()
            text = (
                f"Between the first {steps} steps and those up to {period.step} the reward rose and its "
                f"part {column.removeprefix(REWARD_PART)!r} {fell}. Something else "
                "pays more: read a few rollouts with the highest reward."
            )
            severity = "severe" if value >= limits["severe"] else "warning"
            target = Target("rollouts", period.most, first_index(paid), metric="reward")
            bound = limits["warning"]
            yield Match(severity, text, period.steps, value, bound, target, paid, subject=column)


def _losses(
    facts: Facts, values: FloatArray, limits: Limits, errors: float, among: BoolArray
) -> Iterator[tuple[Period, float, str]]:
    """Periods in which a curve has lost a good part of what it was in the first steps, that part, at most
    1, and how it fell in words.

    errors: the change is so many standard errors at least. among: [S] steps that may fire.
    """
    steps = int(limits["steps"])
    early = float(trailing_mean(values[:steps], steps)[-1])
    if not early > 0:
        return
    change, error = _changes(values, steps)
    lost = -change / early
    fires = among & (-change > errors * error) & (lost >= limits["warning"])
    low = early * (1 - limits["warning"])
    for period in window_periods(facts.steps, fires, lost, -values, -low, steps):
        value = float(lost[period.worst])
        fell = f"fell from {number(early)} to {number(early * (1 - value))}"
        # Of what changes its sign a percentage says nothing.
        fell += f", by {percent(value)}" if value <= 1 else ""
        yield period, min(value, 1.0), fell


def _changes(values: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """[S] mean of the last `steps` values less that of the first ones, and its standard error."""
    means, errors = trailing_mean(values, steps), trailing_error(values, steps)
    change = means - means[steps - 1]
    change[: 2 * steps - 1] = np.nan
    return change, np.hypot(errors, errors[steps - 1])


def _paid_without(facts: Facts, step: int, column: str) -> tuple[Evidence, ...]:
    """The rollouts of the highest reward among those that the falling part pays less than usual."""
    part = facts.rows_of(step).columns[column]
    known = part[np.isfinite(part)]
    return facts.top(step, "reward", among=part <= known.mean() if len(known) else None)


def reward_outliers(facts: Facts, limits: Limits) -> Iterator[Match]:
    """A reward far outside of the range of all rewards before it."""
    checks = facts.checks
    if checks is None or not checks.scored.any():
        return
    low = np.where(checks.scored > 0, checks.lowest, np.inf)
    high = np.where(checks.scored > 0, checks.highest, -np.inf)
    beyond = np.zeros(len(low))
    lowest, highest = np.inf, -np.inf
    with np.errstate(over="ignore", invalid="ignore"):  # a range of more than 1.8e308 is infinite
        for i in range(len(low)):
            reward_range = highest - lowest
            if i >= int(limits["steps"]) and reward_range > 0:
                beyond[i] = max(high[i] - highest, lowest - low[i]) / reward_range
            if beyond[i] <= limits["times"]:  # an outlier widens no range
                lowest, highest = min(lowest, low[i]), max(highest, high[i])
        out = limits["times"] * (highest - lowest)
    for period in periods(facts.steps, beyond > limits["times"], beyond):
        step, value = period.step, float(beyond[period.worst])
        is_low = high[period.worst] <= highest
        bound = lowest - out if is_low else highest + out
        outside = facts.top(step, "reward", lowest=is_low, beyond=bound)
        text = (
            f"At step {step} a reward lies {rounded(value)} times the width of the earlier range "
            f"({rounded(lowest)} to {rounded(highest)}) outside it. One such reward moves its group's "
            "mean and spread. Is it intended?"
        )
        severity = "severe" if value > limits["severe_times"] else "warning"
        target = Target("rollouts", step, first_index(outside), metric="reward", lowest=is_low)
        times, rollouts = limits["times"], len(outside) if period.count == 1 else None
        yield Match(severity, text, period.steps, value, times, target, outside, rollouts=rollouts)


def unscored(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Rollouts without a reward in a run that records rewards: failed, lost, or not a number."""
    checks = facts.checks
    if checks is None or not checks.scored.any():
        return
    counts = checks.rollouts - checks.scored
    share = counts / checks.rollouts
    for period in periods(facts.steps, share >= limits["share"], share):
        step, value = period.step, float(share[period.worst])
        lost = _without_reward(facts, step) if period.is_named else ()
        text = (
            f"No reward is recorded for {of_many(counts[period.worst], checks.rollouts[period.worst])} "
            f"rollouts of step {step}; they are left out of every mean. Did the environment or the "
            "grader fail, or was the reward not a number?"
        )
        rollouts = int(counts[period.first : period.last + 1].sum())
        target = Target("rollouts", step, first_index(lost), metric="reward")
        bound = limits["share"]
        yield Match("warning", text, period.steps, value, bound, target, lost, rollouts=rollouts)


def _without_reward(facts: Facts, step: int) -> tuple[Evidence, ...]:
    rows = facts.rows_of(step)
    unknown = rows.indices[~np.isfinite(rows.columns["reward"])][:3]
    return tuple(Evidence(step, index) for index in unknown.tolist())


def truncation(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Many responses are cut off by the length limit, so that their rewards say little."""
    values = facts.curve("is_truncated_mean")
    if values is None:
        return
    steps = min(int(limits["steps"]), len(values))
    # A few steps alone are no training that fails.
    severe = limits["severe"] if steps == int(limits["steps"]) else np.inf
    means, bound = trailing_mean(values, steps), limits["warning"]
    for period in window_periods(facts.steps, means >= bound, means, values, bound, steps):
        value = float(means[period.worst])
        cut_off = facts.top(period.most, "is_truncated", beyond=0.0) if period.is_named else ()
        text = (
            f"{percent(value)} of the responses of {window_words(steps, period.step)} end at the length "
            "limit. Their rewards score unfinished texts."
        )
        severity = "severe" if value >= severe else "warning"
        target = Target("rollouts", period.most, first_index(cut_off), metric="is_truncated")
        yield Match(severity, text, period.steps, value, bound, target, cut_off)


def reward_length(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Within groups, the longer response has the higher reward."""
    checks = facts.checks
    if checks is None or not checks.pairs.any():
        return
    steps, bound = int(limits["steps"]), limits["correlation"]
    correlation, compared = _within_groups(checks, steps)
    alone, _ = _within_groups(checks, 1)
    fires = (correlation >= bound) & (compared >= limits["least"])
    for period in window_periods(facts.steps, fires, correlation, alone, bound, steps):
        value = float(correlation[period.worst])
        rollouts = _together(facts, period.most) if period.is_named else ()
        text = (
            f"Over the {steps} steps up to {period.step}, reward and length of responses to the "
            f"same prompt correlate at {value:.2f}. Does the reward favor length, or are short "
            "responses cut off?"
        )
        target = Target("groups", period.most, first_index(rollouts), metric="reward")
        yield Match("lead", text, period.steps, value, bound, target, rollouts)


def _within_groups(checks: StepChecks, steps: int) -> tuple[FloatArray, FloatArray]:
    """[S] correlation of what is left of both after their group's mean, over the last `steps` steps,
    and how many rollouts it is of; 0 where one of them does not vary.
    """
    summed = np.array([checks.xy, checks.xx, checks.yy, checks.pairs], np.float64)
    summed = np.cumsum(summed, axis=1)
    summed[:, steps:] -= summed[:, :-steps].copy()
    xy, xx, yy, pairs = summed
    deviations = np.sqrt(np.maximum(xx * yy, 0.0))
    return np.divide(xy, deviations, out=np.zeros(len(xy)), where=deviations > 1e-12), pairs


def _together(facts: Facts, step: int) -> tuple[Evidence, ...]:
    """The rollouts of a step that speak most for it: long and paid, or short and not."""
    rows = facts.rows_of(step)
    groups = rows.read_groups()
    reward, length = rows.columns["reward"], rows.columns["response_tokens"]
    known = (groups >= 0) & np.isfinite(reward) & np.isfinite(length)
    product = _less_means(reward, groups, known) * _less_means(length, groups, known)
    order = np.argsort(-product, kind="stable")[:3]
    return tuple(Evidence(step, int(rows.indices[i])) for i in order.tolist() if product[i] > 0)


def _less_means(values: FloatArray, groups: IntArray, known: BoolArray) -> FloatArray:
    """[n] what is left of known values after the mean of those of their group; 0 for the others."""
    _, of = np.unique(groups[known], return_inverse=True)
    result = np.zeros(len(values))
    result[known] = values[known] - (np.bincount(of, values[known]) / np.bincount(of))[of]
    return result
