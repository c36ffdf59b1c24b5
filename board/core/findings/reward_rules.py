"""Rewards that mislead: up while a part of them falls, out of their range, or not there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from board.core.findings.facts import Facts
from board.core.findings.finding import (
    Evidence,
    Finding,
    Limits,
    Severity,
    Target,
    first_index,
    rounded,
)
from board.core.findings.trailing import (
    Period,
    onset,
    periods,
    trailing_error,
    trailing_mean,
    worst_of,
)
from board.core.metrics.definitions import REWARD_PART
from board.core.metrics.kl import FloatArray
from board.core.metrics.shares import percent

_HACK_SOURCE: Final = (
    "Skalse et al. 2022, Defining and Characterizing Reward Hacking, arXiv 2209.13085; thresholds "
    "set by Rollout Board"
)
_ENV_SOURCE: Final = (
    "prime-rl@559b447 docs/training.md logs metrics of all and of each env apart; thresholds "
    "set by Rollout Board"
)


def part_falls(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """The reward rises, and a part of it falls to a fraction of what it was."""
    reward = facts.curve("reward_mean")
    steps = int(limits["steps"])
    if reward is None or len(reward) < 2 * steps:
        return
    rises = _changes(reward, steps)
    for column in facts.parts:
        part = facts.curve(f"{column}_mean")
        if part is None:
            continue
        early = float(trailing_mean(part[:steps], steps)[-1])
        if not early > 0:
            continue
        falls = _changes(part, steps)
        lost = -falls[0] / early
        fires = (rises[0] > limits["errors"] * rises[1]) & (-falls[0] > limits["errors"] * falls[1])
        fires &= lost >= limits["warning"]
        for period in periods(facts.steps, fires, lost, calm=steps):
            low = early * (1 - limits["warning"])
            first = int(facts.steps[onset(-part, -low, period.first, steps)])
            yield _fallen(facts, limits, column, period, first, float(lost[period.worst]))


def hidden_env(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """One environment loses a good part of its reward, and the mean over all does not show it."""
    curves, steps = facts.env_rewards, int(limits["steps"])
    if curves is None or len(curves.names) < 2 or len(facts.steps) < 2 * steps:
        return
    change, error = _changes(curves.overall, steps)
    calm = change > -limits["errors"] * error
    errors = _errors_of_any(limits["errors"], len(curves.names))
    for place, (name, means) in enumerate(zip(curves.names, curves.means, strict=True)):
        early = float(trailing_mean(means[:steps], steps)[-1])
        if not early > 0:
            continue
        own, own_error = _changes(means, steps)
        lost = -own / early
        fires = calm & (-own > errors * own_error) & (lost >= limits["warning"])
        for period in periods(facts.steps, fires, lost, calm=steps):
            env = _Env(place, name, means, early)
            yield _hidden(facts, limits, env, period, lost)


def _errors_of_any(errors: float, envs: int) -> float:
    """The standard errors that chance takes one of so many environments beyond as often as a single one
    beyond `errors` (Bonferroni; Dunn 1961, Multiple Comparisons Among Means).
    """
    tail = NormalDist().cdf(-errors) / envs
    return -NormalDist().inv_cdf(tail) if tail > 0 else errors


@dataclass(frozen=True)
class _Env:
    """An environment. place: in Facts.env_rewards; means: [S] of the rewards of its rollouts; early: of
    the first steps.
    """

    place: int
    name: str
    means: FloatArray
    early: float


def _hidden(facts: Facts, limits: Limits, env: _Env, period: Period, lost: FloatArray) -> Finding:
    step, steps = period.step, int(limits["steps"])
    low = env.early * (1 - limits["warning"])
    first = onset(-env.means, -low, period.first, steps)
    most = int(facts.steps[worst_of(-env.means, period.worst, steps)])
    return Finding(
        "hidden_env",
        "warning",
        "An environment gets worse while the mean does not",
        f"Between the first {steps} steps and those up to {step} the reward of env {env.name!r} fell by "
        f"{percent(lost[period.worst])}, while the mean over all environments did not fall.",
        step,
        int(facts.steps[first]),
        period.steps[2],
        float(lost[period.worst]),
        limits["warning"],
        _ENV_SOURCE,
        Target("environments", most, metric="reward", env=env.name),
        "share of the env's early reward that is lost",
        facts.top(most, "reward", lowest=True, among=facts.rows_of(most).envs == env.place),
    )


def _changes(values: FloatArray, steps: int) -> tuple[FloatArray, FloatArray]:
    """[S] mean of the last `steps` values less that of the first ones, and its standard error."""
    means, errors = trailing_mean(values, steps), trailing_error(values, steps)
    change = means - means[steps - 1]
    change[: 2 * steps - 1] = np.nan
    return change, np.hypot(errors, errors[steps - 1])


def _fallen(
    facts: Facts, limits: Limits, column: str, period: Period, first: int, lost: float
) -> Finding:
    step, steps = period.step, int(limits["steps"])
    curve = facts.curve(f"{column}_mean")
    assert curve is not None
    most = int(facts.steps[worst_of(-curve, period.worst, steps)])
    part = column.removeprefix(REWARD_PART)
    paid = _paid_without(facts, most, column)
    return Finding(
        "part_falls",
        "severe" if lost >= limits["severe"] else "warning",
        "The reward rises while one of its parts falls",
        f"Between the first {steps} steps and those up to {step} the reward rose and its part "
        f"{part!r} fell by {percent(lost)}. Something else pays more: read a few rollouts with the "
        "highest reward.",
        step,
        first,
        period.steps[2],
        lost,
        limits["warning"],
        _HACK_SOURCE,
        Target("rollouts", most, first_index(paid), metric="reward"),
        "share of the part's early value that is lost",
        paid,
    )


def _paid_without(facts: Facts, step: int, column: str) -> tuple[Evidence, ...]:
    """The rollouts of the highest reward among those that the falling part pays less than usual."""
    part = facts.rows_of(step).columns[column]
    known = part[np.isfinite(part)]
    if not len(known):
        return facts.top(step, "reward")
    return facts.top(step, "reward", among=part <= float(np.mean(known)))


def reward_outliers(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """A reward far outside of the range of all rewards before it."""
    checks = facts.checks
    if checks is None or not checks.scored.any():
        return
    low = np.where(checks.scored > 0, checks.lowest, np.inf)
    high = np.where(checks.scored > 0, checks.highest, -np.inf)
    past = int(limits["steps"])
    beyond = np.zeros(len(low))
    lowest, highest = np.inf, -np.inf
    for i in range(len(low)):
        reward_range = highest - lowest
        if i >= past and reward_range > 0:
            beyond[i] = max(high[i] - highest, lowest - low[i]) / reward_range
        if beyond[i] <= limits["times"]:  # an outlier widens no range
            lowest, highest = min(lowest, low[i]), max(highest, high[i])
    for period in periods(facts.steps, beyond > limits["times"], beyond):
        step = period.step
        is_high = high[period.worst] > highest
        out = limits["times"] * (highest - lowest)
        bound = highest + out if is_high else lowest - out
        outside = facts.top(step, "reward", lowest=not is_high, beyond=bound)
        value = float(beyond[period.worst])
        severity: Severity = "severe" if value > limits["severe_times"] else "warning"
        yield Finding(
            "reward_outliers",
            severity,
            "A reward far outside the earlier range",
            f"At step {step} a reward lies {rounded(value)} times the width of the earlier range "
            f"({rounded(lowest)} to {rounded(highest)}) outside it. One such reward moves its group's "
            "mean and spread. Is it intended?",
            *period.steps,
            value,
            limits["times"],
            "the range of all rewards before; thresholds set by Rollout Board",
            Target("rollouts", step, first_index(outside), metric="reward", lowest=not is_high),
            "times the range",
            outside,
        )


def unscored(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Rollouts without a reward in a run that records rewards: failed, lost, or not a number."""
    checks = facts.checks
    if checks is None or not checks.scored.any():
        return
    share = (checks.rollouts - checks.scored) / checks.rollouts
    for period in periods(facts.steps, share >= limits["share"], share):
        step = period.step
        rows = facts.rows_of(step)
        places = np.flatnonzero(~np.isfinite(rows.columns["reward"]))[:3].tolist()
        lost = tuple(Evidence(step, int(rows.indices[i])) for i in places)
        yield Finding(
            "unscored",
            "warning",
            "Rollouts without a reward",
            f"{percent(share[period.worst])} of the rollouts of step {step} have no reward. They "
            "are left out of every mean. Did the environment or the grader fail, or was the reward "
            "not a number?",
            *period.steps,
            float(share[period.worst]),
            limits["share"],
            "threshold set by Rollout Board",
            Target("rollouts", step, first_index(lost), metric="reward"),
            "share of rollouts",
            lost,
        )
