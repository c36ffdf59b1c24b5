"""The log itself: arrays that are shifted, cut or full of gaps, ranks that stop, rollouts twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.arrays import BoolArray
from board.core.findings.audit import culprit
from board.core.findings.facts import Facts, StepChecks
from board.core.findings.finding import Evidence, Limits, Match, Target, first_index
from board.core.findings.trailing import periods
from board.core.metrics.shares import of_many, percent

_MOST_RANKS: Final = 4096


def misaligned(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Two arrays fit each other at another shift than 0: value i is not that of token i."""
    shifted = [[a for a in d.audits if a.shift] for d in facts.digests]
    count = np.array([float(len(audits)) for audits in shifted])
    for period in periods(facts.read_steps, count > 0, count):
        if period.count < limits["steps"]:
            continue
        digest = facts.digests[period.first]
        worst = shifted[period.first][0]
        assert worst.shift is not None
        guilty = culprit([*digest.audits])
        array = guilty or worst.first
        whose = f"{guilty} seems to be the shifted array. " if guilty else ""
        at = worst.correlations
        on = "" if worst.rank is None else f"on rank {worst.rank} "
        # The tokens at which the array is furthest from the one it is compared with.
        tokens = tuple(
            Evidence(digest.step, t.index, t.position, t.piece, t.value) for t in digest.tokens[:3]
        )
        text = (
            f"From step {digest.step} on, {on}{worst.first}[i] correlates with "
            f"{worst.second}[i{worst.shift:+d}] "
            f"({at[worst.shift]:.2f}; at shift 0: {at[0]:.2f}). {whose}Ratios and KL of these tokens "
            "are meaningless. A logit at position t predicts the token at t + 1."
        )
        steps, target = period.from_first, Target("health", digest.step, metric=array)
        evidence = tokens if "ref_logprobs" in array else digest.engine_worst or tokens
        yield Match("severe", text, steps, float(worst.shift), 0.0, target, evidence, subject=array)


def missing_values(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Gaps within arrays that are otherwise recorded, and arrays that end."""
    for name in dict.fromkeys(name for d in facts.digests for name in d.missing):
        yield from _ended(facts, name, int(limits["ended"]))
        shares = np.nan_to_num(np.array([d.missing.get(name, 0.0) for d in facts.digests]))
        for period, digest, value in facts.read_periods(shares >= limits["share"], shares):
            text = (
                f"{percent(value)} of the loss tokens of step {digest.step} have no finite {name}. "
                "They are left out of all means here. Were they part of the training loss?"
            )
            severity = "severe" if value >= limits["severe"] else "warning"
            share, target = limits["share"], Target("health", digest.step, metric=name)
            worst = (digest.missing_worst[name],) if name in digest.missing_worst else ()
            title = f"{name} has missing values"
            own = facts.digests[period.first : period.last + 1]
            rollouts = sum(one.missing_rollouts.get(name, 0) for one in own)
            yield Match(
                severity,
                text,
                period.steps,
                value,
                share,
                target,
                worst,
                title,
                subject=name,
                rollouts=rollouts,
            )


def _ended(facts: Facts, name: str, least: int) -> Iterator[Match]:
    """An array that rollouts have up to a step and then no more; of at least so many steps each."""
    places = [place for place, digest in enumerate(facts.digests) if name in digest.missing]
    after = [digest for digest in facts.digests[places[-1] + 1 :] if digest.read]
    if facts.trained_until is not None:  # of later steps the trainer has not written anything yet
        after = [digest for digest in after if digest.step <= facts.trained_until]
    if min(len(places), len(after)) < least:
        return
    first = after[0]
    text = (
        f"From step {first.step} on, no rollout that was read has {name}; earlier ones do. NaN is often "
        "written as null: did training produce NaN, or did the logging change?"
    )
    steps = (first.step, first.step, after[-1].step)
    evidence = (Evidence(first.step, first.first_index),)
    target = Target("health", first.step, metric=name)
    title, unit = f"{name} stops being recorded", "share of rollouts"
    yield Match("warning", text, steps, 1.0, 0.0, target, evidence, title, unit, subject=name)


def unequal_arrays(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Arrays of another length than the response: which value is of which token is not known."""
    for name in dict.fromkeys(name for d in facts.digests for name in d.faults):
        counts = np.array([float(len(d.faults.get(name, ()))) for d in facts.digests])
        for period, digest, count in facts.read_periods(counts >= limits["rollouts"], counts):
            text = (
                f"{name} is not as long as the other arrays, or is not numeric, in "
                f"{of_many(int(count), digest.read)} rollouts read of step {digest.step}, and is left "
                "out. Was padding removed on one side only?"
            )
            rollouts = int(counts[period.first : period.last + 1].sum())
            least, target = limits["rollouts"], Target("health", digest.step, metric=name)
            some, title = digest.faults[name][:3], f"{name} differs in length"
            yield Match(
                "warning",
                text,
                period.steps,
                count,
                least,
                target,
                some,
                title,
                subject=name,
                rollouts=rollouts,
            )


def stopped_rank(facts: Facts, limits: Limits) -> Iterator[Match]:
    """A rank that writes no more while the others go on, within one launch of the training."""
    if facts.checks is None or not len(facts.checks.ranks):
        return
    present = _presence(facts, facts.checks)
    sizes = np.array([facts.world_sizes.get(int(s), 0) for s in facts.steps])
    for rank, there in present.items():
        # Without a world size: from its first step on, if another rank goes on.
        begun = (np.cumsum(there) > 0) & (len(present) > 1)
        expected = np.where(sizes > 0, rank < sizes, begun)
        expected &= ~np.isin(facts.steps, list(facts.growing))
        absent = expected & ~there
        for period in periods(facts.steps, absent, absent.astype(np.float64), calm=0):
            to_end = not there[period.last :].any()
            severity = "severe" if to_end and period.count >= limits["steps"] else "warning"
            _, first, last = period.steps
            until = "and never again" if to_end else f"until step {last}"
            before = facts.steps[: period.first][-1:].tolist()
            wrote_last = tuple(one for step in before for one in _last_of(facts, step, rank))
            text = (
                f"Rank {rank} has no rollout from step {first} on, {until}, while other ranks "
                "continue. Means of these steps cover fewer rollouts than were trained on."
            )
            steps, value, least = period.from_first, float(period.count), limits["steps"]
            target, title = Target("health", first), f"Rank {rank} stopped writing"
            whose = f"rank {rank}"
            yield Match(
                severity, text, steps, value, least, target, wrote_last, title, subject=whose
            )


def _last_of(facts: Facts, step: int, rank: int) -> Iterator[Evidence]:
    """The last rollout of a step that is a rank's own."""
    rows = facts.rows_of(step)
    for index in rows.indices[rows.columns["rank"] == rank][-1:].tolist():
        yield Evidence(step, index, None, "the last rollout it wrote")


def _presence(facts: Facts, checks: StepChecks) -> dict[int, BoolArray]:
    """By rank: [S], whether it has a rollout; ranks that the log says should be there included."""
    of_step = np.searchsorted(facts.steps, checks.rank_steps)
    size = min(max(facts.world_sizes.values(), default=0), _MOST_RANKS)
    ranks = sorted({*np.unique(checks.ranks).tolist(), *range(size)})
    places = np.arange(len(facts.steps))
    return {rank: np.isin(places, of_step[checks.ranks == rank]) for rank in ranks}


def duplicated_rollouts(facts: Facts, limits: Limits) -> Iterator[Match]:
    """The log holds a rollout twice, by its id: all means count it twice. Or a file is a copy of another
    one, which is counted once.
    """
    for copied in facts.copied_files:
        first, last = copied.steps
        text = (
            f"{copied.path} holds the rollouts of {copied.original} and no others: {copied.rollouts} of "
            f"steps {first} to {last}, each counted once here. What else reads this folder counts them "
            "twice: delete one of the two files."
        )
        target = Target("health", first)
        yield Match("severe", text, (first, first, last), float(copied.rollouts), 0.0, target)
    if not facts.copies:
        return
    steps = np.array([copy.step for copy in facts.copies])
    counts = np.bincount(np.searchsorted(facts.steps, steps), minlength=len(facts.steps))
    for period in periods(facts.steps, counts >= limits["rollouts"], counts.astype(np.float64)):
        step = period.steps[1]
        own = [copy for copy in facts.copies if copy.step == step]
        ranks = sorted({copy.rank for copy in own if copy.rank is not None})
        of = f" (ranks {', '.join(map(str, ranks[:8]))})" if ranks else ""
        text = (
            f"{len(own)} rollouts of step {step} share an id with another rollout of that "
            f"step{of}. Did two processes log the same batch, or one process twice?"
        )
        value, target = float(counts[period.first]), Target("rollouts", step, own[0].index)
        some = tuple(Evidence(step, c.index, None, f"same id as {c.of}") for c in own[:3])
        yield Match("severe", text, period.from_first, value, limits["rollouts"], target, some)


def resumed(facts: Facts, limits: Limits) -> Iterator[Match]:
    """Steps were written again by a resume or a restart: nothing wrong, but good to know where."""
    if facts.rewritten is None:
        return
    first, last, count = facts.rewritten
    what = "restart" if facts.by_restart else "resume"
    named = " that names no new attempt" if facts.by_restart else ""
    text = (
        f"Steps {first} to {last} were written again by a {what}{named}; "
        f"{count} earlier rollouts are hidden. "
        f"A jump in the curves there may come from the {what} (optimizer state, data order)."
    )
    indices = facts.rows_of(first).indices[:1].tolist()
    evidence = tuple(Evidence(first, index, None, f"after the {what}") for index in indices)
    target = Target("health", first, written_again=True)
    title = "The run was restarted" if facts.by_restart else ""
    yield Match("lead", text, (first, first, last), float(count), 0.0, target, evidence, title)


def clock_gap(facts: Facts, limits: Limits) -> Iterator[Match]:
    """A step that took many times as long as the others, or a clock that ran backwards."""
    if facts.checks is None or len(facts.steps) < 4:
        return
    gaps = np.append(np.nan, np.diff(facts.checks.clock))
    usual = float(np.nanmedian(gaps)) if np.isfinite(gaps).any() else float("nan")
    bound = max(limits["times"] * usual, limits["seconds"])
    backwards = gaps < 0
    with np.errstate(invalid="ignore"):
        fires = (gaps > bound) | backwards
    for period in periods(facts.steps, fires, np.nan_to_num(np.abs(gaps)), calm=0):
        step, gap = period.step, float(gaps[period.worst])
        top = facts.top(step, "timestamp", 1, lowest=True) if period.is_named else ()
        first = tuple(Evidence(step, one.index, None, "the first rollout after it") for one in top)
        passed = f"{abs(gap):.0f} s passed between step {step} and the step before"
        text = f"{passed}; {usual:.0f} s is typical."
        target = Target("rollouts", step, first_index(first), metric="timestamp", lowest=True)
        title = "The clock ran backwards" if gap < 0 else "Training paused"
        yield Match("lead", text, period.steps, gap, bound, target, first, title)


def trainer_differs(facts: Facts, limits: Limits) -> Iterator[Match]:
    """The trainer's mean of a quantity is not that of the recorded rollouts, at many steps."""
    for one in facts.trainer:
        count = int(one.differs.sum())
        share = count / len(one.steps)
        if one.is_sampled or count < limits["steps"] or share < limits["share"]:
            continue
        own = one.steps[one.differs]
        worst = int(one.steps[one.worst])
        text = (
            f"{one.summary[0].upper()}{one.summary[1:]}. Are rollouts missing, filtered or written "
            "twice, or is it defined differently?"
        )
        severity = "warning" if one.column == "reward" else "lead"
        steps = (worst, int(own[0]), int(own[-1]))
        target = Target("health", worst, metric=one.column)
        title = f"Trainer and rollouts differ in {one.column}"
        bound = limits["share"]
        yield Match(severity, text, steps, share, bound, target, title=title, subject=one.column)
