"""Permalinks to what an answer speaks of, in the dashboard; and how a report cites a mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from board.analysis.report_check import ReportCheck
from board.core.citations import citation_text, citations_in
from board.query import splits
from board.query.run import Run


@dataclass(frozen=True, slots=True)
class Links:
    """base: the address of a dashboard on the same folder; empty: links are relative to it."""

    base: str = ""

    def page(self, page: str, run: Run, **choices: Any) -> str:
        """The address of a page (`step`, say; "" is the overview) of a run, with what is chosen there.

        choices: by the names that the dashboard's URL has for them; None and "" are left out.
        """
        right_from = run.options.right_from
        named = {
            "run": run.info.name,
            "split": split_of(run),
            "right_from": None if right_from is None else f"{right_from:g}",
            **choices,
        }
        query = urlencode({k: v for k, v in named.items() if v is not None and v != ""})
        return f"{self.base.rstrip('/')}/{page}?{query}"

    def rollout(
        self, run: Run, step: int, index: int, token: int | None = None, metric: str = ""
    ) -> str:
        """The address of a rollout, at a token and coloured by a token metric where they are given."""
        place = {"step": step, "index": index, "token": token}
        return self.page("rollouts", run, **place, reader_metric=metric)


def split_of(run: Run) -> str:
    """The split as a link has it; empty where the run has only one."""
    if run.split is not None:
        return splits.written(run.split)
    whole = run.whole or run
    count = whole.remembered("count of splits", lambda: len(splits.splits_of(whole)))
    return splits.ALL if count > 1 else ""


def of_part(run: Run) -> dict[str, str]:
    """The keys of a citation that say which split and environments a mean is of."""
    parts = {"split": split_of(run), "env": ",".join(run.envs)}
    return {name: value for name, value in parts.items() if value}


def cite(run: Run, **keys: object) -> str:
    """A citation of a place of a run; keys that are None are left out."""
    known = {name: value for name, value in keys.items() if value is not None}
    return citation_text(run.info.name, **known)


def cite_mean(run: Run, metric: str, step: int | str) -> str | None:
    """The citation of a mean of a step of these rollouts; None where a filter chose them."""
    return None if run.expression else cite(run, metric=metric, step=step, **of_part(run))


def citation_that_holds(
    check: ReportCheck, run: Run, value: float | None, keys: Mapping[str, object]
) -> str | None:
    """The citation of a value, where `verify` finds that value there; else None."""
    if value is None or run.expression or keys.get("step") is None:
        return None
    citation = cite(run, **keys)
    report = citations_in(f"{value:.6g} {citation}")
    return citation if all(check.check(one).holds for one in report.citations) else None
