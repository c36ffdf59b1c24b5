"""What the policy learns from: entropy, groups without gradient, advantages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.arrays import BoolArray, FloatArray
from board.core.findings.facts import Facts, StepRows
from board.core.findings.finding import Evidence, Limits, Match, Target, first_index
from board.core.findings.trailing import periods, trailing_mean, window_periods, window_words
from board.core.groups.statistics import (
    CONVENTIONS,
    Convention,
    FitCounts,
    Outcome,
    by_step,
    fitted_convention,
)
from board.core.metrics.shares import of_many, percent

_OUTCOMES: Final = {Outcome.ALL_RIGHT: "all right", Outcome.ALL_WRONG: "all wrong"}
_NAMED_ROLLOUTS: Final = 3
"""Rollouts that a finding names."""


def entropy_collapse(facts: Facts, limits: Limits) -> Iterator[Match]:
    """The mean entropy of the last steps is a small part of that of the first ones."""
    values = facts.curve("entropy_mean")
    steps = int(limits["steps"])
    if values is None or len(values) < 2 * steps:
        return
    means = trailing_mean(values, steps)
    first = means[np.isfinite(means)][:1]
    if not len(first) or first[0] <= 0:
        return
    share, bound = means / first[0], limits["warning"]
    for period in window_periods(
        facts.steps, share < bound, -share, -values, -bound * float(first[0]), steps
    ):
        value, step = float(share[period.worst]), period.step
        text = (
            f"Entropy was {first[0]:.3g} nats in the first {steps} steps and is "
            f"{means[period.worst]:.3g} in the {steps} up to step {step}. Samples of one prompt may have "
            "become alike, which leaves little to learn from."
        )
        severity = "severe" if value < limits["severe"] else "warning"
        target = Target("tokens", step, metric="entropy", lowest=True)
        lowest = facts.top(step, "entropy_mean", lowest=True) if period.is_named else ()
        yield Match(severity, text, period.steps, value, bound, target, lowest)


def zero_std_groups(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Most groups have equal rewards throughout, so that the batch is smaller than it looks."""
    if facts.groups is None or not len(facts.groups.steps):
        return
    groups = by_step(facts.groups)
    steps = min(int(limits["steps"]), len(groups.steps))
    # Of small groups many are equal by chance: with prompts of every difficulty 2 of n + 1.
    size = float(np.median(groups.rollouts / np.maximum(groups.groups, 1)))
    usual = min(2 / (size + 1), 1.0)
    bound, severe = (usual + (1 - usual) * limits[name] for name in ("warning", "severe"))
    means = trailing_mean(groups.zero_std, steps)
    first = means[np.isfinite(means)][:1]
    # A few steps alone, an evaluation say, are no training that fails; and what was so from the first
    # step on is how the task is.
    is_whole, was_so = steps == int(limits["steps"]), bool((first >= bound).any())
    shares = {
        "all right": trailing_mean(groups.all_right, steps),
        "all wrong": trailing_mean(groups.all_wrong, steps),
        "equal otherwise": trailing_mean(groups.other, steps),
    }
    for period in window_periods(
        groups.steps, means >= bound, means, groups.zero_std, bound, steps
    ):
        worst, step, most = period.worst, period.step, period.most
        value = float(means[worst])
        known = {words: mean[worst] for words, mean in shares.items() if mean[worst] > 0}
        outcomes = ", ".join(f"{percent(mean)} {words}" for words, mean in known.items())
        equal = _equal_groups(facts, most) if period.is_named else ()
        where = f"Step {most} has the most. " if most != step else ""
        text = (
            f"In {window_words(steps, step)}, {percent(value)} of the groups have equal rewards "
            f"({outcomes}): {groups.effective[worst]} of {groups.rollouts[worst]} rollouts of step "
            f"{step} are in groups whose rewards differ. {where}"
            "Of equal rewards only a KL or entropy term has a gradient. Prompts may be too easy or too "
            "hard, or the reward may no longer distinguish answers."
        )
        severity = "severe" if value >= severe and is_whole else "warning"
        severity = "lead" if was_so else severity
        target = Target("groups", most if equal else step, first_index(equal), metric="reward")
        yield Match(severity, text, period.steps, value, bound, target, equal)


def _equal_groups(facts: Facts, step: int) -> tuple[Evidence, ...]:
    """The first rollout of some groups of equal rewards."""
    assert facts.groups is not None, "there are step groups"
    rows = facts.rows_of(step)
    groups = rows.read_groups()
    _, first = np.unique(groups, return_index=True)
    evidence: list[Evidence] = []
    for place in sorted(first.tolist()):
        group = int(groups[place])
        outcome = Outcome(int(facts.groups.outcomes[group]))
        if group >= 0 and outcome not in (Outcome.MIXED, Outcome.TOO_FEW_SCORED):
            label, mean = _OUTCOMES.get(outcome, "all equal"), float(facts.groups.mean[group])
            evidence.append(Evidence(step, int(rows.indices[place]), None, label, mean))
    return tuple(evidence[:_NAMED_ROLLOUTS])


def advantages(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Recorded advantages are not those that the rewards give by the run's own convention."""
    counts = facts.fit
    if counts is None or facts.groups is None:
        return
    fit = fitted_convention(counts)
    convention = CONVENTIONS[fit.closest]
    if fit.compared < limits["least"]:
        return
    if fit.convention is not None:
        yield from _differing(facts, limits, counts, convention)
        return
    share = float(fit.shares[fit.closest])
    if (flipped := counts.of_group <= -_ALIKE).sum() > len(flipped) * _MOST_STEPS:
        yield _flipped(facts, counts, flipped)
        return
    furthest = _furthest(facts, counts, fit.closest)
    text = (
        f"{percent(share)} of the steps match the closest convention, {convention.label}. "
        f"{_follows(counts)}"
    )
    step, source = furthest[0].step if furthest else None, convention.source
    target = Target("groups", step, first_index(furthest), metric="advantage")
    yield Match("lead", text, (None, None, None), share, 0.5, target, furthest, source=source)


_ALIKE: Final = 0.6
_SAME: Final = 0.995
_MOST_STEPS: Final = 0.5


def _flipped(facts: Facts, counts: FitCounts, flipped: BoolArray) -> Match:
    """Better rollouts of a group have lower advantages at most steps."""
    places = np.flatnonzero(flipped)
    steps, worst = counts.steps[places], int(np.argmin(counts.of_group[places]))
    step, value = int(steps[worst]), float(counts.of_group[places[worst]])
    text = (
        f"At {of_many(len(places), len(flipped))} steps advantages fall as rewards rise within a group "
        f"(correlation {value:.2f} at step {step}). Training on them makes answers worse: is a sign "
        "flipped, or is the reward a cost?"
    )
    target = Target("groups", step, metric="advantage")
    return Match(
        "severe" if len(facts.steps) > _FEW_STEPS else "warning",
        text,
        (step, int(steps[0]), int(steps[-1])),
        value,
        -_ALIKE,
        target,
        title="Advantages have the wrong sign",
        unit="correlation with the reward",
    )


_FEW_STEPS: Final = 3


def _follows(counts: FitCounts) -> str:
    """What the advantages of most steps are like."""
    known = {"of_reward": counts.of_reward, "of_group": counts.of_group}
    middle = {
        name: float(np.median(values[np.isfinite(values)])) if np.isfinite(values).any() else 0.0
        for name, values in known.items()
    }
    if middle["of_reward"] >= max(_SAME, middle["of_group"]):
        return (
            "They are the reward, shifted and scaled over the whole step, as REINFORCE++ and REINFORCE "
            "with a baseline do; check this only if groups are meant to be centred."
        )
    if middle["of_group"] >= _SAME:
        return "They are the reward less its group's mean, scaled in another way."
    return (
        f"They correlate with rewards less their group's mean at {middle['of_group']:.2f}. The trainer "
        "may shape, whiten or clip advantages, or rewards changed after advantages were computed."
    )


def _furthest(facts: Facts, counts: FitCounts, convention: str) -> tuple[Evidence, ...]:
    """The rollouts whose advantage is furthest from what the convention gives: they are of the steps of
    which the furthest one is so.
    """
    of_steps = np.nan_to_num(counts.furthest[convention], nan=-1.0)
    most = np.argsort(-of_steps, kind="stable")[:_NAMED_ROLLOUTS]
    ranked: list[tuple[float, Evidence]] = []
    for step in sorted(counts.steps[most[of_steps[most] > 0]].tolist()):
        rows, expected, _ = _expected(facts, step, convention)
        apart = np.nan_to_num(np.abs(rows.columns["advantage"] - expected), nan=-1.0)
        order = np.argsort(-apart, kind="stable")[:_NAMED_ROLLOUTS]
        places = order[apart[order] > 0].tolist()
        named = _evidence_of(rows, step, places, expected)
        ranked += zip(apart[places].tolist(), named, strict=True)
    ranked.sort(key=lambda one: -one[0])
    return tuple(evidence for _, evidence in ranked[:_NAMED_ROLLOUTS])


def _differing(
    facts: Facts, limits: Limits, counts: FitCounts, convention: Convention
) -> Iterator[Match]:
    assert facts.checks is not None, "there are counts"
    differing = np.zeros(len(facts.steps))
    differing[np.searchsorted(facts.steps, counts.steps)] = counts.differs[convention.name]
    shares = differing / facts.checks.rollouts
    for period in periods(facts.steps, shares > limits["share"], shares):
        step, value = period.step, float(shares[period.worst])
        rows, expected, differs = _expected(facts, step, convention.name)
        places = np.flatnonzero(differs)[:_NAMED_ROLLOUTS].tolist()
        others = _evidence_of(rows, step, places, expected)
        text = (
            f"The run follows {convention.label}; at step {step} {percent(value)} of the recorded "
            "advantages differ from it. Were rewards changed, groups mixed up, or rollouts dropped?"
        )
        target = Target("groups", step, first_index(others), metric="advantage")
        rollouts = int(differing[period.first : period.last + 1].sum())
        share = limits["share"]
        yield Match(
            "warning",
            text,
            period.steps,
            value,
            share,
            target,
            others,
            title="Advantages do not follow from the rewards",
            unit="share of rollouts",
            source=f"{convention.source}; threshold set by Rollout Board",
            rollouts=rollouts,
        )


def _expected(facts: Facts, step: int, convention: str) -> tuple[StepRows, FloatArray, BoolArray]:
    assert facts.expected_advantages is not None, "there are counts"
    return facts.rows_of(step), *facts.expected_advantages(step, convention)


def _evidence_of(
    rows: StepRows, step: int, places: list[int], expected: FloatArray
) -> tuple[Evidence, ...]:
    """These rollouts of a step, with the advantages that were expected."""
    recorded = rows.columns["advantage"]
    return tuple(
        Evidence(
            step, int(rows.indices[i]), None, f"expected {expected[i]:.4g}", float(recorded[i])
        )
        for i in places
    )
