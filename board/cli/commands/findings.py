"""`rollout-board findings`: runs the rules over a run."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from board.analysis.findings import Diagnosis, diagnose, own_thresholds
from board.cli import output
from board.cli.opened_runs import narrowed_as_asked, of_split, opened
from board.cli.runs import find_run
from board.core.findings.finding import SEVERITIES, Evidence, Finding, in_words
from board.errors import ChoiceError
from board.query.open_run import Run


def main(args: argparse.Namespace) -> int:
    """Prints the findings; 1 when one of them is severe."""
    info = find_run(args.run, args.source)
    limits = own_thresholds(info, args.thresholds)
    if limits.error:
        raise ChoiceError(limits.error)
    run = narrowed_as_asked(of_split(opened(info), args.split), args)
    progress = output.ProgressLine()
    try:
        diagnosis = diagnose(run, limits.thresholds, tokens=not args.index_only, progress=progress)
    finally:
        progress.close()
    document = findings_document(run, diagnosis)
    if args.json:
        output.print_json(document)
    else:
        _print(run, diagnosis)
    return 1 if document["severe"] else 0


def findings_document(run: Run, diagnosis: Diagnosis) -> dict[str, Any]:
    """A diagnosis as one JSON object."""
    return {
        "run": run.info.name,
        "split": run.split,
        "env": [*run.envs],
        "where": run.where,
        "steps": diagnosis.steps,
        "steps_read": diagnosis.steps_read,
        "rollouts_read": diagnosis.rollouts_read,
        **{name: _count(diagnosis, name) for name in SEVERITIES},
        "findings": [asdict(finding) for finding in diagnosis.findings],
    }


def _count(diagnosis: Diagnosis, severity: str) -> int:
    return sum(finding.severity == severity for finding in diagnosis.findings)


def _print(run: Run, diagnosis: Diagnosis) -> None:
    counts = ", ".join(f"{_count(diagnosis, name)} {name}" for name in SEVERITIES)
    print(output.one_line(f"{run.info.name}: {counts}"))
    for finding in diagnosis.findings:
        _print_finding(finding)
    print(
        f"\nread the tokens of {diagnosis.rollouts_read:,} rollouts in {diagnosis.steps_read} of "
        f"{diagnosis.steps} steps; findings are leads, not verdicts"
    )


def _print_finding(finding: Finding) -> None:
    print()
    print(output.one_line(f"{finding.severity:8}{_steps(finding)}{finding.title}"))
    print(output.one_line(f"{'':8}{finding.text}"))
    if finding.value is not None and finding.threshold is not None:
        value = in_words(finding.value, finding.unit)
        bound = in_words(finding.threshold, finding.unit)
        print(output.one_line(f"{'':8}{value}; threshold {bound} [{finding.rule}]"))
    print(output.one_line(f"{'':8}source: {finding.source}"))
    if finding.evidence:
        evidence = "; ".join(_evidence_text(one) for one in finding.evidence)
        print(output.one_line(f"{'':8}see {evidence}"))


def _steps(finding: Finding) -> str:
    if finding.first_step is None:
        return ""
    if finding.first_step == finding.last_step:
        return f"step {finding.first_step}: "
    return f"steps {finding.first_step} to {finding.last_step}: "


def _evidence_text(evidence: Evidence) -> str:
    place = f"step {evidence.step} index {evidence.index}"
    if evidence.position is not None:
        return f"{place} token {evidence.position} {evidence.piece!r}"
    return f"{place} ({evidence.piece})" if evidence.piece else place
