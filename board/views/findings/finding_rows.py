"""Findings as rows of a file."""

from __future__ import annotations

from collections.abc import Sequence

from board.core.csv_rows import csv_text, harmless_cell
from board.core.findings.finding import Evidence, Finding


def findings_csv(findings: Sequence[Finding]) -> bytes:
    """The findings as comma-separated values in UTF-8, below the names of their columns."""
    columns = ("severity", "rule", "title", "text", "step", "first_step", "last_step", "value")
    named = (*columns, "threshold", "unit")
    rows = (
        [*(getattr(one, name) for name in named), _evidence_text(one), one.source]
        for one in findings
    )
    cells = (map(harmless_cell, row) for row in rows)
    return csv_text((*named, "evidence", "source"), cells).encode()


def _evidence_text(finding: Finding) -> str:
    return "; ".join(map(rollout_words, finding.evidence))


def rollout_words(evidence: Evidence) -> str:
    """Where the evidence of a finding is, in words."""
    token = "" if evidence.token is None else f" token {evidence.token}"
    return f"rollout {evidence.index}{token}"
