"""What is found of runs of the families: whether, how late, and what is said of honest ones."""

from dataclasses import dataclass
from pathlib import Path

from faults import first_families, text_families  # noqa: F401  # list their own
from faults.simulated import FAMILIES, Family, simulated, write

from board.analysis.findings import diagnose
from board.core.findings.finding import Finding

NEAR = 3
"""Steps from the begin of a fault within which a finding of it begins."""


@dataclass(frozen=True)
class Result:
    """A run of a family. delay: steps from its begin to that of the nearest finding, None where none
    begins near it; by: the rule. findings: all.
    """

    family: Family
    seed: int
    size: float | None
    delay: int | None
    by: str
    findings: tuple[Finding, ...]

    @property
    def is_found(self) -> bool:
        """Whether a finding begins at the fault."""
        return self.delay is not None


def result_of(family: Family, seed: int, folder: Path) -> Result:
    """Draws a run of a family, writes it and looks it over."""
    run = simulated(family, seed)
    findings = diagnose(write(run, folder)).findings
    last = run.begin + NEAR + (run.growth if family.grows else 0)
    begins = [
        (first - run.begin, finding.rule)
        for finding in findings
        for _, first, _ in finding.periods
        if run.begin - NEAR <= first <= last
    ]
    delay, by = min(begins, key=lambda one: abs(one[0])) if begins else (None, "")
    size = run.size if family.is_sized else None
    return Result(family, seed, size, delay, by, findings)


def families(written: str = "") -> list[Family]:
    """All families, or those of one file."""
    return [family for family in FAMILIES if written in ("", family.written)]
