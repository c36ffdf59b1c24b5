"""Findings of a run as a page: what was measured, on the curve it was measured on, and the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from board.core.findings.finding import SEVERITIES, Evidence, Finding, in_words
from board.core.findings.rules import RULES
from board.core.metrics.definitions import MEAN_COLUMNS, REDUCTIONS
from board.core.metrics.shares import counted
from board.errors import ChoiceError, did_you_mean
from board.export.pages import PageOptions, add_curves, add_rollouts, main_column
from board.export.rollout_part import Address
from board.export.sheet import Sheet, StaticPage, source_of
from board.query.open_run import Run

_TOKEN_METRIC_OF: Final = {column: metric for column, metric, _ in REDUCTIONS}
_MOST_EVIDENCE: Final = 4
_MOST_ROLLOUTS: Final = 8
_FINDING_BYTES: Final = 10_000
"""One finding takes less."""
_SAID: Final = "Findings are leads to follow, not verdicts."


def named(findings: Sequence[Finding], written: str) -> Finding:
    """The finding of a number, from 1 in their order, or of a rule: its first, or that of Finding.key.

    Raises ChoiceError.
    """
    if not findings:
        raise ChoiceError("the rules find nothing in this run")
    if written.isdecimal():
        if not 1 <= int(written) <= len(findings):
            has = counted(len(findings), "finding")
            raise ChoiceError(f"--finding {written}: the run has {has}, numbered from 1")
        return findings[int(written) - 1]
    own = [one for one in findings if written in (one.key, one.rule)]
    if not own:
        keys = [one.key for one in findings]
        raise ChoiceError(f"no finding is called {written!r}; {did_you_mean(written, keys)}")
    return own[0]


def finding_page(run: Run, finding: Finding, options: PageOptions) -> StaticPage:
    """One finding: the curve with its step, and the rollouts of its evidence with the token marked."""
    sheet = options.sheet()
    own = add_rollouts(sheet, run, evidence_of(run, [finding]), options)
    title = f"{finding.title} in {run.info.name}"
    sheet.heading(f"{_badge(finding)} {sheet.line(finding.title)}", [_where(sheet, run, finding)])
    sheet.add(*_words(sheet, finding, own))
    add_curves(sheet, run, _columns(run, finding), finding.step)
    return sheet.page(title, f"{source_of(sheet, run)} {_SAID}")


def findings_page(
    run: Run, findings: Sequence[Finding], checked: str, options: PageOptions
) -> StaticPage:
    """All of them, the worst first, and the first rollout of the evidence of each. checked: which rules
    checked the run, in words.
    """
    sheet = options.sheet()
    own = add_rollouts(sheet, run, evidence_of(run, findings, 1), options)
    title = f"Findings of {run.info.name}"
    severities = [one.severity for one in findings]
    counts = [
        counted(severities.count(name), name, name if name == "severe" else "")
        for name in SEVERITIES
        if name in severities
    ]
    sheet.heading(
        sheet.line(title),
        [", ".join(counts) or "Nothing stood out.", sheet.line(checked, 1500), _SAID],
    )
    for place, finding in enumerate(findings):
        if sheet.room < _FINDING_BYTES:
            sheet.left_out.append(
                f"{len(findings) - place} of {len(findings)} findings, {sheet.why_cut}"
            )
            break
        sheet.add(f"<h2>{_badge(finding)} {sheet.line(finding.title)}</h2>")
        sheet.add(f"<p class=mute>{_where(sheet, run, finding)}</p>")
        sheet.add(*_words(sheet, finding, own))
    drawn = [column for finding in findings for column in _columns(run, finding)]
    if drawn:
        sheet.add("<h2>Curves</h2>")
    add_curves(sheet, run, dict.fromkeys(drawn), None)
    return sheet.page(title, source_of(sheet, run))


def _badge(finding: Finding) -> str:
    return f'<span class="badge {finding.severity}">{finding.severity}</span>'


def _where(sheet: Sheet, run: Run, finding: Finding) -> str:
    steps = finding.steps_text or "the whole run"
    return f"{sheet.line(run.info.name)}, {steps}"


def _words(sheet: Sheet, finding: Finding, own: Sequence[Address]) -> list[str]:
    """What was seen and measured, and the evidence; rollouts on the page are links."""
    parts = [f"<p>{sheet.text(finding.text)}</p>"]
    measured = f"Rule {finding.rule}"
    if finding.value is not None and finding.threshold is not None:
        value = in_words(finding.value, finding.unit)
        bound = in_words(finding.threshold, finding.unit)
        measured = f"{sheet.line(value)}; threshold {sheet.line(bound)}. {measured}"
    parts.append(f"<p>{measured}. Source: {sheet.line(finding.source, 400)}</p>")
    if finding.cause:
        cause = next(rule.title for rule in RULES if rule.name == finding.cause) or finding.cause
        parts.append(
            f"<p>May follow from “{sheet.line(cause)}”, which holds at the same steps.</p>"
        )
    links = [_link(sheet, one, own) for one in finding.evidence[:_MOST_EVIDENCE]]
    more = len(finding.evidence) - len(links)
    if more > 0:
        links.append(f"and {more:,} more")
    return [*parts, f"<p>Evidence: {'; '.join(links)}.</p>"] if links else parts


def _link(sheet: Sheet, evidence: Evidence, own: Sequence[Address]) -> str:
    words = f"step {evidence.step}, rollout {evidence.index}"
    is_token = evidence.token is not None
    words += f", token {evidence.token}" if is_token else ""
    piece = sheet.line(evidence.piece, 60)
    said = f" “{piece}”" if is_token else f" ({piece})"
    address = next(
        (one for one in own if (one.step, one.index) == (evidence.step, evidence.index)),
        None,
    )
    if address is not None:
        has_token = is_token and address.position == evidence.token
        anchor = f"{address.anchor}-{evidence.token}" if has_token else address.anchor
        words = f"<a href=#{anchor}>{words}</a>"
    return words + (said if piece else "")


def _columns(run: Run, finding: Finding) -> list[str]:
    """The curves on which a finding is seen: of its metric, of what it is about, and of the reward."""
    metric = finding.target.metric
    wanted = (MEAN_COLUMNS.get(metric, metric), finding.subject, main_column(run))
    return [name for name in dict.fromkeys(wanted) if name in run.metrics or name in run.steps]


def evidence_of(run: Run, findings: Sequence[Finding], each: int = _MOST_EVIDENCE) -> list[Address]:
    """The rollouts of the first `each` pieces of evidence of every finding, in the finding's colours."""
    addresses: dict[tuple[int, int], Address] = {}
    for finding in findings:
        metric = _TOKEN_METRIC_OF.get(finding.target.metric, finding.target.metric)
        for one in finding.evidence[:each]:
            if one.step in run.counts:
                own = Address(one.step, one.index, one.token, metric)
                addresses.setdefault((one.step, one.index), own)
    return [*addresses.values()][:_MOST_ROLLOUTS]
