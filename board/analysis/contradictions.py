"""What a log says twice and does not agree on, as notes of `check`."""

from __future__ import annotations

import numpy as np

from board.analysis.findings import default_thresholds
from board.core.findings.facts import Facts, StepRows
from board.core.findings.rules import find
from board.core.problems import RUN_ITSELF, Problem
from board.errors import NotFoundError
from board.query.facts.relations import relations_of
from board.query.open_run import Run


def contradictions(run: Run) -> tuple[Problem, ...]:
    """A note for each relation between columns that held and breaks. Raises UnreadableError."""
    steps = np.array([*run.counts], np.int64)
    facts = Facts(steps, {}, _no_rows, relations=lambda: relations_of(run, steps))
    hits = find(facts, default_thresholds(), only=("contradiction",))
    return tuple(
        Problem(RUN_ITSELF, None, one.target.metric, one.text, "Contradiction", "note")
        for one in hits
    )


def _no_rows(step: int) -> StepRows:
    raise NotFoundError(f"the rollouts of step {step} are not read for this")
