"""From what a rule names to the page that shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from board.core.findings.finding import Evidence, Finding, Target
from board.core.metrics.aggregate import REDUCTIONS
from board.errors import NotFoundError
from board.index.group_ids import group_names
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
    page = _PAGE_OF.get(target.page, target.page)
    choices: dict[str, Any] = {"token": target.position, "index": target.index}
    if target.step is not None:
        choices["step"] = target.step
    of_page = _CHOICES.get(target.page)
    return page, choices | (of_page(run, target) if of_page else {})


def _contributions(run: Run, target: Target) -> dict[str, Any]:
    column = _column(target)
    grouping = target.only.partition(":")[0]
    return {
        "part": "contributions",
        "of": column if column in run.metrics else "",
        "only": target.only,
        "order": "lowest" if target.lowest else "highest",
        **({"types": grouping} if grouping else {}),
    }


def _rollouts(run: Run, target: Target) -> dict[str, Any]:
    everything: dict[str, Any] = {"range": {}, "q": "", "group": [], "env": [], "finish": []}
    column = _column(target)
    order = {"sort": column, "desc": not target.lowest} if column in run.columns else {}
    return {"scope": "step", **everything, "where": "", **order}


def _rollout(run: Run, target: Target) -> dict[str, Any]:
    return {"metric": _token_metric(run, target.metric), "vs": ""}


def _groups(run: Run, target: Target) -> dict[str, Any]:
    fill = "advantage" if target.metric == "advantage" else "reward"
    return {"part": "groups", "fill": fill, "gid": _group_of(run, target), "gfrom": 0}


def _group_of(run: Run, target: Target) -> str:
    """The group of the rollout that a target names; empty where there is none."""
    if target.step is None or target.index is None:
        return ""
    try:
        run.row(target.step, target.index)
    except NotFoundError:  # the log has changed since the rules looked
        return ""
    rows = run.of_step(target.step)
    return str(group_names(rows)[rows["index"] == target.index].iloc[0])


def _mismatch(run: Run, target: Target) -> dict[str, Any]:
    """By position and by the measure that the rules look at."""
    return {"measure": "multiplicative", "slice": "position"}


def _environments(run: Run, target: Target) -> dict[str, Any]:
    column = _column(target)
    return {
        "by": "env",
        "env": [target.env] if target.env else [],
        "emetrics": [column] if column in run.metrics else [],
        "emulti": column if column in run.metrics else "",
    }


def _health(run: Run, target: Target) -> dict[str, Any]:
    return {"health": True, "old": target.written_again}


_CHOICES: Final[dict[str, Callable[[Run, Target], dict[str, Any]]]] = {
    "tokens": _contributions,
    "rollouts": _rollouts,
    "rollout": _rollout,
    "groups": _groups,
    "mismatch": _mismatch,
    "environments": _environments,
    "health": _health,
}


def of_evidence(finding: Finding, evidence: Evidence, run: Run) -> dict[str, Any]:
    """The choices that show a rollout, or a token of it, in the reader."""
    metric = _token_metric(run, finding.target.metric)
    place = {"step": evidence.step, "index": evidence.index, "token": evidence.position}
    return {**place, "metric": metric, "vs": ""}


def _column(target: Target) -> str:
    return _COLUMN_OF.get(target.metric, target.metric)


def _token_metric(run: Run, name: str) -> str:
    """The token metric to colour by; the page's own first one where the rule names none of tokens."""
    return name if _COLUMN_OF.get(name) in run.metrics else ""


def label(page: str, choices: Mapping[str, Any]) -> str:
    """A link's words: the page, or the part of it, and its step."""
    if choices.get("health"):
        return "Log health"
    name = "Groups" if choices.get("part") == "groups" else page.capitalize()
    return f"{name}, step {choices['step']}" if "step" in choices else name
