"""Looks a run over: gathers what the rules of core.findings need, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from board.analysis.own_thresholds import default_thresholds
from board.analysis.token_sample import Budget, Progress, TokenSample
from board.core.findings import TOKEN_RULES, find
from board.core.findings.digest import Digest
from board.core.findings.facts import Facts, StepRows
from board.core.findings.finding import Finding
from board.core.findings.thresholds import Thresholds
from board.core.groups.statistics import Groups
from board.core.metrics.definitions import REWARD_PART
from board.core.records import FloatArray
from board.formats import reader_named
from board.index import group_ids
from board.query.advantages import advantage_fit, expected_advantages
from board.query.checks import copies, expects_all_ranks, step_checks
from board.query.environments import environment_curves
from board.query.groups import groups_of_run, places_of
from board.query.open_run import Run
from board.query.stored_rows import StoredRows

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
        world_sizes=run.visible.world_sizes() if expects_all_ranks(run) else {},
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


_COLUMNS: Final = (
    *("reward", "advantage", "response_tokens", "is_truncated", "rank", "timestamp"),
    *("k3_mean", "entropy_mean"),
)
_LABELS: Final = (*group_ids.COLUMNS, "env")
_ROWS_KEPT: Final = 16
_ALONE: Final = 2


class RowsOfSteps:
    """The rollouts of a step, read when a rule names some of them; the last few steps are kept.

    groups: of the run; envs: names of its environments.
    """

    def __init__(self, run: Run, groups: Groups | None, envs: Sequence[str]) -> None:
        self._run, self._groups, self._envs = run, groups, envs
        parts = (name for name in run.columns if name.startswith(REWARD_PART))
        self._numbers = [name for name in (*_COLUMNS, *parts) if name in run.columns]
        self._kept: dict[int, StepRows] = {}

    def __call__(self, step: int) -> StepRows:
        """As Facts.rows_of."""
        if step not in self._kept:
            if len(self._kept) >= _ROWS_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[step] = self._read(step)
        return self._kept[step]

    def _read(self, step: int) -> StepRows:
        def read(columns: Sequence[str]) -> StoredRows:
            return self._run.stored_rows(step, columns)

        return _StepRows(step, read, self._numbers, self._groups, self._envs)


@dataclass(frozen=True)
class _StepRows:
    """StepRows whose columns are read when a rule asks for them: mostly for one, by which rollouts are
    named, or for their environment, too; for a third one all are. numbers: names of the columns; of_run:
    groups of the run; names: of its environments.
    """

    step: int
    read: Callable[[Sequence[str]], StoredRows]
    numbers: Sequence[str]
    of_run: Groups | None
    names: Sequence[str]
    _alone: list[tuple[str, StoredRows]] = field(default_factory=list[tuple[str, StoredRows]])

    def rows(self, column: str) -> StoredRows:
        """The rollouts with a column, and maybe with others."""
        if "_all" in self.__dict__:
            return self._all
        found = next((rows for name, rows in self._alone if name == column), None)
        if found is None and len(self._alone) < _ALONE:
            self._alone.append((column, found := self.read((column,))))
        return self._all if found is None else found

    @cached_property
    def _all(self) -> StoredRows:
        return self.read((*self.numbers, *_LABELS))

    @property
    def indices(self) -> npt.NDArray[np.int64]:
        rows = self._alone[0][1] if self._alone else self._all
        return rows.indices.astype(np.int64)

    @property
    def columns(self) -> Mapping[str, FloatArray]:
        return self._columns

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        return self._groups

    @property
    def envs(self) -> npt.NDArray[np.int64]:
        rows = self.rows("env")
        return _places(rows.frame(("env",)), self.names, len(rows.indices))

    @cached_property
    def _columns(self) -> Mapping[str, FloatArray]:
        return _Numbers(self.rows, self.numbers)

    @cached_property
    def _groups(self) -> npt.NDArray[np.int64]:
        if self.of_run is None:
            return np.full(len(self.indices), -1, np.int64)
        return places_of(self.of_run, self.step, self._all.frame(group_ids.COLUMNS))


def _places(rows: pd.DataFrame, envs: Sequence[str], count: int) -> npt.NDArray[np.int64]:
    """[count] the place of each rollout's environment among these, -1 for none."""
    if "env" not in rows:
        return np.full(count, -1, np.int64)
    of = {name: place for place, name in enumerate(envs)}
    places = np.array([*(of.get(str(n), -1) for n in rows["env"].cat.categories), -1], np.int64)
    return places[np.asarray(rows["env"].cat.codes, np.int64)]


class _Numbers(Mapping[str, FloatArray]):
    """Columns of rows as numbers, read and converted when they are asked for."""

    def __init__(self, rows: Callable[[str], StoredRows], names: Sequence[str]) -> None:
        self._rows, self._names = rows, names
        self._made: dict[str, FloatArray] = {}

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._rows(name).numbers(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
