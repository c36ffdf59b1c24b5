"""What is found of a planted fault: at which step, with which rollouts and tokens."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from faults.plant import Fault
from faults.scene import TUNED, Planted, Scene, clean

from board.analysis.findings import diagnose, with_trainer
from board.core.findings.finding import SEVERITIES, Finding
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run, open_run
from board.query.trainer.agreement import agreements
from board.query.trainer.metrics import read_trainer_metrics


@dataclass(frozen=True)
class Verdict:
    """run: with the fault. own: what the fault's rule found that holds at the planted step or begins
    later; of several, what begins there. None where it found nothing, or only something that had ended
    before. is_at: whether it begins there.
    named: whether its evidence is of rollouts and tokens that were changed, and of no other. others:
    rules that called something severe that has nothing to do with the fault.
    """

    planted: Planted
    run: Run
    own: Finding | None
    is_at: bool
    named: bool
    others: frozenset[str]
    findings: tuple[Finding, ...]


def opened(folder: Path) -> Run:
    (info,) = discover(folder).runs
    return open_run(info)


def findings_of(run: Run, *, tokens: bool = True) -> tuple[Finding, ...]:
    """What all rules find, that on the trainer's metrics included."""
    compared = agreements(run, read_trainer_metrics(run))
    return with_trainer(diagnose(run, tokens=tokens), compared).findings


def verdict_on(
    fault: Fault, folder: Path, scene: Scene = TUNED, *, tokens: bool | None = None
) -> Verdict:
    """Plants a fault in the run of a scene, looks the run over, and compares.

    tokens: whether to read tokens; by default where the fault needs it.
    """
    log = clean(scene)
    planted = fault.plant(log)
    run = opened(log.write(folder / "run"))
    findings = findings_of(run, tokens=fault.tokens if tokens is None else tokens)
    own = sorted(
        (
            _from_step(f, planted.step)
            for f in findings
            if f.rule == fault.rule and _reaches(f, planted.step)
        ),
        key=lambda result: result.first_step != planted.step,
    )
    best = own[0] if own else None
    return Verdict(
        planted,
        run,
        best,
        best is not None and best.first_step == planted.step,
        best is not None and is_named(best, planted),
        severe(findings) - {fault.rule, *fault.also},
        findings,
    )


def _reaches(result: Finding, step: int) -> bool:
    return result.last_step is None or result.last_step >= step


def _from_step(result: Finding, step: int) -> Finding:
    """A finding with only the period that begins at the step and its evidence, if there is one."""
    for _, first, last in result.periods if len(result.periods) > 1 else ():
        if first == step:
            own = tuple(e for e in result.evidence if first <= e.step <= last)
            return replace(result, first_step=first, last_step=last, evidence=own)
    return result


def is_named(result: Finding, planted: Planted) -> bool:
    """Whether all evidence is of what was planted; none at all is not, unless what was planted is that
    rollouts are missing.
    """
    if not planted.rollouts:
        return not result.evidence
    tokens = {(e.step, e.index, e.token) for e in result.evidence}
    return (
        bool(result.evidence)
        and {(e.step, e.index) for e in result.evidence} <= planted.rollouts
        and (not planted.tokens or tokens <= planted.tokens)
        and (not planted.pieces or {e.piece.strip() for e in result.evidence} <= planted.pieces)
    )


def severe(findings: Iterable[Finding]) -> frozenset[str]:
    """Rules that called something severe."""
    return frozenset(result.rule for result in findings if result.severity == SEVERITIES[0])
