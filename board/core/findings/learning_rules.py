"""What the policy learns from: entropy, groups without gradient, advantages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.advantages import CONVENTIONS, AdvantageFit, fit_advantages
from board.core.findings.facts import Facts
from board.core.findings.finding import Evidence, Finding, Severity, Target
from board.core.findings.thresholds import Limits
from board.core.findings.trailing import onset, stretches, trailing_mean, window_words, worst_of
from board.core.groups import Outcome
from board.core.kl import FloatArray

_ENTROPY_SOURCE: Final = (
    "arXiv 2505.22617: entropy is traded for reward, and its collapse ends the gains; arXiv 2506.01939: "
    "a minority of tokens of high entropy carries them; bounds are the board's"
)
_GROUPS_SOURCE: Final = (
    "DAPO, arXiv 2503.14476, 3.2 on dynamic sampling; TRL frac_reward_zero_std (trl@f2cd577); bounds are "
    "the board's"
)
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
        bound = limits["warning"] * float(first[0])
        yield Finding(
            "entropy_collapse",
            severity,
            "Entropy has collapsed",
            text,
            step,
            int(facts.steps[onset(-values, -bound, stretch.first, steps)]),
            int(facts.steps[stretch.last]),
            value,
            limits["warning"],
            _ENTROPY_SOURCE,
            Target("tokens", step, metric="entropy", lowest=True),
            "share of the first steps' entropy",
            facts.top(step, "entropy_mean", lowest=True),
        )


def zero_gradient(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Most groups have equal rewards throughout, so that the batch is smaller than it looks."""
    found = facts.step_groups
    if found is None:
        return
    steps = min(int(limits["steps"]), len(found.steps))
    # A few steps alone, an evaluation say, are no training that fails.
    is_whole = steps == int(limits["steps"])
    means = trailing_mean(found.zero_std, steps)
    for stretch in stretches(means >= limits["warning"], means, calm=steps):
        value = float(means[stretch.worst])
        severity: Severity = "severe" if value >= limits["severe"] and is_whole else "warning"
        step = int(found.steps[stretch.worst])
        first = onset(found.zero_std, limits["warning"], stretch.first, steps)
        equal = _equal_groups(
            facts, int(found.steps[worst_of(found.zero_std, stretch.worst, steps)])
        )
        right, wrong = (
            float(trailing_mean(part, steps)[stretch.worst])
            for part in (found.all_right, found.all_wrong)
        )
        text = (
            f"In {window_words(steps, step)}, {value:.0%} of the groups have equal rewards throughout "
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
    rows = facts.rows(step)
    of_row = groups.of_row[rows]
    found: dict[int, Evidence] = {}
    for place in np.flatnonzero(of_row >= 0).tolist():
        group = int(of_row[place])
        outcome = Outcome(int(groups.outcomes[group]))
        if outcome in (Outcome.MIXED, Outcome.FEW) or group in found:
            continue
        label = _OUTCOMES.get(outcome, "all equal")
        index = int(facts.index_of[rows][place])
        found[group] = Evidence(step, index, None, label, float(groups.mean[group]))
        if len(found) == count:
            break
    return tuple(found.values())


def advantages(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Recorded advantages are not those that the rewards give by the run's own convention."""
    rewards, recorded = facts.columns.get("reward"), facts.columns.get("advantage")
    if rewards is None or recorded is None or facts.groups is None:
        return
    fit = fit_advantages(rewards, recorded, facts.groups)
    label = CONVENTIONS[fit.closest].label
    if fit.compared < limits["least"]:
        return
    if fit.convention is None:
        share = float(fit.shares[fit.closest])
        furthest = _furthest(facts, fit, recorded)
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
            _furthest_place(furthest),
            "share of steps",
            furthest,
        )
        return
    yield from _differing(facts, limits, fit, recorded)


def _furthest(facts: Facts, fit: AdvantageFit, recorded: FloatArray) -> tuple[Evidence, ...]:
    """The rollouts whose advantage is furthest from what the closest convention gives."""
    apart = np.nan_to_num(np.abs(recorded - fit.expected), nan=-1.0)
    return tuple(
        Evidence(
            int(facts.step_of[i]),
            int(facts.index_of[i]),
            None,
            f"expected {fit.expected[i]:.4g}",
            float(recorded[i]),
        )
        for i in np.argsort(-apart, kind="stable")[:3].tolist()
        if apart[i] > 0
    )


def _furthest_place(found: tuple[Evidence, ...]) -> Target:
    if not found:
        return Target("groups", metric="advantage")
    return Target("groups", found[0].step, found[0].index, metric="advantage")


def _differing(
    facts: Facts, limits: Limits, fit: AdvantageFit, recorded: FloatArray
) -> Iterator[Finding]:
    differs, expected = fit.differs, fit.expected
    label, source = CONVENTIONS[fit.closest].label, CONVENTIONS[fit.closest].source
    of_step = np.searchsorted(facts.steps, facts.step_of)
    count = len(facts.steps)
    shares = np.bincount(of_step[differs], minlength=count) / np.maximum(
        np.bincount(of_step, minlength=count), 1
    )
    for stretch in stretches(shares > limits["share"], shares):
        step = int(facts.steps[stretch.worst])
        rows = facts.rows(step)
        places = np.flatnonzero(differs[rows])[:3].tolist()
        first = int(facts.index_of[rows][places[0]])
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
            f"{source}; the bound is the board's",
            Target("groups", step, first, metric="advantage"),
            "share of rollouts",
            tuple(
                Evidence(
                    step,
                    int(facts.index_of[rows][i]),
                    None,
                    f"expected {expected[rows][i]:.4g}",
                    float(recorded[rows][i]),
                )
                for i in places
            ),
        )
