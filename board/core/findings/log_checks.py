"""Whether a log can be trusted: each check with what it found, and over how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from board.core.findings.audit import CLEAR, GOOD, SHIFTS, Audit
from board.core.findings.digest import Digest
from board.core.findings.finding import Evidence, Finding
from board.core.metrics.shares import percent

State = Literal["good", "bad", "note", "not recorded"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. message: in words, with counts. evidence: a place to look at; step: a step to look at.

    state "not recorded": the log holds nothing that could be tested.
    """

    name: str
    state: State
    message: str
    evidence: Evidence | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class PairAudit:
    """The audits of two arrays over several steps. correlations: by shift, those of the first shifted
    step, without one the median over steps.

    shift: that of the first step where it is not 0, else 0; None where nothing can be computed. shifted:
    steps where it is not 0; steps: that were tested. tokens: over all of them. apart: median of
    |first - second|, nats. worst: the audit of the first shifted step. rank: of the rollouts that are
    compared; None for those of all ranks.
    """

    first: str
    second: str
    correlations: dict[int, float]
    shift: int | None
    shifted: tuple[int, ...]
    steps: int
    tokens: int
    apart: float
    worst: Audit | None = None
    rank: int | None = None

    @property
    def name(self) -> str:
        """Which arrays are compared, and of which rank where not of all."""
        of = "" if self.rank is None else f", rank {self.rank}"
        return f"{self.first} with {self.second}{of}"


def pair_audits(digests: Sequence[Digest]) -> list[PairAudit]:
    """Every pair of arrays that some step records; then those that are shifted on one rank alone."""
    by_pair: dict[tuple[str, str, int | None], list[tuple[int, Audit]]] = {}
    for digest in digests:
        for audit in digest.audits:
            key = (audit.first, audit.second, audit.rank)
            by_pair.setdefault(key, []).append((digest.step, audit))
    result = [_pair(*pair, audits) for pair, audits in by_pair.items()]
    steps = {(pair.first, pair.second): pair.steps for pair in result if pair.rank is None}
    ranks = [replace(p, steps=steps[p.first, p.second]) for p in result if p.rank is not None]
    return [*(pair for pair in result if pair.rank is None), *ranks]


def _pair(first: str, second: str, rank: int | None, audits: list[tuple[int, Audit]]) -> PairAudit:
    with_shift = [(step, audit) for step, audit in audits if audit.shift is not None]
    shifted = [(step, audit) for step, audit in with_shift if audit.shift]
    worst = shifted[0][1] if shifted else None
    examples = [worst] if worst else [audit for _, audit in with_shift]
    return PairAudit(
        first,
        second,
        {s: _median([audit.correlations[s] for audit in examples]) for s in SHIFTS},
        worst.shift if worst else 0 if with_shift else None,
        tuple(step for step, _ in shifted),
        len(with_shift),
        sum(audit.tokens for _, audit in audits),
        _median([audit.apart for audit in examples]),
        worst,
        rank,
    )


def _median(values: list[float]) -> float:
    known = [value for value in values if value == value]
    return float(np.median(known)) if known else float("nan")


def shift_words(pair: PairAudit) -> str:
    """What a shifted pair means, with its numbers."""
    assert pair.worst is not None
    assert pair.worst.shift is not None
    shift, at = pair.worst.shift, pair.worst.correlations
    of = "" if pair.rank is None else f"On rank {pair.rank}, "
    return (
        f"{of}{pair.first}[i] fits {pair.second}[i{shift:+d}], not [i]: correlation {at[shift]:.2f} at "
        f"shift {shift:+d}, {at[0]:.2f} at shift 0, in {len(pair.shifted)} of {pair.steps} steps "
        f"checked (step {pair.shifted[0]} is the first of them). Ratios and KL of such tokens mean "
        "nothing."
    )


CLEAR_WORDS: Final = (
    f"A shift other than 0 is reported where its correlation is {CLEAR:g} higher and above {GOOD:g}, "
    "where rank correlation (Spearman) agrees, and where chance can't explain it."
)


def array_checks(digests: Sequence[Digest]) -> list[Check]:
    """Lengths and gaps of the token arrays that were read."""
    if not any(digest.missing or digest.faults for digest in digests):
        names = ("Array lengths", "Missing values")
        return [Check(name, "not recorded", "no token arrays") for name in names]
    of = f"{sum(digest.read for digest in digests):,} rollouts of {len(digests)} steps"
    return [_lengths(digests, of), _gaps(digests, of)]


def _lengths(digests: Sequence[Digest], of: str) -> Check:
    counts: Counter[str] = Counter()
    for digest in digests:
        counts.update({name: len(own) for name, own in digest.faults.items()})
    if not counts:
        return Check("Array lengths", "good", f"every array is as long as the response, in {of}")
    first = next(digest.step for digest in digests if digest.faults)
    summary = ", ".join(f"{name} in {count:,}" for name, count in counts.items())
    words = f"another length than the response, of {of.partition(' of ')[0]}: {summary}"
    some = next((one for d in digests for own in d.faults.values() for one in own), None)
    return Check("Array lengths", "bad", words, some, first)


def _gaps(digests: Sequence[Digest], of: str) -> Check:
    gaps: dict[str, float] = {}
    for name, share in (one for digest in digests for one in digest.missing.items()):
        if share > 0:
            gaps[name] = max(gaps.get(name, 0.0), share)
    if not gaps:
        return Check("Missing values", "good", f"no NaN, null or infinite value, in {of}")
    name = max(gaps, key=lambda n: gaps[n])
    digest = max(digests, key=lambda d: np.nan_to_num(d.missing.get(name, 0.0)))
    summary = ", ".join(f"{n} up to {percent(share)}" for n, share in gaps.items())
    words = f"share of loss tokens of a step without a value: {summary}"
    return Check("Missing values", "bad", words, digest.missing_worst.get(name), digest.step)


def rule_check(
    name: str, findings: Sequence[Finding], *, missing: str, nothing: str, state: State = "bad"
) -> Check:
    """A check of what a rule of the index found. missing: what is not recorded, empty if it is."""
    if missing:
        return Check(name, "not recorded", missing)
    if not findings:
        return Check(name, "good", nothing)
    first = findings[0]
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    evidence = first.evidence[0] if first.evidence else None
    return Check(name, state, f"{first.text}{more}", evidence, first.first_step)
