"""Marks on the step axis of curves: resumes, findings and evaluations."""

from __future__ import annotations

from typing import NoReturn

from board.components.curve_grid import Mark
from board.query import splits
from board.views.frame import sidebar
from board.views.shared import cache, finding_counts, state
from board.views.shared.text import counted, one_line


def of_run() -> list[Mark]:
    """The marks of the current run; of findings those that are known already: nothing waits for them."""
    return [*_resumes(), *_evaluations(), *_findings()]


def _resumes() -> list[Mark]:
    return [
        Mark(step, "resumed", f"The training was resumed from step {step}.")
        for step in sidebar.whole().visible.resumed_at
    ]


def _evaluations() -> list[Mark]:
    return [
        Mark(
            step,
            "evaluation",
            f"Evaluation at step {step}: {counted(count, 'rollout')} of split "
            f"{one_line(run.split or '', 40)}",
            splits.written(run.split or ""),
        )
        for run in sidebar.evaluations()
        for step, count in run.counts.items()
    ]


def _findings() -> list[Mark]:
    run = sidebar.current()
    limits = finding_counts.limits_of(run)
    found = cache.findings(run, limits).result or cache.index_findings(run, limits).result
    return [
        Mark(one.step, "finding", f"Step {one.step}, {one.severity}: {one.title}", str(nth))
        for nth, one in enumerate(found.findings if found else ())
        if one.step is not None
    ]


def open_mark(mark: Mark) -> NoReturn:
    """Opens the finding, or the step of a resume or of an evaluation."""
    if mark.kind == "finding":
        state.go("findings", nth=int(mark.id), severity=[])
    split = mark.id if mark.kind == "evaluation" else str(state.get("split"))
    state.go("step", step=mark.step, index=None, token=None, zoom=None, split=split)
