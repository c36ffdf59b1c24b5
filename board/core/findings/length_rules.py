"""Responses that grow: into the limit, without getting better, or because length is rewarded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.findings.facts import Facts
from board.core.findings.finding import Finding, Severity, Target
from board.core.findings.thresholds import Limits
from board.core.findings.trailing import onset, stretches, trailing_error, trailing_mean
from board.core.kl import FloatArray
from board.core.step_checks import StepChecks

_TRUNCATION_SOURCE: Final = (
    "DAPO, arXiv 2503.14476, overlong filtering; TRL completions/clipped_ratio"
)
_LENGTH_SOURCE: Final = (
    "Dr. GRPO, arXiv 2503.20783: length may grow without a gain; bounds are the board's"
)


def truncation(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Many responses are cut off by the length limit, so that their rewards say little."""
    values = facts.curve("is_truncated_mean")
    if values is None:
        return
    steps = min(int(limits["steps"]), len(values))
    means = trailing_mean(values, steps)
    for stretch in stretches(means >= limits["warning"], means, calm=steps):
        value = float(means[stretch.worst])
        severity: Severity = "severe" if value >= limits["severe"] else "warning"
        step = int(facts.steps[stretch.worst])
        first = onset(values >= limits["warning"], stretch.first, steps)
        yield Finding(
            "truncation",
            severity,
            "Responses are cut off",
            f"{value:.0%} of the responses of the {steps} steps up to {step} end at the "
            "length limit. What "
            "they would have answered is not known, and their rewards are of unfinished texts.",
            step,
            int(facts.steps[first]),
            int(facts.steps[stretch.last]),
            value,
            limits["warning"],
            _TRUNCATION_SOURCE,
            Target("rollouts", step, metric="is_truncated"),
            "share of rollouts",
            facts.top(step, "is_truncated"),
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
    for stretch in stretches(fires, growth, calm=steps):
        step = int(facts.steps[stretch.worst])
        yield Finding(
            "length_without_gain",
            "warning",
            "Longer responses, no better answers",
            f"Responses of the {steps} steps up to {step} are {growth[stretch.worst]:.2f} "
            "times as long as "
            f"in the first {steps}; {name} went from {early:.3g} to {right[stretch.worst]:.3g}. "
            "Is length paid for, by the reward or by how the loss is averaged?",
            step,
            int(facts.steps[stretch.first]),
            int(facts.steps[stretch.last]),
            float(growth[stretch.worst]),
            limits["growth"],
            _LENGTH_SOURCE,
            Target("overview", step, metric="response_tokens"),
            "times the first length",
            facts.top(step, "response_tokens"),
        )


def reward_length(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Within groups, the longer response has the higher reward."""
    checks = facts.checks
    if checks is None or not checks.pairs.any():
        return
    correlation, compared = _within_groups(checks, int(limits["steps"]))
    fires = (correlation >= limits["correlation"]) & (compared >= limits["least"])
    for stretch in stretches(fires, correlation, calm=int(limits["steps"])):
        step = int(facts.steps[stretch.worst])
        value = float(correlation[stretch.worst])
        yield Finding(
            "reward_length",
            "lead",
            "Length and reward go together within groups",
            f"Over the {int(limits['steps'])} steps up to {step}, reward and length of responses to one "
            f"prompt correlate at {value:.2f}. Does the reward pay for length, or are short "
            "ones cut off?",
            step,
            int(facts.steps[stretch.first]),
            int(facts.steps[stretch.last]),
            value,
            limits["correlation"],
            "Singhal et al. 2023, A Long Way to Go, arXiv 2310.03716; the bound is the board's",
            Target("groups", step, metric="reward"),
            "correlation",
            facts.top(step, "response_tokens"),
        )


def _within_groups(checks: StepChecks, steps: int) -> tuple[FloatArray, FloatArray]:
    """[S] correlation of what is left of both after their group's mean, over the last `steps` steps,
    and how many rollouts it is of.
    """
    sums = [
        _moving(values.astype(np.float64), steps)
        for values in (checks.xy, checks.xx, checks.yy, checks.pairs)
    ]
    spread = np.sqrt(sums[1] * sums[2])
    correlation = np.divide(sums[0], spread, out=np.zeros(len(spread)), where=spread > 1e-12)
    return correlation, sums[3]


def _moving(values: FloatArray, steps: int) -> FloatArray:
    total = np.cumsum(values)
    before = np.concatenate((np.zeros(min(steps, len(total))), total[:-steps]))[: len(total)]
    return total - before
