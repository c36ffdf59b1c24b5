"""Looks a run over: gathers what the rules of core.findings need, and runs them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.analysis.finding_rows import RowsOfSteps
from board.analysis.own_thresholds import default_thresholds
from board.analysis.token_sample import Budget, Progress, TokenSample
from board.core.findings import TOKEN_RULES, find
from board.core.findings.digest import Digest
from board.core.findings.facts import Facts
from board.core.findings.finding import Finding
from board.core.findings.thresholds import Thresholds
from board.core.metrics.definitions import REWARD_PART
from board.core.records import FloatArray
from board.formats import reader_named
from board.query.advantages import advantage_fit, expected_advantages
from board.query.checks import copies, expects_all_ranks, step_checks
from board.query.environments import environment_curves
from board.query.groups import groups_of_run
from board.query.open_run import Run

_REFINEMENTS: Final = 24
"""Steps that are read besides, to tell at which one something began."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """findings: the worst first. steps_read: whose tokens were looked at, of `steps`; rollouts_read."""

    findings: tuple[Finding, ...]
    steps_read: int
    steps: int
    rollouts_read: int


def diagnose(
    run: Run,
    thresholds: Thresholds | None = None,
    *,
    tokens: bool = True,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """What the rules find in a run. tokens: whether to read token arrays, which the rules in
    core.findings.TOKEN_RULES need; without, the index alone is looked at.

    A step at which something of the tokens begins is told exactly where the step before it was read;
    where steps were passed over, those between are looked at, half by half.
    """
    limits = thresholds or default_thresholds()
    facts = facts_of(run)
    if not tokens or not len(facts.steps):
        return Diagnosis(tuple(find(facts, limits)), 0, len(facts.steps), 0)
    sample = TokenSample(run, budget or Budget(), progress)
    digests = dict(sample.digests())
    findings = find(_with(facts, digests), limits)
    for _ in range(_REFINEMENTS):
        between = _between(facts.steps, digests, findings)
        if not between:
            break
        digests |= sample.digests_of(between)
        findings = find(_with(facts, digests), limits)
    read = sum(found.read for found in digests.values())
    return Diagnosis(tuple(findings), len(digests), len(facts.steps), read)


def _with(facts: Facts, digests: Mapping[int, Digest]) -> Facts:
    return replace(facts, digests=tuple(digests[step] for step in sorted(digests)))


def _between(
    steps: npt.NDArray[np.int64], digests: Mapping[int, Digest], findings: Iterable[Finding]
) -> set[int]:
    """Steps in the middle between one where something of the tokens holds and the one read before."""
    read = np.array(sorted(digests))
    found: set[int] = set()
    for finding in findings:
        if finding.rule not in TOKEN_RULES or finding.first_step is None:
            continue
        place = int(np.searchsorted(read, finding.first_step))
        before = int(read[place - 1]) if place else int(steps[0]) - 1
        unread = steps[(steps > before) & (steps < finding.first_step)]
        if len(unread):
            found.add(int(unread[len(unread) // 2]))
    return found


def facts_of(run: Run) -> Facts:
    """What the index says of a run, without a look at its log or at its rollouts."""
    steps = run.steps["step"].to_numpy(np.int64)
    groups = groups_of_run(run)
    env_rewards = environment_curves(run) if "reward" in run.columns else None
    return Facts(
        steps=steps,
        curves=_Curves(run.steps),
        rows_of=RowsOfSteps(run, groups, () if env_rewards is None else env_rewards.names),
        checks=step_checks(run),
        groups=groups,
        fit=advantage_fit(run),
        expected_advantages=partial(expected_advantages, run),
        env_rewards=env_rewards,
        parts=[name for name in run.columns if name.startswith(REWARD_PART)],
        world_sizes=run.shown.world_sizes() if expects_all_ranks(run) else {},
        growing=frozenset(steps[-1:].tolist()) & frozenset(run.missing_ranks),
        copies=copies(run),
        rewritten=_rewritten(run),
        trained_until=_trained_until(run),
    )


def _trained_until(run: Run) -> int | None:
    """The newest step of the trainer's log, where it is joined with others."""
    joined = ((reader_named(count.source).join, count.last_step) for count in run.joins)
    return max(
        (
            step
            for join, step in joined
            if join is not None and join.is_trainer and step is not None
        ),
        default=None,
    )


class _Curves(Mapping[str, FloatArray]):
    """Columns of the table of steps as numbers, converted when they are asked for."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table

    def __getitem__(self, name: str) -> FloatArray:
        return pd.to_numeric(self._table[name]).to_numpy(np.float64, na_value=np.nan)

    def __iter__(self) -> Any:
        return iter(self._table.columns)

    def __len__(self) -> int:
        return len(self._table.columns)


def _rewritten(run: Run) -> tuple[int, int, int] | None:
    if not run.superseded:
        return None
    steps = run.superseded_rollouts()["step"]
    return int(steps.min()), int(steps.max()), run.superseded
