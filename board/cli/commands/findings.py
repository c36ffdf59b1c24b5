"""The command that looks a run over: `rollout-board findings`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from board.analysis.findings import Diagnosis, diagnose
from board.analysis.own_thresholds import own_thresholds
from board.cli import output
from board.cli.runs import find_run, narrowed_as_asked, of_split, opened
from board.core.findings.finding import SEVERITIES, Evidence, Finding, in_words
from board.errors import ChoiceError
from board.query.open_run import Run


def main(args: argparse.Namespace) -> int:
    """What the rules find; 1 when anything of it is severe."""
    info = find_run(args.run, args.source)
    limits = own_thresholds(info, args.thresholds)
    if limits.error:
        raise ChoiceError(limits.error)
    run = narrowed_as_asked(of_split(opened(info), args.split), args)
    progress = output.ProgressLine()
    try:
        found = diagnose(run, limits.thresholds, tokens=not args.index_only, progress=progress)
    finally:
        progress.close()
    document = findings_document(run, found)
    if args.json:
        output.print_json(document)
    else:
        _print(run, found)
    return 1 if document["severe"] else 0


def findings_document(run: Run, found: Diagnosis) -> dict[str, Any]:
    """A diagnosis as one JSON object."""
    return {
        "run": run.info.name,
        "split": run.split,
        "env": [*run.envs],
        "where": run.where,
        "steps": found.steps,
        "steps_read": found.steps_read,
        "rollouts_read": found.rollouts_read,
        **{name: _count(found, name) for name in SEVERITIES},
        "findings": [asdict(finding) for finding in found.findings],
    }


def _count(found: Diagnosis, severity: str) -> int:
    return sum(finding.severity == severity for finding in found.findings)


def _print(run: Run, found: Diagnosis) -> None:
    counts = ", ".join(f"{_count(found, name)} {name}" for name in SEVERITIES)
    print(output.one_line(f"{run.info.name}: {counts}"))
    for finding in found.findings:
        _print_finding(finding)
    print(
        f"\nread the tokens of {found.rollouts_read:,} rollouts in {found.steps_read} of "
        f"{found.steps} steps; findings are leads, not verdicts"
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
        shown = "; ".join(_told(evidence) for evidence in finding.evidence)
        print(output.one_line(f"{'':8}see {shown}"))


def _steps(finding: Finding) -> str:
    if finding.first_step is None:
        return ""
    if finding.first_step == finding.last_step:
        return f"step {finding.first_step}: "
    return f"steps {finding.first_step} to {finding.last_step}: "


def _told(evidence: Evidence) -> str:
    place = f"step {evidence.step} index {evidence.index}"
    if evidence.position is not None:
        return f"{place} token {evidence.position} {evidence.piece!r}"
    return f"{place} ({evidence.piece})" if evidence.piece else place
