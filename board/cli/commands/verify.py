"""The command `verify`: whether each quote and number that a report cites is what the log says."""

from __future__ import annotations

import argparse

from board.analysis.report_check import ReportCheck, document_of
from board.cli import output
from board.cli.opened_runs import opened
from board.core.citations import Report, citations_in
from board.core.written_numbers import Number
from board.errors import NotFoundError, UnreadableError
from board.formats.io.locations import location_of
from board.index.discovery.discovered_runs import discover
from board.query.open_run import Run

_MOST_CHARACTERS = 120


def verify(args: argparse.Namespace) -> int:
    """Checks a report; 1 when a citation does not hold."""
    try:
        report = citations_in(args.report.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnreadableError(f"{args.report} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{args.report} can't be read: {error}") from error
    discovery = discover(location_of(args.root))

    def open_run(name: str) -> Run:
        if not name and len(discovery.runs) != 1:
            names = ", ".join(info.name for info in discovery.runs[:5]) or "none"
            raise NotFoundError(f"it names no run, and {args.root} has these: {names}")
        return opened(discovery.run(name) if name else discovery.runs[0])

    check = ReportCheck(open_run)
    checked = [check.check(one) for one in report.citations]
    wrong = [one for one in checked if not one.holds]
    alone = sum(one.says is None and not one.error for one in report.citations)
    lacking = _lacking(report, alone)
    code = 1 if wrong or (args.strict and lacking) else 0
    if args.json:
        output.print_json(
            {
                "report": str(args.report),
                "holding": len(checked) - len(wrong),
                "wrong": len(wrong),
                "places_alone": alone,
                "lacking": lacking,
                "uncited": {"numbers": report.numbers, "quotes": report.quotes},
                "rows": [*map(document_of, checked)],
            }
        )
        return code
    for one in wrong:
        says = one.citation.says
        text = says.text if isinstance(says, Number) else says
        claim = "" if text is None else f"the report says {output.cell(text, _MOST_CHARACTERS)}; "
        output.print_lines(
            [
                f"{args.report}:{one.citation.line}: {one.citation.words}",
                f"    {claim}the log: {output.cell(one.log, 300)}",
            ]
        )
    rest = f"{alone} name a place alone; uncited: {report.numbers} numbers, {report.quotes} quotes"
    if not checked:
        print("the report has no citations, so that nothing of it was checked (docs/verify.md)")
    else:
        print(f"{len(checked) - len(wrong)} of {len(checked)} citations hold; {rest}")
    if args.strict:
        output.print_lines([f"--strict: {one}" for one in lacking])
    return code


def _lacking(report: Report, alone: int) -> list[str]:
    """What --strict refuses, in words."""
    said = {
        "citations that name a place alone": alone,
        "numbers without a citation": report.numbers,
        "quotes without a citation": report.quotes,
    }
    lacking = [f"{words}: {count}" for words, count in said.items() if count]
    return lacking if report.citations else ["the report has no citations", *lacking]
