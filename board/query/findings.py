"""Looks a run over: gathers what the rules of core.findings need, and runs them."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false
# pyarrow ships without types, and makes its compute functions when it is imported.

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.core.findings import TOKEN_RULES, find
from board.core.findings.digest import Digest, digest
from board.core.findings.facts import Facts
from board.core.findings.finding import Finding
from board.core.findings.thresholds import Thresholds
from board.core.metrics import REWARD_PART
from board.core.records import FloatArray
from board.query.advantages import advantage_fit, expected_advantages
from board.query.checks import copies, expects_all_ranks, step_checks
from board.query.environments import environment_curves
from board.query.finding_rows import RowsOfSteps
from board.query.groups import groups_of_run
from board.readers import reader_named
from board.store import group_ids
from board.store.own_thresholds import default_thresholds
from board.store.rollout_tokens import ReadTokens
from board.store.run import Run
from board.store.step_tokens import COLUMNS, StepReader

Progress = Callable[[int, int], None]
"""Called with bytes read and bytes to read; raising from it stops the reading."""

_LEAST_STEPS: Final = 8
_REFINEMENTS: Final = 24
"""Steps that are read besides, to tell at which one something began."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of the token arrays is read. rollouts: of each step at most, whole groups evenly spread;
    bytes: of the log in all; steps evenly spread where that is not enough for all.
    """

    rollouts: int = 64
    bytes: int = 256 << 20


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
    chosen = _Chosen(run, budget or Budget(), progress)
    digests = dict(chosen.digests(chosen.steps))
    findings = find(_with(facts, digests), limits)
    for _ in range(_REFINEMENTS):
        between = _between(facts.steps, digests, findings)
        if not between:
            break
        digests |= chosen.digests(between)
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


class _Chosen:
    """Which rollouts of which steps are read, and their digests."""

    def __init__(self, run: Run, budget: Budget, progress: Progress | None) -> None:
        self._budget, self._progress = budget, progress
        self._reader = StepReader(run, ReadTokens(roles=False, texts=True))
        self._table = run.chosen((*COLUMNS, *group_ids.COLUMNS))
        self._groups = group_ids.group_codes(self._table)
        self._sizes = self._table["size"].to_numpy(np.float64)
        steps, firsts, counts = np.unique(
            self._table["step"].to_numpy(np.int64), return_index=True, return_counts=True
        )
        bounds = zip(firsts.tolist(), (firsts + counts).tolist(), strict=True)
        self._rows_of = dict(zip(steps.tolist(), bounds, strict=True))
        each = np.add.reduceat(self._sizes, firsts) * np.minimum(budget.rollouts / counts, 1.0)
        share = min(1.0, budget.bytes / max(float(each.sum()), 1.0))
        count = max(int(len(steps) * share), min(len(steps), _LEAST_STEPS))
        places = np.unique(np.linspace(0, len(steps) - 1, count).round().astype(int))
        self.steps: list[int] = steps[places].tolist()
        self._total = int(each[places].sum())
        self._done = 0

    def digests(self, steps: Iterable[int]) -> Iterator[tuple[int, Digest]]:
        """Digests of these steps, in ascending order."""
        groups: dict[int, dict[int, int]] = {}
        places: list[npt.NDArray[np.intp]] = []
        indices = self._table["index"].to_numpy(np.int64)
        for step in sorted(steps):
            first, end = self._rows_of[step]
            own = _numbered(self._groups[first:end])
            sample = _sample(own, self._budget.rollouts)
            places.append(first + sample)
            of = zip(indices[first + sample].tolist(), own[sample].tolist(), strict=True)
            groups[step] = dict(of)
        rows = self._table.iloc[np.concatenate(places)]
        for tokens in self._reader.steps(rows):
            of_index = groups.pop(tokens.step)
            own = np.array([of_index[index] for index in tokens.indices.tolist()], np.int64)
            broken = tokens.numbers.get("broken", np.zeros(len(tokens.indices)))
            first, end = self._rows_of[tokens.step]
            self._report(int(self._sizes[places.pop(0)].sum()))
            yield tokens.step, digest(tokens, own, broken, end - first)

    def _report(self, size: int) -> None:
        """Tells that so many bytes more were read."""
        self._done += size
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


def _numbered(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[rollouts] groups counted from 0 in the order of their first rollouts, -1 where there is none."""
    found = np.full(len(codes), -1, np.int64)
    found[codes >= 0] = pd.factorize(codes[codes >= 0])[0]
    return found


def _sample(groups: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.intp]:
    """Places of at most so many rollouts: whole groups, evenly spread, or evenly spread rollouts."""
    if len(groups) <= most:
        return np.arange(len(groups))
    if (groups < 0).any():
        return np.linspace(0, len(groups) - 1, most).round().astype(np.intp)
    size = np.bincount(groups)
    count = max(int(most // max(size.mean(), 1)), 1)
    wanted = np.linspace(0, len(size) - 1, min(count, len(size))).round().astype(np.int64)
    return np.flatnonzero(np.isin(groups, wanted))[:most].astype(np.intp)


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
