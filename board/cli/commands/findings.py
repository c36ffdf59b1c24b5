"""`rollout-board findings`: runs the rules over a run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing

from board.analysis.findings import diagnose, own_thresholds
from board.cli import output
from board.cli.opened_runs import narrowed_as_asked, opened
from board.cli.runs import find_run
from board.core.findings.finding import Evidence, Finding, in_words
from board.errors import ChoiceError


def findings(args: argparse.Namespace) -> int:
    """Prints the findings; 1 when one of them is severe."""
    info = find_run(args.run, args.source)
    limits = own_thresholds(info, args.thresholds)
    if limits.error:
        raise ChoiceError(limits.error)
    run = narrowed_as_asked(opened(info), args)
    with closing(output.ProgressLine()) as progress:
        diagnosis = diagnose(run, limits.thresholds, tokens=not args.index_only, progress=progress)
    counts = diagnosis.counts
    if args.json:
        output.print_json(diagnosis.document(run))
    else:
        words = ", ".join(f"{count} {name}" for name, count in counts.items())
        output.print_lines([f"{run.info.name}: {words}"])
        for finding in diagnosis.findings:
            output.print_lines(_lines(finding))
        print(
            f"\nread the tokens of {diagnosis.rollouts_read:,} rollouts in {diagnosis.steps_read} of "
            f"{diagnosis.steps} steps; findings are leads, not verdicts"
        )
    return 1 if counts["severe"] else 0


def _lines(finding: Finding) -> Iterator[str]:
    """A finding as the terminal shows it, after an empty line."""
    indent = " " * 8
    steps = f"{finding.steps_text}: " if finding.steps_text else ""
    yield ""
    yield f"{finding.severity:8}{steps}{finding.title}"
    yield f"{indent}{finding.text}"
    if finding.value is not None and finding.threshold is not None:
        value = in_words(finding.value, finding.unit)
        bound = in_words(finding.threshold, finding.unit)
        yield f"{indent}{value}; threshold {bound} [{finding.rule}]"
    yield f"{indent}source: {finding.source}"
    if finding.evidence:
        yield f"{indent}see {'; '.join(map(_evidence_text, finding.evidence))}"


def _evidence_text(evidence: Evidence) -> str:
    place = f"step {evidence.step} index {evidence.index}"
    if evidence.position is not None:
        return f"{place} token {evidence.position} {evidence.piece!r}"
    return f"{place} ({evidence.piece})" if evidence.piece else place
