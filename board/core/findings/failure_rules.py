"""Failures that the policy did not make: of infrastructure, in one place, and a judge that writes one
reward for all. They are trained on as if they were the policy's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray, IntArray, divided
from board.core.failures.causes import CAUSES, PLUMBING, Cause
from board.core.findings.facts import Facts, FailedRows, FailuresBy, RewardModes, StepChecks
from board.core.findings.finding import Evidence, Limits, Match, Target, first_index, rounded
from board.core.findings.trailing import Period, periods
from board.core.groups.statistics import by_step
from board.core.metrics.exact_test import is_fisher_below
from board.core.metrics.shares import of_many, percent

_TITLES: Final = {
    "tool_error": "Tools failed, not the policy",
    "sandbox": "Sandboxes failed, not the policy",
    "judge": "The judge failed, not the policy",
    "server": "The model's server failed, not the policy",
    "unknown": "Rollouts failed, and the log does not say whose fault it is",
    "aborted": "Rollouts were stopped from outside and are trained on",
}
_OF: Final = {"rank": "of rank {}", "env": "of env {!r}", "tool": "whose last tool is {!r}"}
_NAMED: Final = 3
"""Rollouts that a finding names."""
_LONGEST: Final = 80
_MOST_VALUES: Final = 4
"""Rewards that many steps have throughout; of more than a few nothing is a placeholder."""
_TO_STD: Final = 1.4826
"""Of a median absolute deviation, for a normal distribution."""


def plumbing(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Rollouts that failed by a tool, a sandbox, a judge or a server, or whose log says that they failed.

    Failures that are too few at each step for that are found over the whole run.
    """
    checks = facts.checks
    if checks is None:
        return
    for cause in (*PLUMBING, "unknown", "aborted"):
        counts = facts.causes.get(cause)
        if counts is None:
            continue
        shares = divided(counts, checks.rollouts)
        fires = (shares >= limits["share"]) & (counts >= limits["rollouts"])
        frequent = [*periods(facts.steps, fires, shares, calm=int(limits["calm"]))]
        for period in frequent:
            yield _failed(facts, cause, counts, checks.rollouts, period, limits)
        if not frequent and counts.sum() >= max(
            limits["rollouts"], limits["share"] * checks.rollouts.sum()
        ):
            (period,) = periods(facts.steps, counts > 0, shares, calm=len(counts))
            yield _failed(facts, cause, counts, checks.rollouts, period, limits)


def _failed(
    facts: Facts, cause: Cause, counts: IntArray, rollouts: IntArray, period: Period, limits: Limits
) -> Match:
    """Failures of one cause in a period."""
    step, value = period.step, float(counts[period.worst] / rollouts[period.worst])
    rows = facts.failed_of(step)
    own = np.array([one == cause for one in rows.causes], bool)
    share = of_many(int(counts[period.worst]), int(rollouts[period.worst]))
    during = slice(period.first, period.last + 1)
    total, of = int(counts[during].sum()), int(rollouts[during].sum())
    longer = f", {of_many(total, of)} in this period" if period.last > period.first else ""
    text = (
        f"{share} rollouts of step {step}{longer} have the cause {cause}: {CAUSES[cause]}. "
        f"{_scored_as(rows.rewards[own])} Read a few, and see what the log says of them."
    )
    evidence = _evidence(rows, step, own)
    is_severe = cause in PLUMBING and value >= limits["severe"] and total >= limits["rollouts"]
    return Match(
        "lead" if cause == "aborted" else "severe" if is_severe else "warning",
        text,
        period.steps,
        value,
        limits["share"],
        Target("failures", step, first_index(evidence), metric=cause),
        evidence,
        _TITLES[cause],
        subject=cause,
        rollouts=total,
    )


def _scored_as(rewards: FloatArray) -> str:
    """What failed rollouts are trained on as, in a sentence."""
    known = rewards[np.isfinite(rewards)]
    if not len(known):
        return "None of them has a reward."
    low, high = float(known.min()), float(known.max())
    what = f"rewards of {rounded(low)}" if low == high else f"{rounded(low)} to {rounded(high)}"
    some = "They" if len(known) == len(rewards) else f"{len(known):,} of them"
    return f"{some} are trained on as {what}, unless the trainer masks them."


def _evidence(rows: FailedRows, step: int, among: BoolArray) -> tuple[Evidence, ...]:
    """The first of some failed rollouts, with what the log says."""
    some = zip(rows.indices.tolist(), rows.evidence, among, strict=True)
    named = [Evidence(step, i, None, words[:_LONGEST]) for i, words, is_own in some if is_own]
    return tuple(named[:_NAMED])


def burst(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Failures of a few steps that concentrate on one rank, one environment or one tool."""
    for by in facts.failures_by:
        for place in range(len(by.values)):
            marked = _concentrated(by, place, limits)
            shares = divided(by.failed[place], by.rollouts[place])
            for period in periods(facts.steps, marked, np.nan_to_num(shares)):
                yield _burst(facts, by, place, period, limits["share"])


def _burst(facts: Facts, by: FailuresBy, place: int, period: Period, bound: float) -> Match:
    at, step = period.worst, period.step
    failed, rollouts = int(by.failed[place, at]), int(by.rollouts[place, at])
    others, total = int(by.all_failed[at]) - failed, int(by.all_rollouts[at]) - rollouts
    rows = facts.failed_of(step)
    name = by.values[place]
    own = np.array([value == name for value in rows.values[by.kind]], bool)
    causes = Counter(cause for cause, is_own in zip(rows.causes, own, strict=True) if is_own)
    named = " and ".join(cause for cause, _ in causes.most_common(2))
    common = next(iter(causes.most_common(1)), ("", 0))[0]
    compared = f", and {of_many(others, total)} of the others" if total else ""
    text = (
        f"At step {step}, {of_many(failed, rollouts)} rollouts {_OF[by.kind].format(name)} failed "
        f"({named}){compared}: more than chance gives one of {by.among}. What is different there?"
    )
    # Ranks do the same work; tasks and tools may differ in what takes long.
    is_plumbing = common in PLUMBING
    evidence = _evidence(rows, step, own)
    env = name if by.kind == "env" else ""
    subject = f"{by.kind} {name}"
    return Match(
        "warning" if by.kind == "rank" or is_plumbing else "lead",
        text,
        period.steps,
        failed / rollouts,
        bound,
        Target("failures", step, first_index(evidence), metric=common, env=env),
        evidence,
        f"Failures concentrate on {subject}",
        subject=subject,
        rollouts=int(by.failed[place, period.first : period.last + 1].sum()),
    )


def _concentrated(by: FailuresBy, place: int, limits: Limits) -> BoolArray:
    """[S] steps whose failures lie on one value more than chance allows (Bonferroni, over values and
    steps): by themselves, or with the steps before, of which those count that have at least half of
    their share.
    """
    marked = np.zeros(len(by.all_failed), bool)
    own, single = by.failed[place], divided(by.failed[place], by.rollouts[place])
    for steps in (1, int(limits["steps"])):
        failed, rollouts = _sums(own, steps), _sums(by.rollouts[place], steps)
        others = _sums(by.all_failed, steps) - failed
        total = _sums(by.all_rollouts, steps) - rollouts
        share = divided(failed, rollouts)
        tested = int((failed + others >= limits["rollouts"]).sum())
        fires = (failed >= limits["rollouts"]) & (share >= limits["share"]) & (total > 0)
        fires &= _sums(by.prompts[place], steps) >= limits["prompts"]
        fires &= failed * total > others * rollouts
        bound = limits["p"] / max(by.among * tested, 1)
        asked = np.flatnonzero(fires)
        counts = (failed[asked], rollouts[asked], others[asked], total[asked])
        for at in asked[is_fisher_below(*counts, bound)].tolist():
            window = slice(max(at - steps + 1, 0), at + 1)
            marked[window] |= (own[window] > 0) & (single[window] >= share[at] / 2)
    return marked


def _sums(values: IntArray, steps: int) -> IntArray:
    """[S] of each value and the steps - 1 before it."""
    sums = np.cumsum(values)
    sums[steps:] -= sums[:-steps].copy()
    return sums


def placeholder_reward(facts: Facts, limits: Limits) -> Iterator[Match]:
    """One reward for nearly all rollouts of a step, as a judge that fails may write."""
    checks, modes = facts.checks, facts.reward_modes
    if checks is None or modes is None or not checks.scored.any():
        return
    shares = divided(modes.counts, checks.scored)
    asked = (shares >= limits["share"]) & (checks.scored >= limits["rollouts"])
    asked &= modes.values < np.nanmax(checks.highest)
    if _has_equal_groups(facts, asked):
        return
    values, often = np.unique(modes.values[asked], return_counts=True)
    for value in values[np.argsort(-often)][:_MOST_VALUES].tolist():
        fires, usual = _unusual(checks, modes, asked & (modes.values == value), value, limits)
        for period in periods(facts.steps, fires, shares):
            yield _placeholder(facts, checks, modes, period, usual[period.first], limits)


def _placeholder(
    facts: Facts,
    checks: StepChecks,
    modes: RewardModes,
    period: Period,
    usual: float,
    limits: Limits,
) -> Match:
    at, step = period.worst, period.step
    count, scored, value = int(modes.counts[at]), int(checks.scored[at]), float(modes.values[at])
    evidence: tuple[Evidence, ...] = ()
    if period.is_named:
        rows = facts.rows_of(step)
        indices = rows.indices[rows.columns["reward"] == value][:_NAMED].tolist()
        evidence = tuple(Evidence(step, index, value=value) for index in indices)
    text = (
        f"{of_many(count, scored)} scored rollouts of step {step} have the reward {rounded(value)}; "
        f"at the steps before, {percent(usual)} usually have it. Did the judge fail and write this in "
        "place of a score, or did all answers really become alike?"
    )
    return Match(
        "lead" if period.count == 1 else "warning",
        text,
        period.steps,
        count / scored,
        limits["share"],
        Target("rollouts", step, first_index(evidence), metric="reward", lowest=True),
        evidence,
        subject=rounded(value),
    )


def _has_equal_groups(facts: Facts, without: BoolArray) -> bool:
    """Whether groups of equal rewards are usual at the other steps."""
    if facts.groups is None:
        return False
    groups = by_step(facts.groups)
    others = ~np.isin(groups.steps, facts.steps[without]) & np.isfinite(groups.zero_std)
    return bool(others.any()) and float(np.median(groups.zero_std[others])) >= _USUAL_GROUPS


_USUAL_GROUPS: Final = 0.5


def _unusual(
    checks: StepChecks, modes: RewardModes, asked: BoolArray, value: float, limits: Limits
) -> tuple[BoolArray, FloatArray]:
    """[S] steps at which a reward is of nearly all and usually is not, and [S] what was usual before."""
    counts, prompts = modes.with_reward(value)
    shares = divided(counts, checks.scored)
    fires, usual = np.zeros(len(shares), bool), np.full(len(shares), np.nan)
    for at in np.flatnonzero(asked).tolist():
        before = shares[:at][~fires[:at] & (checks.scored[:at] > 0)]
        if len(before) < limits["steps"] or prompts[at] < limits["prompts"]:
            continue
        usual[at] = float(np.median(before))
        deviation = _TO_STD * float(np.median(np.abs(before - usual[at])))
        is_beyond = shares[at] > usual[at] + limits["deviations"] * deviation
        fires[at] = usual[at] < limits["usual"] and is_beyond
    return fires, usual
