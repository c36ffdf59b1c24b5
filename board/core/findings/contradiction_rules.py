"""What a log says twice must agree: relations between columns that held at first, and break."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.findings.facts import Facts, Relation
from board.core.findings.finding import Evidence, Limits, Match, Target, first_index
from board.core.metrics.definitions import rollout_metric
from board.core.metrics.shares import of_many

_NAMED: Final = 3


def contradiction(facts: Facts, limits: Limits) -> Iterator[Match]:
    """A relation between columns that held in all rollouts, such as acc = [score = 1], breaks."""
    for relation in facts.relations():
        place = _first_broken(relation, limits)
        if place is None:
            continue
        step = int(facts.steps[place])
        count_before = int(relation.rows[:place].sum())
        broken = int(relation.broken[place:].sum())
        known = int(relation.rows[place:].sum())
        last = int(facts.steps[np.flatnonzero(relation.broken)[-1]])
        evidence = tuple(Evidence(step, index) for index in relation.broken_of(step)[:_NAMED])
        labels = " and ".join(rollout_metric(name).label for name in relation.columns)
        text = (
            f"From step {step} on {relation.words} does not hold in {of_many(broken, known)} rollouts; "
            f"before, it held in all {count_before:,}. One of these columns means something else since "
            f"then: no curve or comparison of {labels} across step {step} is of one quantity."
        )
        bound = max(limits["chance"] / count_before, 1e-9)
        yield Match(
            "warning",
            text,
            (step, step, last),
            broken / known,
            bound,
            Target("rollouts", step, first_index(evidence), metric=relation.columns[0]),
            evidence,
            title=f"{relation.words} no longer holds",
            subject=relation.words,
        )


def _first_broken(relation: Relation, limits: Limits) -> int | None:
    """The first place at which it breaks; None where it does not, did not hold for long, or is broken so
    seldom that its breaks before may have been missed by chance.
    """
    broken = np.flatnonzero(relation.broken)
    if not len(broken):
        return None
    first = int(broken[0])
    count_before = int(relation.rows[:first].sum())
    if first < limits["steps"] or count_before < limits["rollouts"]:
        return None
    count, known = int(relation.broken[first:].sum()), int(relation.rows[first:].sum())
    is_more = count >= limits["broken"] and count / known > limits["chance"] / count_before
    return first if is_more else None
