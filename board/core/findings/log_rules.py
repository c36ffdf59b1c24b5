"""The log itself: arrays that are shifted, cut or full of gaps, ranks that stop, rollouts twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from board.core.findings.audit import culprit
from board.core.findings.digest import Digest
from board.core.findings.facts import Facts, StepChecks
from board.core.findings.finding import Evidence, Finding, Limits, Target
from board.core.findings.trailing import periods
from board.core.metrics.shares import percent

_OURS: Final = "threshold set by Rollout Board"


def misaligned(facts: Facts, limits: Limits) -> Iterator[Finding]:
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
        whose = f"{guilty} seems to be the shifted array. " if guilty else ""
        at = worst.correlations
        on = "" if worst.rank is None else f"on rank {worst.rank} "
        yield Finding(
            "misaligned",
            "severe",
            "Token arrays are misaligned",
            f"From step {digest.step} on, {on}{worst.first}[i] correlates with "
            f"{worst.second}[i{worst.shift:+d}] "
            f"({at[worst.shift]:.2f}; at shift 0: {at[0]:.2f}). {whose}Ratios and KL of these tokens "
            "are meaningless. A logit at position t predicts the token at t + 1.",
            digest.step,
            digest.step,
            period.steps[2],
            float(worst.shift),
            0.0,
            "correlation at shifts -1, 0, +1 (core/findings/audit.py); thresholds set by Rollout Board",
            Target("health", digest.step, metric=guilty or worst.first),
            "shift in tokens",
            _apart(digest, guilty or worst.first),
        )


def _apart(digest: Digest, array: str) -> tuple[Evidence, ...]:
    """Tokens at which the array is furthest from the one it is compared with."""
    if "ref_logprobs" not in array and digest.engine_worst:
        return digest.engine_worst
    return tuple(
        Evidence(digest.step, t.index, t.position, t.piece, t.value) for t in digest.tokens[:3]
    )


def missing_values(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Gaps within arrays that are otherwise recorded, and arrays that end."""
    names = dict.fromkeys(name for d in facts.digests for name in d.missing)
    for name in names:
        yield from _ended(facts, name, int(limits["ended"]))
        shares = np.nan_to_num(np.array([d.missing.get(name, 0.0) for d in facts.digests]))
        for period in periods(facts.read_steps, shares >= limits["share"], shares):
            digest, value = facts.digests[period.worst], float(shares[period.worst])
            where = digest.missing_worst.get(name)
            yield Finding(
                "missing_values",
                "severe" if value >= limits["severe"] else "warning",
                f"{name} has missing values",
                f"{percent(value)} of the loss tokens of step {digest.step} have no finite {name}. "
                "They are left out of all means here. Were they part of the training loss?",
                *period.steps,
                value,
                limits["share"],
                _OURS,
                Target("health", digest.step, metric=name),
                "share of tokens",
                () if where is None else (where,),
            )


def _ended(facts: Facts, name: str, least: int) -> Iterator[Finding]:
    """An array that rollouts have up to a step and then no more; of at least so many steps each."""
    places = [place for place, digest in enumerate(facts.digests) if name in digest.missing]
    after = [digest for digest in facts.digests[places[-1] + 1 :] if digest.read]
    if facts.trained_until is not None:  # of later steps the trainer has not written anything yet
        after = [digest for digest in after if digest.step <= facts.trained_until]
    if min(len(places), len(after)) < least:
        return
    first = after[0]
    yield Finding(
        "missing_values",
        "warning",
        f"{name} stops being recorded",
        f"From step {first.step} on, no rollout that was read has {name}; earlier ones do. NaN is often "
        "written as null: did training produce NaN, or did the logging change?",
        first.step,
        first.step,
        after[-1].step,
        1.0,
        0.0,
        _OURS,
        Target("health", first.step, metric=name),
        "share of rollouts",
        (Evidence(first.step, first.first_index),),
    )


def unequal_arrays(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Arrays of another length than the response: which value is of which token is not known."""
    names = dict.fromkeys(name for d in facts.digests for name in d.faults)
    for name in names:
        counts = np.array([float(d.faults.get(name, 0)) for d in facts.digests])
        for period in periods(facts.read_steps, counts >= limits["rollouts"], counts):
            digest = facts.digests[period.worst]
            yield Finding(
                "unequal_arrays",
                "warning",
                f"{name} differs in length",
                f"In {int(counts[period.worst])} rollouts of step {digest.step} {name} is not "
                "as long as the other arrays, or is not numeric, and is left out. Was padding removed "
                "on one side only?",
                *period.steps,
                float(counts[period.worst]),
                limits["rollouts"],
                _OURS,
                Target("health", digest.step, metric=name),
                "rollouts",
                digest.unequal.get(name, ()),
            )


def stopped_rank(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """A rank that writes no more while the others go on, within one launch of the training."""
    if facts.checks is None or not len(facts.checks.ranks):
        return
    present = _presence(facts, facts.checks)
    sizes = np.array([facts.world_sizes.get(int(s), 0) for s in facts.steps])
    for rank, there in present.items():
        expected = np.where(sizes > 0, rank < sizes, _between(there, present))
        expected &= ~np.isin(facts.steps, list(facts.growing))
        absent = expected & ~there
        for period in periods(facts.steps, absent, absent.astype(np.float64), calm=0):
            to_end = not there[period.last :].any()
            severe = to_end and period.count >= limits["steps"]
            first, last = period.steps[1], period.steps[2]
            until = "and never again" if to_end else f"until step {last}"
            before = int(facts.steps[period.first - 1]) if period.first else None
            written = () if before is None else _last_of(facts, before, rank)
            yield Finding(
                "stopped_rank",
                "severe" if severe else "warning",
                f"Rank {rank} stopped writing",
                f"Rank {rank} has no rollout from step {first} on, {until}, while other ranks "
                "continue. Means of these steps cover fewer rollouts than were trained on.",
                first,
                first,
                last,
                float(period.count),
                limits["steps"],
                _OURS,
                Target("health", first),
                "steps",
                written,
            )


def _last_of(facts: Facts, step: int, rank: int) -> tuple[Evidence, ...]:
    """The last rollout of a step that is a rank's own."""
    rows = facts.rows_of(step)
    own = rows.indices[rows.columns["rank"] == rank][-1:]
    return tuple(Evidence(step, index, None, "the last rollout it wrote") for index in own.tolist())


def _presence(facts: Facts, checks: StepChecks) -> dict[int, np.ndarray]:
    """By rank: bool [S], whether it has a rollout; ranks that the log says should be there included."""
    of_step = np.searchsorted(facts.steps, checks.rank_steps)
    values_by_step: dict[int, np.ndarray] = {}
    wanted = {
        *np.unique(checks.ranks).tolist(),
        *range(min(max(facts.world_sizes.values(), default=0), 4096)),
    }
    counts = {rank: of_step[checks.ranks == rank] for rank in sorted(wanted)}
    for rank, places in counts.items():
        there = np.zeros(len(facts.steps), bool)
        there[places] = True
        values_by_step[rank] = there
    return values_by_step


def _between(there: np.ndarray, present: dict[int, np.ndarray]) -> np.ndarray:
    """Without a world size: a rank is expected from its first step on, if another one goes on."""
    begun = np.cumsum(there) > 0
    return begun if len(present) > 1 else np.zeros(len(there), bool)


def duplicated_rollouts(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """The log holds a rollout twice, by its id: all means count it twice."""
    if not facts.copies:
        return
    steps = np.array([copy.step for copy in facts.copies])
    counts = np.bincount(np.searchsorted(facts.steps, steps), minlength=len(facts.steps))
    for period in periods(facts.steps, counts >= limits["rollouts"], counts.astype(np.float64)):
        step = period.steps[1]
        own = [copy for copy in facts.copies if copy.step == step]
        ranks = sorted({copy.rank for copy in own if copy.rank is not None})
        of = f" (ranks {', '.join(map(str, ranks[:8]))})" if ranks else ""
        yield Finding(
            "duplicated_rollouts",
            "severe",
            "Duplicate rollouts in the log",
            f"{len(own)} rollouts of step {step} share an id with another rollout of that "
            f"step{of}. Did two processes log the same batch, or one process twice?",
            step,
            step,
            period.steps[2],
            float(counts[period.first]),
            limits["rollouts"],
            "rollout_id is unique within a step of the record's schema; threshold set by Rollout Board",
            Target("rollouts", step, own[0].index),
            "rollouts",
            tuple(Evidence(step, c.index, None, f"same id as {c.of}") for c in own[:3]),
        )


def resumed(facts: Facts, limits: Limits) -> Iterator[Finding]:
    """Steps were written again after a resume: nothing wrong, but good to know where."""
    if facts.rewritten is None:
        return
    first, last, count = facts.rewritten
    yield Finding(
        "resumed",
        "lead",
        "The run was resumed",
        f"Steps {first} to {last} were written again; {count} earlier rollouts are hidden. "
        "A jump in the curves there may come from the resume (optimizer state, data order).",
        first,
        first,
        last,
        float(count),
        0.0,
        "attempts in the log, of which the latest replaces the others; reported for any step",
        Target("health", first, written_again=True),
        "rollouts",
        tuple(
            Evidence(first, int(index), None, "after the resume")
            for index in facts.rows_of(first).indices[:1].tolist()
        ),
    )


def clock_gap(facts: Facts, limits: Limits) -> Iterator[Finding]:
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
        step = period.step
        gap = float(gaps[period.worst])
        first = facts.top(step, "timestamp", 1, lowest=True)
        index = first[0].index if first else None
        yield Finding(
            "clock_gap",
            "lead",
            "The clock ran backwards" if gap < 0 else "Training paused",
            f"{abs(gap):.0f} s passed between step {step} and the step before; {usual:.0f} s is typical.",
            *period.steps,
            gap,
            bound,
            _OURS,
            Target("rollouts", step, index, metric="timestamp", lowest=True),
            "seconds",
            () if index is None else (Evidence(step, index, None, "the first rollout after it"),),
        )
