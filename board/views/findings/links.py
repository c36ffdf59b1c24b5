"""Links to other pages: from what a rule names to the page that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from board.core.findings.finding import Evidence, Finding, Target
from board.core.metrics.definitions import REDUCTIONS
from board.query.groups import group_names
from board.query.open_run import Run

_COLUMN_OF: Final = {m: column for column, m, how in REDUCTIONS if how == "mean"}
_PAGE_OF: Final = {
    "tokens": "step",
    "groups": "step",
    "health": "findings",
    "environments": "overview",
    "rollout": "rollouts",
}


def of_target(run: Run, target: Target) -> tuple[str, dict[str, Any]]:
    """The page of a finding's target, and the choices that show it there."""
    step = {} if target.step is None else {"step": target.step}
    place = {"token": target.position, "index": target.index, **step}
    return _PAGE_OF.get(target.page, target.page), place | _choices_of_page(run, target)


def _choices_of_page(run: Run, target: Target) -> dict[str, Any]:
    column = _COLUMN_OF.get(target.metric, target.metric)
    match target.page:
        case "tokens":
            grouping = target.only.partition(":")[0]
            return {
                "step_part": "contributions",
                "step_metric": column if column in run.metrics else "",
                "step_only": target.only,
                "step_order": "lowest" if target.lowest else "highest",
                **({"step_types": grouping} if grouping else {}),
            }
        case "rollouts":
            everything = {"range": {}, "q": "", "group": [], "env": [], "finish": [], "where": ""}
            order = {"sort": column, "desc": not target.lowest} if column in run.columns else {}
            return {"rollouts_scope": "step", **everything, **order}
        case "rollout":
            return {"reader_metric": _token_metric(run, target.metric), "reader_vs": ""}
        case "groups":
            fill = "advantage" if target.metric == "advantage" else "reward"
            return {
                "step_part": "groups",
                "groups_values": fill,
                "groups_id": _group_of(run, target),
                "groups_first": 0,
            }
        case "mismatch":  # by position and by the measure that the rules look at
            return {"mismatch_measure": "multiplicative", "mismatch_slice": "position"}
        case "environments":
            is_metric = column in run.metrics
            return {
                "overview_by": "env",
                "env": [target.env] if target.env else [],
                "overview_metrics": [column] if is_metric else [],
                "overview_metric": column if is_metric else "",
            }
        case "health":
            return {"findings_health": True, "findings_superseded": target.written_again}
        case _:
            return {}


def _group_of(run: Run, target: Target) -> str:
    """The group of the rollout that a target names; empty where there is none."""
    if target.step is None or target.step not in run.counts:  # the log may have changed since
        return ""
    rows = run.of_step(target.step)
    names = group_names(rows)[rows["index"] == target.index]
    return str(names.iloc[0]) if len(names) else ""


def of_evidence(finding: Finding, evidence: Evidence, run: Run) -> dict[str, Any]:
    """The choices that show a rollout, or a token of it, in the reader."""
    address = {"step": evidence.step, "index": evidence.index, "token": evidence.position}
    return {**address, "reader_metric": _token_metric(run, finding.target.metric), "reader_vs": ""}


def _token_metric(run: Run, name: str) -> str:
    """The token metric to colour by; the page's own first one where the rule names none of tokens."""
    return name if _COLUMN_OF.get(name) in run.metrics else ""


def label(page: str, choices: Mapping[str, Any]) -> str:
    """A link's words: the page, or the part of it, and its step."""
    if choices.get("findings_health"):
        return "Log health"
    name = "Groups" if choices.get("step_part") == "groups" else page.capitalize()
    return f"{name}, step {choices['step']}" if "step" in choices else name
