"""What the policy learns from: entropy, groups without gradient, advantages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.findings.facts import Facts, StepRows
from board.core.findings.finding import Evidence, Finding, Limits, Severity, Target, first_index
from board.core.findings.trailing import onset, periods, trailing_mean, window_words, worst_of
from board.core.groups.statistics import CONVENTIONS, FitCounts, Outcome, fitted_convention
from board.core.metrics.kl import FloatArray
from board.core.metrics.shares import percent

_ENTROPY_SOURCE: Final = (
    "arXiv 2505.22617: entropy is traded for reward, and its collapse ends the gains; arXiv 2506.01939: "
    "a minority of tokens of high entropy carries them; thresholds set by Rollout Board"
)
_GROUPS_SOURCE: Final = (
    "DAPO, arXiv 2503.14476, 3.2 on dynamic sampling; TRL frac_reward_zero_std (trl@f2cd577); thresholds "
    "set by Rollout Board"
)
_OUTCOMES: Final = {Outcome.ALL_RIGHT: "all right", Outcome.ALL_WRONG: "all wrong"}
_NAMED_ROLLOUTS: Final = 3
"""Rollouts that a finding names."""


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
    for period in periods(facts.steps, share < limits["warning"], -share, calm=steps):
        value = float(share[period.worst])
        severity: Severity = "severe" if value < limits["severe"] else "warning"
        step = period.step
        text = (
            f"Entropy was {first[0]:.3g} nats in the first {steps} steps and is "
            f"{means[period.worst]:.3g} "
            f"in the {steps} up to step {step}. Samples of one prompt may have become alike, which "
            "leaves little to learn from."
        )
        bound = limits["warning"] * float(first[0])
        yield Finding(
            "entropy_collapse",
            severity,
            "Entropy has collapsed",
            text,
            step,
            int(facts.steps[onset(-values, -bound, period.first, steps)]),
            period.steps[2],
            value,
            limits["warning"],
            _ENTROPY_SOURCE,
            Target("tokens", step, metric="entropy", lowest=True),
            "share of the first steps' entropy",
            facts.top(step, "entropy_mean", lowest=True),
        )


def zero_gradient(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Most groups have equal rewards throughout, so that the batch is smaller than it looks."""
    step_groups = facts.step_groups
    if step_groups is None:
        return
    steps = min(int(limits["steps"]), len(step_groups.steps))
    # A few steps alone, an evaluation say, are no training that fails.
    is_whole = steps == int(limits["steps"])
    means = trailing_mean(step_groups.zero_std, steps)
    for period in periods(step_groups.steps, means >= limits["warning"], means, calm=steps):
        value = float(means[period.worst])
        severity: Severity = "severe" if value >= limits["severe"] and is_whole else "warning"
        step = period.step
        first = onset(step_groups.zero_std, limits["warning"], period.first, steps)
        most = int(step_groups.steps[worst_of(step_groups.zero_std, period.worst, steps)])
        equal = _equal_groups(facts, most)
        shares = (
            (step_groups.all_right, "all right"),
            (step_groups.all_wrong, "all wrong"),
            (step_groups.other, "equal otherwise"),
        )
        means_of = [(trailing_mean(part, steps)[period.worst], words) for part, words in shares]
        outcomes = ", ".join(f"{percent(mean)} {words}" for mean, words in means_of if mean > 0)
        text = (
            f"In {window_words(steps, step)}, {percent(value)} of the groups have equal rewards "
            f"({outcomes}): {step_groups.effective[period.worst]} of "
            f"{step_groups.rollouts[period.worst]} rollouts of step {step} are in groups whose rewards "
            "differ. "
            f"{f'Step {most} has the most. ' if most != step else ''}"
            "Prompts may be too easy or too hard, or the reward may no longer distinguish answers."
        )
        yield Finding(
            "zero_gradient",
            severity,
            "Groups whose rewards are all equal",
            text,
            step,
            int(step_groups.steps[first]),
            period.steps[2],
            value,
            limits["warning"],
            _GROUPS_SOURCE,
            Target(
                "groups",
                equal[0].step if equal else step,
                equal[0].index if equal else None,
                metric="reward",
            ),
            "share of groups",
            equal,
        )


def _equal_groups(facts: Facts, step: int, count: int = 3) -> tuple[Evidence, ...]:
    """The first rollout of some groups of equal rewards."""
    groups = facts.groups
    assert groups is not None
    rows = facts.rows_of(step)
    evidence: dict[int, Evidence] = {}
    for place in np.flatnonzero(rows.groups >= 0).tolist():
        group = int(rows.groups[place])
        outcome = Outcome(int(groups.outcomes[group]))
        if outcome in (Outcome.MIXED, Outcome.TOO_FEW_SCORED) or group in evidence:
            continue
        label = _OUTCOMES.get(outcome, "all equal")
        index = int(rows.indices[place])
        evidence[group] = Evidence(step, index, None, label, float(groups.mean[group]))
        if len(evidence) == count:
            break
    return tuple(evidence.values())


def advantages(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Recorded advantages are not those that the rewards give by the run's own convention."""
    counts = facts.fit
    if counts is None or facts.groups is None:
        return
    fit = fitted_convention(counts)
    label = CONVENTIONS[fit.closest].label
    if fit.compared < limits["least"]:
        return
    if fit.convention is None:
        share = float(fit.shares[fit.closest])
        furthest = _furthest(facts, counts, fit.closest)
        yield Finding(
            "advantages",
            "lead",
            "Advantages match no known convention",
            f"{percent(share)} of the steps match the closest convention, {label}. The trainer may "
            "shape, whiten or clip advantages, or rewards changed after advantages were computed.",
            None,
            None,
            None,
            share,
            0.5,
            CONVENTIONS[fit.closest].source,
            _furthest_place(furthest),
            "share of steps",
            furthest,
        )
        return
    yield from _differing(facts, limits, counts, fit.closest)


def _furthest(facts: Facts, counts: FitCounts, convention: str) -> tuple[Evidence, ...]:
    """The rollouts whose advantage is furthest from what the convention gives: they are of the steps of
    which the furthest one is so.
    """
    assert facts.expected_advantages is not None, "there are counts"
    of_steps = np.nan_to_num(counts.furthest[convention], nan=-1.0)
    most = np.argsort(-of_steps, kind="stable")[:_NAMED_ROLLOUTS]
    ranked: list[tuple[float, Evidence]] = []
    for step in sorted(counts.steps[most[of_steps[most] > 0]].tolist()):
        rows = facts.rows_of(step)
        expected, _ = facts.expected_advantages(step, convention)
        apart = np.nan_to_num(np.abs(rows.columns["advantage"] - expected), nan=-1.0)
        order = np.argsort(-apart, kind="stable")[:_NAMED_ROLLOUTS]
        ranked += [
            (float(apart[i]), _expects(rows, step, i, expected))
            for i in order.tolist()
            if apart[i] > 0
        ]
    ranked.sort(key=lambda one: -one[0])
    return tuple(evidence for _, evidence in ranked[:_NAMED_ROLLOUTS])


def _furthest_place(evidence: tuple[Evidence, ...]) -> Target:
    if not evidence:
        return Target("groups", metric="advantage")
    return Target("groups", evidence[0].step, evidence[0].index, metric="advantage")


def _differing(
    facts: Facts, limits: Limits, counts: FitCounts, convention: str
) -> Iterator[Finding]:
    assert facts.checks is not None, "there are counts"
    label, source = CONVENTIONS[convention].label, CONVENTIONS[convention].source
    shares = np.zeros(len(facts.steps))
    shares[np.searchsorted(facts.steps, counts.steps)] = counts.differs[convention]
    shares /= facts.checks.rollouts
    for period in periods(facts.steps, shares > limits["share"], shares):
        step = period.step
        others = _others(facts, step, convention)
        yield Finding(
            "advantages",
            "warning",
            "Advantages do not follow from the rewards",
            f"The run follows {label}; at step {step} {percent(shares[period.worst])} of the recorded "
            "advantages differ from it. Were rewards changed, groups mixed up, or rollouts dropped?",
            *period.steps,
            float(shares[period.worst]),
            limits["share"],
            f"{source}; threshold set by Rollout Board",
            Target("groups", step, first_index(others), metric="advantage"),
            "share of rollouts",
            others,
        )


def _others(facts: Facts, step: int, convention: str) -> tuple[Evidence, ...]:
    """The first rollouts of a step whose advantages are not those of the convention."""
    assert facts.expected_advantages is not None, "there are counts"
    rows = facts.rows_of(step)
    expected, differs = facts.expected_advantages(step, convention)
    places = np.flatnonzero(differs)[:_NAMED_ROLLOUTS].tolist()
    return tuple(_expects(rows, step, i, expected) for i in places)


def _expects(rows: StepRows, step: int, place: int, expected: FloatArray) -> Evidence:
    words, recorded = f"expected {expected[place]:.4g}", rows.columns["advantage"][place]
    return Evidence(step, int(rows.indices[place]), None, words, float(recorded))
