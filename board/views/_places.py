"""From what a rule names to the page that shows it."""

from __future__ import annotations

from typing import Any, Final

from board.core.aggregate import REDUCTIONS
from board.core.findings.finding import Evidence, Finding, Target
from board.store.run import Run
from board.views import _state

_COLUMN_OF: Final = {m: column for column, m, how in REDUCTIONS if how == "mean"}
_PAGE_OF: Final = {"tokens": "spike"}
_NAMES: Final = {
    "spike": "Spike",
    "rollouts": "Rollouts",
    "rollout": "Rollout",
    "overview": "Overview",
    "health": "Log health",
    "groups": "Groups",
    "mismatch": "Mismatch",
}


def of_target(run: Run, target: Target) -> tuple[str, dict[str, Any]]:
    """The page of a finding's target, and the choices that show it there."""
    page = _PAGE_OF.get(target.page, target.page)
    if not (_state.VIEWS / f"{page}.py").is_file():
        page = "spike" if target.metric else "rollouts"
    choices: dict[str, Any] = {"token": target.position, "index": target.index or 0}
    if target.step is not None:
        choices["step"] = target.step
    column = _COLUMN_OF.get(target.metric, target.metric)
    if page == "spike":
        choices |= {"of": column if column in run.metrics else "", "only": "", "order": "highest"}
    if page == "rollouts":
        choices |= {"scope": "step", "range": {}, "q": "", "group": [], "env": [], "finish": []}
        if column in run.columns:
            choices |= {"sort": column, "desc": True}
    if page == "rollout":
        choices |= {"metric": _token_metric(run, target.metric), "vs": ""}
    return page, choices


def of_evidence(finding: Finding, evidence: Evidence, run: Run) -> dict[str, Any]:
    """The choices that show a rollout, or a token of it, on the page Rollout."""
    metric = _token_metric(run, finding.target.metric)
    place = {"step": evidence.step, "index": evidence.index, "token": evidence.position}
    return {**place, "metric": metric, "vs": ""}


def _token_metric(run: Run, name: str) -> str:
    """The token metric to colour by; the page's own first one where the rule names none of tokens."""
    return name if _COLUMN_OF.get(name) in run.metrics else ""


def name_of(page: str) -> str:
    """The title of a page."""
    return _NAMES.get(page, page)
