"""Responses that grow: into the limit, without getting better, or because length is rewarded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.findings.facts import Facts, StepChecks
from board.core.findings.finding import Evidence, Finding, Limits, Severity, Target, first_index
from board.core.findings.trailing import (
    onset,
    periods,
    trailing_error,
    trailing_mean,
    window_words,
    worst_of,
)
from board.core.groups.statistics import BoolArray, IntArray
from board.core.metrics.kl import FloatArray
from board.core.metrics.shares import percent

_TRUNCATION_SOURCE: Final = (
    "DAPO, arXiv 2503.14476, 3.4, overlong filtering; TRL completions/clipped_ratio; thresholds "
    "set by Rollout Board"
)
_LENGTH_SOURCE: Final = (
    "Dr. GRPO, arXiv 2503.20783: GRPO lengthens wrong responses most; DAPO, arXiv 2503.14476, 4.3, looks "
    "at length beside accuracy; thresholds set by Rollout Board"
)


def truncation(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Many responses are cut off by the length limit, so that their rewards say little."""
    values = facts.curve("is_truncated_mean")
    if values is None:
        return
    steps = min(int(limits["steps"]), len(values))
    # A few steps alone are no training that fails.
    is_whole = steps == int(limits["steps"])
    means = trailing_mean(values, steps)
    for period in periods(facts.steps, means >= limits["warning"], means, calm=steps):
        value = float(means[period.worst])
        severity: Severity = "severe" if value >= limits["severe"] and is_whole else "warning"
        step = period.step
        first = onset(values, limits["warning"], period.first, steps)
        most = int(facts.steps[worst_of(values, period.worst, steps)])
        cut_off = facts.top(most, "is_truncated", beyond=0.0)
        yield Finding(
            "truncation",
            severity,
            "Responses are cut off",
            f"{percent(value)} of the responses of {window_words(steps, step)} end at the length limit. "
            "Their rewards score unfinished texts.",
            step,
            int(facts.steps[first]),
            period.steps[2],
            value,
            limits["warning"],
            _TRUNCATION_SOURCE,
            Target("rollouts", most, first_index(cut_off), metric="is_truncated"),
            "share of rollouts",
            cut_off,
        )


def length_without_gain(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Responses are longer than in the first steps, and accuracy is no higher."""
    lengths = facts.curve("response_tokens_mean")
    name = facts.right_column or "reward"
    accuracy = facts.curve(f"{name}_mean")
    steps = int(limits["steps"])
    if lengths is None or accuracy is None or len(lengths) < 2 * steps:
        return
    means = trailing_mean(lengths, steps)
    growth = means / means[steps - 1]
    right, error = trailing_mean(accuracy, steps), trailing_error(accuracy, steps)
    early = right[steps - 1]
    gains = right - early > limits["errors"] * np.hypot(error, error[steps - 1])
    fires = (growth >= limits["growth"]) & ~gains
    fires[: 2 * steps - 1] = False
    for period in periods(facts.steps, fires, growth, calm=steps):
        step = period.step
        bound = limits["growth"] * float(means[steps - 1])
        most = int(facts.steps[worst_of(lengths, period.worst, steps)])
        longest = facts.top(most, "response_tokens")
        yield Finding(
            "length_without_gain",
            "warning",
            "Responses get longer but not better",
            f"Responses of the {steps} steps up to {step} are {growth[period.worst]:.2f} "
            "times as long as "
            f"in the first {steps}; {name} went from {early:.3g} to {right[period.worst]:.3g}. "
            "Is length rewarded, by the reward itself or by how the loss is averaged?",
            step,
            int(facts.steps[onset(lengths, bound, period.first, steps)]),
            period.steps[2],
            float(growth[period.worst]),
            limits["growth"],
            _LENGTH_SOURCE,
            Target("rollouts", most, first_index(longest), metric="response_tokens"),
            "times the first length",
            longest,
        )


def reward_length(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Within groups, the longer response has the higher reward."""
    checks = facts.checks
    if checks is None or not checks.pairs.any():
        return
    steps = int(limits["steps"])
    correlation, compared = _within_groups(checks, steps)
    alone, _ = _within_groups(checks, 1)
    fires = (correlation >= limits["correlation"]) & (compared >= limits["least"])
    for period in periods(facts.steps, fires, correlation, calm=steps):
        step = period.step
        value = float(correlation[period.worst])
        first = onset(alone, limits["correlation"], period.first, steps)
        most = int(facts.steps[worst_of(alone, period.worst, steps)])
        rollouts = _together(facts, most)
        yield Finding(
            "reward_length",
            "lead",
            "Reward correlates with length within groups",
            f"Over the {steps} steps up to {step}, reward and length of responses to the "
            f"same prompt correlate at {value:.2f}. Does the reward favor length, or are short "
            "responses cut off?",
            step,
            int(facts.steps[first]),
            period.steps[2],
            value,
            limits["correlation"],
            "Singhal et al. 2023, A Long Way to Go, arXiv 2310.03716; threshold set by Rollout Board",
            Target("groups", most, first_index(rollouts), metric="reward"),
            "correlation",
            rollouts,
        )


def _within_groups(checks: StepChecks, steps: int) -> tuple[FloatArray, FloatArray]:
    """[S] correlation of what is left of both after their group's mean, over the last `steps` steps,
    and how many rollouts it is of; 0 where one of them does not vary.
    """
    sums = [
        _moving(values.astype(np.float64), steps)
        for values in (checks.xy, checks.xx, checks.yy, checks.pairs)
    ]
    deviations = np.sqrt(np.maximum(sums[1] * sums[2], 0.0))
    correlation = np.divide(
        sums[0], deviations, out=np.zeros(len(deviations)), where=deviations > 1e-12
    )
    return correlation, sums[3]


def _together(facts: Facts, step: int, count: int = 3) -> tuple[Evidence, ...]:
    """The rollouts of a step that speak most for it: long and paid, or short and not."""
    rows = facts.rows_of(step)
    grouped = rows.groups >= 0
    known = (
        grouped & np.isfinite(rows.columns["reward"]) & np.isfinite(rows.columns["response_tokens"])
    )
    reward, length = (
        _less_means(rows.columns[name], rows.groups, known)
        for name in ("reward", "response_tokens")
    )
    product = reward * length
    order = np.argsort(-product, kind="stable")[:count]
    return tuple(Evidence(step, int(rows.indices[i])) for i in order.tolist() if product[i] > 0)


def _less_means(values: FloatArray, groups: IntArray, known: BoolArray) -> FloatArray:
    """[n] what is left of known values after the mean of those of their group; 0 for the others."""
    _, of = np.unique(groups[known], return_inverse=True)
    result = np.zeros(len(values))
    result[known] = values[known] - (np.bincount(of, values[known]) / np.bincount(of))[of]
    return result


def _moving(values: FloatArray, steps: int) -> FloatArray:
    total = np.cumsum(values)
    before = np.concatenate((np.zeros(min(steps, len(total))), total[:-steps]))[: len(total)]
    return total - before
