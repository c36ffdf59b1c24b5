"""What the policy learns from: entropy, groups without gradient, advantages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.advantages import CONVENTIONS, FitCounts, by_convention, told
from board.core.findings.facts import Facts
from board.core.findings.finding import Evidence, Finding, Severity, Target
from board.core.findings.thresholds import Limits
from board.core.findings.trailing import onset, stretches, trailing_mean
from board.core.groups import Outcome, groups_of

_ENTROPY_SOURCE: Final = "arXiv 2505.22617: entropy is consumed for reward; bounds are the board's"
_GROUPS_SOURCE: Final = "DAPO, arXiv 2503.14476, dynamic sampling; TRL frac_reward_zero_std"
_OUTCOMES: Final = {Outcome.ALL_RIGHT: "all right", Outcome.ALL_WRONG: "all wrong"}


def entropy_collapse(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """The mean entropy of the last steps is a small part of that of the first ones."""
    values = facts.curve("entropy_mean")
    steps = int(limits["steps"])
    if values is None or len(values) < 2 * steps:
        return
    means = trailing_mean(values, steps)
    first = means[np.isfinite(means)][:1]
    if not len(first) or first[0] <= 0:
        return
    share = means / first[0]
    for stretch in stretches(share < limits["warning"], -share, calm=steps):
        value = float(share[stretch.worst])
        severity: Severity = "severe" if value < limits["severe"] else "warning"
        step = int(facts.steps[stretch.worst])
        text = (
            f"Entropy was {first[0]:.3g} nats in the first {steps} steps and is "
            f"{means[stretch.worst]:.3g} "
            f"in those up to step {step}. Samples of one prompt may have become alike, and little is "
            "left to learn from their differences."
        )
        yield Finding(
            "entropy_collapse",
            severity,
            "Entropy has collapsed",
            text,
            step,
            int(facts.steps[onset(values < limits["warning"] * first[0], stretch.first, steps)]),
            int(facts.steps[stretch.last]),
            value,
            limits["warning"],
            _ENTROPY_SOURCE,
            Target("overview", step, metric="entropy_mean"),
            "share of the first steps' entropy",
            facts.top(step, "entropy_mean", lowest=True),
        )


def zero_gradient(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Most groups have equal rewards throughout, so that the batch is smaller than it looks."""
    found = facts.step_groups
    if found is None:
        return
    steps = min(int(limits["steps"]), len(found.steps))
    means = trailing_mean(found.zero_std, steps)
    for stretch in stretches(means >= limits["warning"], means, calm=steps):
        value = float(means[stretch.worst])
        severity: Severity = "severe" if value >= limits["severe"] else "warning"
        step = int(found.steps[stretch.worst])
        first = onset(found.zero_std >= limits["warning"], stretch.first, steps)
        right, wrong = (
            float(trailing_mean(part, steps)[stretch.worst])
            for part in (found.all_right, found.all_wrong)
        )
        text = (
            f"In the {steps} steps up to {step}, {value:.0%} of the groups have equal rewards throughout "
            f"({right:.0%} all right, {wrong:.0%} all wrong): {found.effective[stretch.worst]} of "
            f"{found.rollouts[stretch.worst]} rollouts of step {step} give a gradient. "
            "Prompts may be too "
            "easy or too hard, or the reward may have lost its grading."
        )
        yield Finding(
            "zero_gradient",
            severity,
            "Groups without a gradient",
            text,
            step,
            int(found.steps[first]),
            int(found.steps[stretch.last]),
            value,
            limits["warning"],
            _GROUPS_SOURCE,
            Target("groups", step, metric="reward"),
            "share of groups",
            _equal_groups(facts, step),
        )


def _equal_groups(facts: Facts, step: int, count: int = 3) -> tuple[Evidence, ...]:
    """The first rollout of some groups of equal rewards."""
    groups = facts.groups
    assert groups is not None
    rows = facts.rows_of(step)
    found: dict[int, Evidence] = {}
    for place in np.flatnonzero(rows.groups >= 0).tolist():
        group = int(rows.groups[place])
        outcome = Outcome(int(groups.outcomes[group]))
        if outcome in (Outcome.MIXED, Outcome.FEW) or group in found:
            continue
        label = _OUTCOMES.get(outcome, "all equal")
        index = int(rows.indices[place])
        found[group] = Evidence(step, index, None, label, float(groups.mean[group]))
        if len(found) == count:
            break
    return tuple(found.values())


def advantages(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Recorded advantages are not those that the rewards give by the run's own convention."""
    counts = facts.checks.fit if facts.checks is not None else None
    if counts is None or facts.groups is None:
        return
    fit = told(counts)
    label = CONVENTIONS[fit.closest].label
    if not fit.compared:
        return
    if fit.convention is None:
        share = float(fit.shares[fit.closest])
        yield Finding(
            "advantages",
            "lead",
            "Advantages follow no known convention",
            f"{share:.0%} of the steps have the advantages of the closest convention, {label}. The "
            "trainer may "
            "shape, whiten or clip them, or rewards may have changed after they were made.",
            None,
            None,
            None,
            share,
            0.5,
            CONVENTIONS[fit.closest].source,
            Target("groups", metric="advantage"),
            "share of steps that fit",
        )
        return
    yield from _differing(facts, limits, counts, fit.closest)


def _differing(
    facts: Facts, limits: Limits, counts: FitCounts, convention: str
) -> Iterator[Finding]:
    assert facts.checks is not None, "there are counts"
    label = CONVENTIONS[convention].label
    shares = np.zeros(len(facts.steps))
    shares[np.searchsorted(facts.steps, counts.steps)] = counts.differs[convention]
    shares /= facts.checks.rollouts
    for stretch in stretches(shares > limits["share"], shares):
        step = int(facts.steps[stretch.worst])
        yield Finding(
            "advantages",
            "warning",
            "Advantages differ from what the rewards give",
            f"The run follows {label}; at step {step} {shares[stretch.worst]:.0%} of the recorded "
            "advantages are others. Were rewards changed, groups mixed up, or rollouts dropped since?",
            step,
            int(facts.steps[stretch.first]),
            int(facts.steps[stretch.last]),
            float(shares[stretch.worst]),
            limits["share"],
            "see core/advantages.py",
            Target("groups", step, metric="advantage"),
            "share of rollouts",
            _others(facts, step, convention),
        )


def _others(facts: Facts, step: int, convention: str) -> tuple[Evidence, ...]:
    """The first rollouts of a step whose advantages are not those of the convention."""
    rows = facts.rows_of(step)
    rewards, recorded = rows.columns["reward"], rows.columns["advantage"]
    groups = groups_of(np.full(len(rewards), step), rows.groups, rewards)
    expected, differs = by_convention(convention, rewards, recorded, groups)
    return tuple(
        Evidence(
            step, int(rows.indices[i]), None, f"expected {expected[i]:.4g}", float(recorded[i])
        )
        for i in np.flatnonzero(differs)[:3].tolist()
    )
